// Reads the option definitions out of the class files of an Apache Kafka release and writes them as the tables of
// crates/config/options: facts only (names, types, defaults, bounds, update modes, synonyms), none of the release's
// prose. The two last columns, `state` and `doc`, are this project's own; they are carried over from the table that is
// already there.
//
// Usage: java ExtractConfigs <directory of the tables>

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ExtractConfigs {
    static final String HEADER = "#name\ttype\tdefault\tvalid\timportance\tupdate\tsynonyms\tflags\tstate\tdoc";

    record Row(ConfigDef.ConfigKey key, String update, String synonyms, String flags) {}

    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]);
        write(dir.resolve("broker.tsv"), brokerRows());
        write(dir.resolve("topic.tsv"), topicRows());
        write(dir.resolve("group.tsv"), groupRows());
        write(dir.resolve("client-metrics.tsv"), clientMetricsRows());
    }

    static List<Row> brokerRows() throws Exception {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        Map<String, ConfigDef.ConfigKey> known = AbstractKafkaConfig.CONFIG_DEF.configKeys();
        List<Row> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : known.values()) {
            List<String> synonyms = DynamicBrokerConfig.brokerConfigSynonyms(key.name, false);
            String text = synonyms.equals(List.of(key.name)) ? "-" : String.join(",", synonyms);
            String more = DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS.contains(key.name) ? "listener-prefix" : null;
            rows.add(new Row(key, modes.getOrDefault(key.name, "read-only"), text, flags(key, more)));
        }
        // Options that exist only as dynamic ones: replication throttles.
        ConfigDef dynamic = (ConfigDef) only(DynamicConfig.Broker.class, ConfigDef.class);
        for (ConfigDef.ConfigKey key : dynamic.configKeys().values()) {
            if (!known.containsKey(key.name)) {
                rows.add(new Row(key, "cluster-wide", "-", flags(key, "dynamic-only")));
            }
        }
        return rows;
    }

    static List<Row> topicRows() {
        List<Row> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : LogConfig.configKeys().values()) {
            var synonyms = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.get(key.name);
            List<String> names = new ArrayList<>();
            if (synonyms != null) {
                for (var synonym : synonyms) {
                    names.add(synonym.name() + unit(synonym.converter().apply("1")));
                }
            }
            rows.add(new Row(key, "topic", names.isEmpty() ? "-" : String.join(",", names), flags(key, null)));
        }
        return rows;
    }

    static String unit(String oneConverted) {
        return switch (oneConverted) {
            case "1" -> "";
            case "60000" -> ":minutes";
            case "3600000" -> ":hours";
            default -> throw new IllegalStateException("unknown conversion: 1 becomes " + oneConverted);
        };
    }

    static List<Row> groupRows() {
        List<Row> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : GroupConfig.CONFIG_DEF.configKeys().values()) {
            Optional<String> synonym = GroupConfig.brokerSynonym(key.name);
            rows.add(new Row(key, "group", synonym.orElse("-"), flags(key, null)));
        }
        return rows;
    }

    static List<Row> clientMetricsRows() throws Exception {
        ConfigDef definition = (ConfigDef) only(ClientMetricsConfigs.class, ConfigDef.class);
        List<Row> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            rows.add(new Row(key, "client-metrics", "-", flags(key, null)));
        }
        return rows;
    }

    static Object only(Class<?> owner, Class<?> type) throws Exception {
        for (Field field : owner.getDeclaredFields()) {
            if (field.getType() == type) {
                field.setAccessible(true);
                return field.get(null);
            }
        }
        throw new IllegalStateException("no field of type " + type + " in " + owner);
    }

    static String flags(ConfigDef.ConfigKey key, String more) {
        List<String> flags = new ArrayList<>();
        if (key.internalConfig) {
            flags.add("internal");
        }
        if (more != null) {
            flags.add(more);
        }
        return flags.isEmpty() ? "-" : String.join(",", flags);
    }

    static String defaultOf(ConfigDef.ConfigKey key) {
        if (!key.hasDefault()) {
            return "required";
        }
        String text = ConfigDef.convertToString(key.defaultValue, key.type);
        return text == null ? "null" : text.isEmpty() ? "\"\"" : text;
    }

    static Object get(Object of, String field) throws Exception {
        Field f = of.getClass().getDeclaredField(field);
        f.setAccessible(true);
        return f.get(of);
    }

    @SuppressWarnings("unchecked")
    static String validOf(ConfigDef.Validator validator) throws Exception {
        if (validator == null) {
            return "-";
        }
        String name = validator.getClass().getSimpleName();
        switch (name) {
            case "Range": {
                Object min = get(validator, "min");
                Object max = get(validator, "max");
                return (min == null ? "" : min.toString()) + ".." + (max == null ? "" : max.toString());
            }
            case "ValidList": {
                List<String> strings = (List<String>) get(get(validator, "validString"), "validStrings");
                String flags = ((boolean) get(validator, "isEmptyAllowed") ? "+empty" : "")
                        + ((boolean) get(validator, "isNullAllowed") ? "+null" : "");
                return "list" + flags + ":" + String.join(",", strings);
            }
            case "ValidString":
                return "in:" + String.join(",", (List<String>) get(validator, "validStrings"));
            case "CaseInsensitiveValidString":
                return "in-any-case:" + String.join(",", new java.util.TreeSet<>((Set<String>) get(validator, "validStrings")));
            case "NonEmptyString":
                return "non-empty";
            case "NonNullValidator":
                return "non-null";
            case "ThrottledReplicaListValidator":
                return "throttled-replicas";
            case "ControllerQuorumVotersValidator":
                return "quorum-voters";
            case "ControllerQuorumBootstrapServersValidator":
                return "quorum-bootstrap-servers";
            case "LambdaValidator": {
                if (validator.toString().equals("[1,...,9] or -1")) {
                    return "1..9|-1";
                }
                break;
            }
            default:
                if (validator.getClass().getName().contains("ShareGroupAutoOffsetResetStrategy")) {
                    return "share-offset-reset";
                }
        }
        throw new IllegalStateException("unknown validator " + validator.getClass().getName() + ": " + validator);
    }

    /** The own columns of the table that is there: name to "state, tab, doc". */
    static Map<String, String> ownColumns(Path file) throws Exception {
        Map<String, String> own = new HashMap<>();
        if (Files.exists(file)) {
            for (String line : Files.readAllLines(file)) {
                String[] cells = line.split("\t", -1);
                if (!line.startsWith("#") && cells.length == 10) {
                    own.put(cells[0], cells[8] + "\t" + cells[9]);
                }
            }
        }
        return own;
    }

    static void write(Path file, List<Row> rows) throws Exception {
        Map<String, String> own = ownColumns(file);
        TreeMap<String, String> lines = new TreeMap<>();
        for (Row row : rows) {
            ConfigDef.ConfigKey key = row.key();
            lines.put(key.name, String.join("\t", key.name, key.type.toString().toLowerCase(), defaultOf(key),
                    validOf(key.validator), key.importance.toString().toLowerCase(), row.update(), row.synonyms(),
                    row.flags(), own.getOrDefault(key.name, "-\t-")));
        }
        List<String> text = new ArrayList<>();
        text.add(HEADER);
        text.addAll(lines.values());
        Files.write(file, (String.join("\n", text) + "\n").getBytes("UTF-8"));
        System.out.println(file.getFileName() + ": " + lines.size() + " options");
    }
}
