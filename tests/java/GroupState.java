import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Leaves groups of every kind behind and dies without a word, so that their members are still in them: a classic group with
 * a static and a dynamic member, a consumer group with a static member and one that subscribes by a regular expression,
 * offsets without members of which one was deleted, and a group that was deleted. Prints "left behind" at the end.
 *
 * Argument: bootstrap servers.
 */
public final class GroupState {
    static String bootstrap;

    static KafkaConsumer<byte[], byte[]> consumer(String group, String protocol, String client, String instance) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("group.protocol", protocol);
        p.put("client.id", client);
        p.put("client.rack", "rack-1");
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        if (instance != null) p.put("group.instance.id", instance);
        if (protocol.equals("classic")) p.put("session.timeout.ms", "300000");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Polls all until each has partitions and all of them together have `total`. */
    static void settle(List<KafkaConsumer<byte[], byte[]>> members, int total) {
        long end = System.nanoTime() + 60_000_000_000L;
        while (true) {
            int sum = 0;
            boolean each = true;
            for (KafkaConsumer<byte[], byte[]> c : members) {
                c.poll(Duration.ofMillis(100));
                sum += c.assignment().size();
                each &= !c.assignment().isEmpty();
            }
            if (each && sum == total) return;
            if (System.nanoTime() > end) throw new IllegalStateException("not settled: " + sum + " of " + total);
        }
    }

    static void commit(KafkaConsumer<byte[], byte[]> c, long offset, String metadata) {
        Map<TopicPartition, OffsetAndMetadata> all = new HashMap<>();
        for (TopicPartition t : c.assignment()) all.put(t, new OffsetAndMetadata(offset + t.partition(), Optional.of(0), metadata));
        c.commitSync(all);
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        Admin admin = Admin.create(p);
        admin.createTopics(List.of(new NewTopic("gd-a", 3, (short) 1), new NewTopic("gd-b", 2, (short) 1))).all().get();

        KafkaConsumer<byte[], byte[]> fixed = consumer("gd-classic", "classic", "classic-fixed", "instance-c");
        KafkaConsumer<byte[], byte[]> loose = consumer("gd-classic", "classic", "classic-loose", null);
        fixed.subscribe(List.of("gd-a"));
        loose.subscribe(List.of("gd-a"));
        Thread second = new Thread(() -> settle(List.of(loose), 1));
        second.start();
        // The members wait for each other in poll, so each needs a thread of its own.
        long end = System.nanoTime() + 60_000_000_000L;
        while (second.isAlive() || fixed.assignment().size() != 2) {
            fixed.poll(Duration.ofMillis(100));
            if (System.nanoTime() > end) throw new IllegalStateException("the classic group does not settle");
        }
        commit(fixed, 10, "caf\u00e9 \ud83d\ude00");
        commit(loose, 20, "");

        KafkaConsumer<byte[], byte[]> named = consumer("gd-consumer", "consumer", "consumer-fixed", "instance-n");
        KafkaConsumer<byte[], byte[]> pattern = consumer("gd-consumer", "consumer", "consumer-regex", null);
        named.subscribe(List.of("gd-a", "gd-b"));
        pattern.subscribe(new SubscriptionPattern("gd-[ab]"));
        settle(List.of(named, pattern), 5);
        commit(named, 30, "m".repeat(4096));
        commit(pattern, 40, "regex");

        TopicPartition a0 = new TopicPartition("gd-a", 0), b1 = new TopicPartition("gd-b", 1);
        Map<TopicPartition, OffsetAndMetadata> both = Map.of(a0, new OffsetAndMetadata(5), b1, new OffsetAndMetadata(6, "kept"));
        admin.alterConsumerGroupOffsets("gd-offsets", both).all().get();
        admin.deleteConsumerGroupOffsets("gd-offsets", Set.of(a0)).all().get();
        admin.alterConsumerGroupOffsets("gd-deleted", both).all().get();
        admin.deleteConsumerGroups(List.of("gd-deleted")).all().get();
        System.out.println("left behind");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
