// Does to a running broker of Apache Kafka what crates/config/tests/oracle/scenario.txt says and prints what it answers.
//
// Usage: java ConfigOracle <scenario.txt> <bootstrap server>
//        java ConfigOracle <scenario.txt>                     prints the static properties

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigOracle {
    static Properties fixed = new Properties();
    static Admin admin;

    public static void main(String[] args) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(args[0]));
        for (String line : lines) {
            if (line.startsWith("static ")) {
                String[] pair = line.substring(7).split("=", 2);
                fixed.put(pair[0], pair[1]);
            }
        }
        if (args.length == 1) {
            fixed.forEach((key, value) -> System.out.println(key + "=" + value));
            return;
        }
        Properties client = new Properties();
        client.put("bootstrap.servers", args[1]);
        admin = Admin.create(client);
        for (String line : lines) {
            if (line.isEmpty() || line.startsWith("#") || line.startsWith("static ")) {
                continue;
            }
            System.out.println("> " + line);
            String[] words = line.split(" ", 4);
            switch (words[0]) {
                case "topic" -> topic(line.split(" "));
                case "alter" -> alter(words[1], name(words[2]), words[3]);
                case "describe" -> describe(words[1], name(words[2]));
                case "value" -> value(words[1], words[2], words.length > 3 ? words[3] : "");
                case "start" -> start(line.substring(6));
                default -> throw new IllegalStateException(line);
            }
        }
        admin.close();
    }

    static String name(String word) {
        return word.equals("-") ? "" : word;
    }

    static void topic(String[] words) throws Exception {
        Map<String, String> configs = new java.util.HashMap<>();
        for (int i = 2; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            configs.put(pair[0], pair[1]);
        }
        admin.createTopics(List.of(new NewTopic(words[1], Optional.of(1), Optional.empty()).configs(configs))).all().get();
        System.out.println("ok");
    }

    static void alter(String kind, String name, String changes) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        for (String change : changes.split(" ; ")) {
            String[] words = change.split(" ", 2);
            String[] pair = words[1].split("=", 2);
            ops.add(new AlterConfigOp(new ConfigEntry(pair[0], pair.length > 1 ? pair[1] : null),
                    AlterConfigOp.OpType.valueOf(words[0])));
        }
        Map<ConfigResource, Collection<AlterConfigOp>> request =
                Map.of(new ConfigResource(ConfigResource.Type.valueOf(kind), name), ops);
        try {
            admin.incrementalAlterConfigs(request).all().get();
            System.out.println("ok");
            // The change has to reach the broker before it is described.
            Thread.sleep(500);
        } catch (ExecutionException e) {
            refused(e.getCause());
        } catch (Exception e) {
            refused(e);
        }
    }

    static void refused(Throwable error) {
        System.out.println(Errors.forException(error) + ": " + error.getMessage());
    }

    static void describe(String kind, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.valueOf(kind), name);
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        try {
            var config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
            List<ConfigEntry> entries = new ArrayList<>(config.entries());
            entries.sort(Comparator.comparing(ConfigEntry::name));
            for (ConfigEntry entry : entries) {
                StringBuilder synonyms = new StringBuilder();
                for (var synonym : entry.synonyms()) {
                    synonyms.append(' ').append(synonym.source()).append(':').append(synonym.name()).append('=')
                            .append(synonym.value());
                }
                System.out.println(entry.name() + "=" + entry.value() + " " + entry.source() + " " + entry.type()
                        + (entry.isSensitive() ? " sensitive" : "") + (entry.isReadOnly() ? " read-only" : "")
                        + (entry.documentation() == null ? " undocumented" : "") + " [" + synonyms.toString().trim() + "]");
            }
        } catch (ExecutionException e) {
            refused(e.getCause());
        }
    }

    static void value(String scope, String key, String text) throws Exception {
        ConfigDef definition = switch (scope) {
            case "broker" -> AbstractKafkaConfig.CONFIG_DEF;
            case "topic" -> LogConfig.configDefCopy();
            case "group" -> GroupConfig.CONFIG_DEF;
            default -> throw new IllegalStateException(scope);
        };
        ConfigDef one = new ConfigDef();
        one.define(definition.configKeys().get(key));
        try {
            Object parsed = one.parse(Map.of(key, text)).get(key);
            System.out.println("= " + ConfigDef.convertToString(parsed, definition.configKeys().get(key).type));
        } catch (Exception e) {
            System.out.println(e.getMessage());
        }
    }

    static void start(String changes) {
        Properties properties = new Properties();
        properties.putAll(fixed);
        for (String change : changes.split(" ; ")) {
            String[] pair = change.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        try {
            new kafka.server.KafkaConfig(properties, false);
            System.out.println("ok");
        } catch (Exception e) {
            System.out.println(e.getMessage());
        }
    }
}
