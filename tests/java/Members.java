import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of one group in one process, told line by line what to do: "join FROM TO" starts the members of these numbers at
 * once, "leave FROM TO" closes them. Says "owned MEMBER PARTITION ..." whenever what a member owns may have changed, "left MEMBER"
 * when it is closed, and "read VALUE" for each record that it committed. Anything else that it says is a fault.
 *
 * Arguments: bootstrap servers, topic, group, then properties of the consumer as name=value.
 */
public final class Members {
    static String topic;
    static final Properties properties = new Properties();

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static final class Member extends Thread {
        final int number;
        final AtomicBoolean stop = new AtomicBoolean();
        Set<TopicPartition> owned = Set.of();
        /** A member may lose all it has and be given the same again within one poll; that is said too. */
        boolean rebalanced;

        Member(int number) {
            this.number = number;
            start();
        }

        void note(Set<TopicPartition> now) {
            if (now.equals(owned) && !rebalanced) return;
            rebalanced = false;
            owned = Set.copyOf(now);
            say("owned " + number + owned.stream().map(t -> " " + t.partition()).sorted().collect(Collectors.joining()));
        }

        void commit(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
            Map<TopicPartition, OffsetAndMetadata> upTo = new HashMap<>();
            for (TopicPartition t : records.partitions()) {
                List<ConsumerRecord<String, String>> of = records.records(t);
                upTo.put(t, new OffsetAndMetadata(of.get(of.size() - 1).offset() + 1));
            }
            try {
                consumer.commitSync(upTo, Duration.ofSeconds(20));
                for (ConsumerRecord<String, String> r : records) say("read " + r.value());
            } catch (CommitFailedException | org.apache.kafka.common.errors.RebalanceInProgressException
                     | org.apache.kafka.common.errors.RetriableException e) {
                // The partitions went to another member, which reads these records again.
            }
        }

        @Override public void run() {
            Properties own = new Properties();
            own.putAll(properties);
            own.put("client.id", "member-" + number);
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(own, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                    @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) { rebalanced = true; }
                    @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { rebalanced = true; }
                });
                while (!stop.get()) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    note(consumer.assignment());
                    if (!records.isEmpty()) commit(consumer, records);
                }
            } catch (Throwable t) {
                say("member " + number + " failed: " + t);
            }
            say("left " + number);
        }
    }

    public static void main(String[] args) {
        properties.put("bootstrap.servers", args[0]);
        topic = args[1];
        properties.put("group.id", args[2]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        for (String setting : List.of(args).subList(3, args.length)) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        Map<Integer, Member> members = new HashMap<>();
        for (Scanner in = new Scanner(System.in); in.hasNextLine(); ) {
            String[] words = in.nextLine().split(" ");
            for (int n = Integer.parseInt(words[1]); n < Integer.parseInt(words[2]); n++) {
                if (words[0].equals("join")) members.put(n, new Member(n));
                else members.remove(n).stop.set(true);
            }
        }
        System.exit(0);
    }
}
