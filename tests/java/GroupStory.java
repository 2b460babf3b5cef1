import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/**
 * Members of one group come and go while a producer writes numbered records; every record must be consumed at least once,
 * committed offsets must never go back, and no partition may have two owners after a rebalance that both took part in.
 *
 * Arguments: bootstrap servers, topic, group, protocol (classic or consumer), assignor class or server-side name or "-",
 * static (true or false), records, a folder for signals. Prints "consumed N of N" and "positions kept" when all is well.
 * A file "restart" in the folder asks the caller to restart the broker and to answer with a file "restarted".
 */
public final class GroupStory {
    static final Map<TopicPartition, Long> committed = new ConcurrentHashMap<>();
    static final Set<Long> seen = ConcurrentHashMap.newKeySet();
    static final List<String> faults = Collections.synchronizedList(new ArrayList<>());
    static String bootstrap, topic, group, protocol, assignor;
    static boolean fixed;

    static final class Member extends Thread {
        final int number;
        final AtomicBoolean stop = new AtomicBoolean();
        volatile Set<TopicPartition> owned = Set.of();
        Member(int number) { this.number = number; start(); }

        KafkaConsumer<byte[], byte[]> consumer() {
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("group.id", group);
            p.put("group.protocol", protocol);
            p.put("client.id", "member-" + number);
            p.put("auto.offset.reset", "earliest");
            p.put("enable.auto.commit", "false");
            p.put("max.poll.records", "50");
            if (fixed) p.put("group.instance.id", "instance-" + number);
            if (protocol.equals("classic")) {
                p.put("session.timeout.ms", "10000");
                p.put("heartbeat.interval.ms", "500");
                if (!assignor.equals("-")) p.put("partition.assignment.strategy", assignor);
            } else if (!assignor.equals("-")) p.put("group.remote.assignor", assignor);
            return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Override public void run() {
            try (KafkaConsumer<byte[], byte[]> c = consumer()) {
                c.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                    @Override public void onPartitionsRevoked(Collection<TopicPartition> gone) { note(c); }
                    @Override public void onPartitionsAssigned(Collection<TopicPartition> more) {
                        note(c);
                        for (TopicPartition t : more) {
                            long at = c.position(t);
                            if (at < committed.getOrDefault(t, 0L)) faults.add(t + " starts at " + at + " behind " + committed.get(t));
                        }
                    }
                    @Override public void onPartitionsLost(Collection<TopicPartition> gone) { note(c); }
                });
                while (!stop.get()) {
                    ConsumerRecords<byte[], byte[]> records = c.poll(Duration.ofMillis(100));
                    note(c);
                    for (ConsumerRecord<byte[], byte[]> r : records) seen.add(Long.parseLong(new String(r.value())));
                    if (records.isEmpty()) continue;
                    Map<TopicPartition, OffsetAndMetadata> upTo = new HashMap<>();
                    for (TopicPartition t : records.partitions()) {
                        List<ConsumerRecord<byte[], byte[]>> of = records.records(t);
                        upTo.put(t, new OffsetAndMetadata(of.get(of.size() - 1).offset() + 1, "m" + number));
                    }
                    try {
                        c.commitSync(upTo, Duration.ofSeconds(20));
                        upTo.forEach((t, o) -> committed.merge(t, o.offset(), Math::max));
                    } catch (CommitFailedException | org.apache.kafka.common.errors.RebalanceInProgressException | org.apache.kafka.common.errors.RetriableException | org.apache.kafka.common.errors.FencedInstanceIdException e) {
                        // The partition went to another member, which will read the records again.
                    }
                }
                // What a rebalance kept from being committed is committed now.
                for (int tries = 0; tries < 50; tries++) {
                    try { c.commitSync(Duration.ofSeconds(20)); break; }
                    catch (CommitFailedException | org.apache.kafka.common.errors.RebalanceInProgressException e) { c.poll(Duration.ofMillis(100)).forEach(r -> seen.add(Long.parseLong(new String(r.value())))); }
                }
                owned = Set.of();
            } catch (Throwable t) {
                faults.add("member " + number + ": " + t);
                t.printStackTrace();
            }
        }

        void note(KafkaConsumer<byte[], byte[]> c) { owned = Set.copyOf(c.assignment()); }

        void end() throws Exception { stop.set(true); join(60_000); if (isAlive()) faults.add("member " + number + " does not end"); }
    }

    static void settle(List<Member> members, int partitions) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (true) {
            Map<TopicPartition, Integer> owners = new HashMap<>();
            for (Member m : members) for (TopicPartition t : m.owned) owners.merge(t, 1, Integer::sum);
            boolean fair = members.stream().allMatch(m -> m.owned.size() >= partitions / members.size());
            if (owners.size() == partitions && owners.values().stream().allMatch(n -> n == 1) && fair) return;
            if (System.nanoTime() > limit) {
                StringBuilder s = new StringBuilder("no balance:");
                for (Member m : members) s.append(' ').append(m.number).append('=').append(m.owned);
                faults.add(s.toString());
                return;
            }
            Thread.sleep(50);
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0]; topic = args[1]; group = args[2]; protocol = args[3]; assignor = args[4];
        fixed = Boolean.parseBoolean(args[5]);
        int records = Integer.parseInt(args[6]);
        Path signals = Path.of(args[7]);
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("delivery.timeout.ms", "120000");
        AtomicInteger sent = new AtomicInteger();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            int partitions = producer.partitionsFor(topic).size();
            Thread writer = new Thread(() -> {
                for (int i = 0; i < records; i++) {
                    producer.send(new ProducerRecord<>(topic, i % partitions, null, Long.toString(i).getBytes()), (m, e) -> {
                        if (e != null) faults.add("send: " + e); else sent.incrementAndGet();
                    });
                    if (i % 50 == 0) try { Thread.sleep(20); } catch (InterruptedException e) { return; }
                }
                producer.flush();
            });
            writer.start();
            List<Member> members = new ArrayList<>(List.of(new Member(0), new Member(1)));
            settle(members, partitions);
            members.add(new Member(2));
            settle(members, partitions);
            Files.createFile(signals.resolve("restart"));
            while (!Files.exists(signals.resolve("restarted"))) Thread.sleep(20);
            settle(members, partitions);
            members.remove(0).end();
            // A static member's partitions stay with it until its session ends; it comes back before that.
            if (fixed) members.add(new Member(0));
            settle(members, partitions);
            writer.join();
            long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            while (seen.size() < records && System.nanoTime() < limit) Thread.sleep(50);
            for (Member m : members) m.end();
        }
        System.out.println("sent " + sent.get() + ", consumed " + seen.size() + " of " + records);
        if (faults.isEmpty()) System.out.println("positions kept");
        else faults.forEach(System.out::println);
        System.exit(faults.isEmpty() && seen.size() == records ? 0 : 1);
    }
}
