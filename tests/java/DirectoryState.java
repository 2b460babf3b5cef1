import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a data directory holds beyond records. "fill": two topics with settings, several segments of every codec, the brokers'
 * default retention, offsets of a group. "show": feature levels, ids and settings of the topics, settings of the brokers and
 * offsets of the groups, one a line, in order.
 *
 * Arguments: fill or show, bootstrap servers, the two topics.
 */
public final class DirectoryState {
    static final int RECORDS_PER_CODEC = 3000;
    static final ConfigResource BROKERS = new ConfigResource(ConfigResource.Type.BROKER, "");

    static void fill(Admin admin, String bootstrap, String mixed, String compact) throws Exception {
        admin.createTopics(List.of(
            new NewTopic(mixed, 2, (short) 1).configs(Map.of("retention.ms", "86400000000")),
            new NewTopic(compact, 1, (short) 1).configs(Map.of("cleanup.policy", "compact")))).all().get();
        Random random = new Random(11);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("compression.type", codec);
            try (Producer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int n = 0; n < RECORDS_PER_CODEC; n++) {
                    byte[] value = new byte[500];
                    for (int i = 0; i < value.length; i++) value[i] = (byte) ('A' + random.nextInt(26));
                    producer.send(new ProducerRecord<>(mixed, n % 2, null, value));
                }
            }
        }
        AlterConfigOp retention = new AlterConfigOp(new ConfigEntry("log.retention.ms", "123456789"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(BROKERS, List.of(retention))).all().get();
        admin.alterConsumerGroupOffsets("set", Map.of(
            new TopicPartition(mixed, 0), new OffsetAndMetadata(7, Optional.of(0), "with metadata"),
            new TopicPartition(mixed, 1), new OffsetAndMetadata(1500))).all().get();
    }

    static void overrides(Admin admin, ConfigResource of, List<String> lines) throws Exception {
        for (ConfigEntry entry : admin.describeConfigs(List.of(of)).all().get().get(of).entries()) {
            boolean set = entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG
                || entry.source() == ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG;
            if (set) lines.add("config of " + of + ": " + entry.name() + "=" + entry.value());
        }
    }

    static List<String> show(Admin admin, List<String> topics) throws Exception {
        List<String> lines = new ArrayList<>();
        admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((name, levels) -> {
            // A level of 0 is that of a feature which is not finalized; some releases list it and some do not.
            if (levels.maxVersionLevel() != 0) lines.add("feature " + name + " " + levels.maxVersionLevel());
        });
        admin.describeTopics(topics).allTopicNames().get().forEach((name, d) ->
            lines.add("topic " + name + " " + d.topicId() + " " + d.partitions().size()));
        for (String topic : topics) overrides(admin, new ConfigResource(ConfigResource.Type.TOPIC, topic), lines);
        overrides(admin, BROKERS, lines);
        for (GroupListing group : admin.listGroups().all().get())
            admin.listConsumerGroupOffsets(group.groupId()).partitionsToOffsetAndMetadata().get().forEach((at, offset) ->
                lines.add("offset of " + group.groupId() + " " + at + " " + offset.offset() + " " + offset.leaderEpoch() + " " + offset.metadata()));
        Collections.sort(lines);
        return lines;
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[1]);
        try (Admin admin = Admin.create(p)) {
            if (args[0].equals("fill")) fill(admin, args[1], args[2], args[3]);
            else show(admin, List.of(args[2], args[3])).forEach(System.out::println);
        }
    }
}
