import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The agent of Apache Kafka's Java client, for releases from 2.8 on. The commands are described in ../README.md.
 */
public class Agent {
    /** Values longer than this are told by their hash, so that answers stay readable. */
    static final int SHOWN_BYTES = 256;
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration PATIENCE = Duration.ofMillis(200);

    final String bootstrap;
    final Map<String, Member> members = new HashMap<>();

    Agent(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    static String show(byte[] data) throws Exception {
        if (data == null) {
            return null;
        }
        if (data.length <= SHOWN_BYTES) {
            return Base64.getEncoder().encodeToString(data);
        }
        StringBuilder hex = new StringBuilder("sha256:");
        for (byte one : MessageDigest.getInstance("SHA-256").digest(data)) {
            hex.append(String.format("%02x", one));
        }
        return hex.toString();
    }

    static byte[] unshow(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static ObjectNode told(ConsumerRecord<byte[], byte[]> record) throws Exception {
        ObjectNode line = JSON.createObjectNode();
        line.put("topic", record.topic()).put("partition", record.partition()).put("offset", record.offset());
        line.put("timestamp", record.timestamp()).put("key", show(record.key())).put("value", show(record.value()));
        ArrayNode headers = line.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(show(header.value()));
        }
        return line;
    }

    static ObjectNode write(String path, List<ObjectNode> records) throws Exception {
        StringBuilder text = new StringBuilder();
        for (ObjectNode record : records) {
            text.append(JSON.writeValueAsString(record)).append('\n');
        }
        Files.writeString(Path.of(path), text);
        return JSON.createObjectNode().put("records", records.size());
    }

    Map<String, Object> common() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        return config;
    }

    Consumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> config = common();
        config.put("enable.auto.commit", false);
        config.putAll(more);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    ObjectNode features() throws Exception {
        Properties about = new Properties();
        try (var in = KafkaConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            about.load(in);
        }
        ObjectNode said = JSON.createObjectNode();
        said.put("name", "java").put("version", about.getProperty("version")).put("assign", true).put("blurs", false);
        ArrayNode codecs = said.putArray("codecs");
        List.of("none", "gzip", "snappy", "lz4", "zstd").forEach(codecs::add);
        said.putArray("idempotence").add(true).add(false);
        said.putArray("lacks");
        ArrayNode protocols = said.putArray("protocols").add("classic");
        if (ConsumerConfig.configNames().contains("group.protocol")) {
            protocols.add("consumer");
        }
        return said;
    }

    ObjectNode produce(JsonNode ask) throws Exception {
        Map<String, Object> config = common();
        config.put("acks", "all");
        config.put("enable.idempotence", ask.get("idempotent").asBoolean());
        config.put("compression.type", ask.get("codec").asText());
        config.put("linger.ms", 5);
        config.put("max.request.size", 16 << 20);
        List<Future<?>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(Path.of(ask.get("file").asText()))) {
                JsonNode one = JSON.readTree(line);
                var record = new ProducerRecord<>(ask.get("topic").asText(), one.get("partition").asInt(),
                    one.get("timestamp").asLong(), unshow(one.get("key")), unshow(one.get("value")));
                for (JsonNode header : one.get("headers")) {
                    record.headers().add(header.get(0).asText(), unshow(header.get(1)));
                }
                sent.add(producer.send(record));
            }
            for (Future<?> one : sent) {
                one.get();
            }
        }
        return JSON.createObjectNode().put("records", sent.size());
    }

    ObjectNode consume(JsonNode ask) throws Exception {
        Map<TopicPartition, Long> ends = new HashMap<>();
        Map<TopicPartition, Long> offsets = new HashMap<>();
        Map<TopicPartition, Long> times = new HashMap<>();
        for (JsonNode part : ask.get("parts")) {
            TopicPartition name = new TopicPartition(part.get("topic").asText(), part.get("partition").asInt());
            ends.put(name, part.get("end").asLong());
            if (part.get("from").has("offset")) {
                offsets.put(name, part.get("from").get("offset").asLong());
            } else {
                times.put(name, part.get("from").get("timestamp").asLong());
            }
        }
        List<ObjectNode> records = new ArrayList<>();
        try (var consumer = consumer(Map.of("auto.offset.reset", "none"))) {
            consumer.assign(ends.keySet());
            if (!times.isEmpty()) {
                consumer.offsetsForTimes(times).forEach((name, found) -> offsets.put(name, found.offset()));
            }
            offsets.forEach(consumer::seek);
            while (!ends.isEmpty()) {
                for (var record : consumer.poll(PATIENCE)) {
                    TopicPartition name = new TopicPartition(record.topic(), record.partition());
                    if (!ends.containsKey(name) || record.offset() >= ends.get(name)) {
                        continue;
                    }
                    records.add(told(record));
                    if (record.offset() == ends.get(name) - 1) {
                        ends.remove(name);
                    }
                }
            }
        }
        return write(ask.get("file").asText(), records);
    }

    /** A member of a group that polls in a thread of its own. */
    final class Member extends Thread {
        final Map<String, Object> config = new HashMap<>();
        final List<String> topics = new ArrayList<>();
        final List<ObjectNode> records = new ArrayList<>();
        volatile boolean ending;
        List<TopicPartition> partitions = List.of();
        Throwable failure;

        Member(JsonNode ask) {
            String protocol = ask.get("protocol").asText();
            config.put("group.id", ask.get("group").asText());
            config.put("auto.offset.reset", "earliest");
            if (protocol.equals("consumer")) {
                config.put("group.protocol", protocol);
            } else {
                config.put("heartbeat.interval.ms", 300);
            }
            ask.get("topics").forEach(topic -> topics.add(topic.asText()));
            setDaemon(true);
        }

        @Override
        public void run() {
            try (var consumer = consumer(config)) {
                consumer.subscribe(topics);
                while (!ending) {
                    var polled = consumer.poll(PATIENCE);
                    synchronized (this) {
                        for (var record : polled) {
                            records.add(told(record));
                        }
                        partitions = List.copyOf(consumer.assignment());
                    }
                }
                consumer.commitSync();
            } catch (Throwable why) {
                synchronized (this) {
                    failure = why;
                }
            }
        }

        synchronized ObjectNode look() throws Exception {
            check();
            ObjectNode said = JSON.createObjectNode();
            ArrayNode named = said.putArray("partitions");
            partitions.forEach(part -> named.addArray().add(part.topic()).add(part.partition()));
            Map<String, Long> ends = new TreeMap<>();
            records.forEach(one -> ends.merge(one.get("partition").asText(), one.get("offset").asLong() + 1, Math::max));
            ends.forEach(said.putObject("ends")::put);
            return said;
        }

        ObjectNode leave(String path) throws Exception {
            ending = true;
            join();
            check();
            return write(path, records);
        }

        synchronized void check() throws Exception {
            if (failure != null) {
                throw new Exception(failure);
            }
        }
    }

    ObjectNode create(Admin admin, JsonNode ask) throws Exception {
        Map<String, String> configs = new HashMap<>();
        ask.get("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        NewTopic topic = new NewTopic(ask.get("topic").asText(), ask.get("partitions").asInt(), (short) 1);
        admin.createTopics(List.of(topic.configs(configs))).all().get();
        return JSON.createObjectNode();
    }

    ObjectNode describe(Admin admin, JsonNode ask) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, ask.get("topic").asText());
        Config found = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        ObjectNode said = JSON.createObjectNode();
        ObjectNode configs = said.putObject("configs");
        found.entries().forEach(entry -> configs.put(entry.name(), entry.value()));
        try (var consumer = consumer(Map.of())) {
            said.put("partitions", consumer.partitionsFor(ask.get("topic").asText()).size());
        }
        return said;
    }

    ObjectNode delete(Admin admin, JsonNode ask) throws Exception {
        admin.deleteTopics(List.of(ask.get("topic").asText())).all().get();
        boolean left = admin.listTopics().names().get().contains(ask.get("topic").asText());
        return JSON.createObjectNode().put("left", left);
    }

    ObjectNode answer(JsonNode ask) throws Exception {
        String command = ask.get("cmd").asText();
        switch (command) {
            case "features":
                return features();
            case "produce":
                return produce(ask);
            case "consume":
                return consume(ask);
            case "join":
                Member member = new Member(ask);
                members.put(ask.get("member").asText(), member);
                member.start();
                return JSON.createObjectNode();
            case "look":
                return members.get(ask.get("member").asText()).look();
            case "leave":
                return members.remove(ask.get("member").asText()).leave(ask.get("file").asText());
            default:
                try (Admin admin = Admin.create(common())) {
                    switch (command) {
                        case "create":
                            return create(admin, ask);
                        case "describe":
                            return describe(admin, ask);
                        default:
                            return delete(admin, ask);
                    }
                }
        }
    }

    public static void main(String[] args) throws Exception {
        Agent agent = new Agent(args[0]);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode said;
            try {
                said = agent.answer(JSON.readTree(line));
            } catch (Exception why) {
                StringWriter trace = new StringWriter();
                why.printStackTrace(new PrintWriter(trace));
                said = JSON.createObjectNode().put("error", trace.toString());
            }
            System.out.write((JSON.writeValueAsString(said) + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
        System.exit(0);
    }
}
