import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.*;

/**
 * Reads a topic from start to end and compares it with what SteadyProducer noted: every acknowledged record stands at the offset
 * it was acknowledged with, has its own bytes, occurs once, and each partition's numbers only rise.
 * Arguments: bootstrap topic partitions ackFile. Prints a summary; exit status 1 with the first differences.
 */
public class CheckAcked {
    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[2]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("enable.auto.commit", "false");
        p.put("check.crcs", "true");
        List<Map<Long, Long>> found = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        Set<Long> numbers = new HashSet<>();
        long records = 0;
        try (KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(p, new StringDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < partitions; i++) { all.add(new TopicPartition(args[1], i)); found.add(new HashMap<>()); }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> end = consumer.endOffsets(all);
            long[] last = new long[partitions];
            Arrays.fill(last, -1);
            while (all.stream().anyMatch(tp -> consumer.position(tp) < end.get(tp))) {
                for (ConsumerRecord<String, byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    long n = Long.parseLong(r.key());
                    records++;
                    if (!Arrays.equals(r.value(), expected(n))) wrong.add("bytes differ: " + r.partition() + "@" + r.offset());
                    if (!numbers.add(n)) wrong.add("twice: " + n);
                    if (n <= last[r.partition()]) wrong.add("out of order: " + n + " after " + last[r.partition()]);
                    last[r.partition()] = n;
                    found.get(r.partition()).put(r.offset(), n);
                }
            }
        }
        long acked = 0;
        for (String line : Files.readAllLines(Path.of(args[3]))) {
            String[] f = line.split(" ");
            if (f.length != 3) continue;
            acked++;
            Long n = found.get(Integer.parseInt(f[0])).get(Long.parseLong(f[1]));
            if (n == null) wrong.add("lost: " + line);
            else if (n != Long.parseLong(f[2])) wrong.add("another record at " + line + ": " + n);
        }
        System.out.println("acked " + acked + " found " + records + " wrong " + wrong.size());
        wrong.stream().limit(20).forEach(System.out::println);
        System.exit(wrong.isEmpty() && acked > 0 ? 0 : 1);
    }

    static byte[] expected(long n) {
        byte[] bytes = new byte[8 + (int) (n * 31 % 500)];
        for (int i = 0; i < 8; i++) bytes[i] = (byte) (n >>> (56 - 8 * i));
        for (int i = 8; i < bytes.length; i++) bytes[i] = (byte) (n * 7 + i);
        return bytes;
    }
}
