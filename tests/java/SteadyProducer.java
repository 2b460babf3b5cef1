import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/**
 * An idempotent producer that keeps sending numbered records to every partition of a topic while the broker comes and goes,
 * and notes each acknowledged record as "partition offset number".
 * Arguments: bootstrap topic partitions ackFile stopFile [recordsPerSecond].
 * Ends when stopFile exists, after a flush. Exit status 1 when a record failed for good: the number may then be missing.
 */
public class SteadyProducer {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        Path stop = Path.of(args[4]);
        long perSecond = args.length > 5 ? Long.parseLong(args[5]) : 4000;
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("acks", "all");
        p.put("enable.idempotence", "true");
        p.put("linger.ms", "2");
        p.put("delivery.timeout.ms", "600000");
        p.put("request.timeout.ms", "5000");
        p.put("retry.backoff.ms", "20");
        p.put("retry.backoff.max.ms", "100");
        p.put("reconnect.backoff.ms", "10");
        p.put("reconnect.backoff.max.ms", "50");
        p.put("max.block.ms", "600000");
        p.put("buffer.memory", "8388608");
        AtomicLong failed = new AtomicLong();
        try (PrintWriter acks = new PrintWriter(new BufferedWriter(new FileWriter(args[3])));
             KafkaProducer<String, byte[]> producer = new KafkaProducer<>(p, new StringSerializer(), new ByteArraySerializer())) {
            long number = 0;
            long start = System.nanoTime();
            while (!Files.exists(stop)) {
                for (int i = 0; i < 20; i++, number++) {
                    long n = number;
                    int partition = (int) (n % partitions);
                    producer.send(new ProducerRecord<>(topic, partition, Long.toString(n), value(n)), (meta, error) -> {
                        if (error == null) {
                            acks.println(meta.partition() + " " + meta.offset() + " " + n);
                        } else {
                            failed.incrementAndGet();
                            System.err.println("record " + n + ": " + error);
                        }
                    });
                }
                long due = start + number * 1_000_000_000L / perSecond;
                long wait = due - System.nanoTime();
                if (wait > 1_000_000) Thread.sleep(wait / 1_000_000);
            }
            producer.flush();
        }
        if (failed.get() > 0) System.exit(1);
    }

    /** The bytes of record n: its number and then a run of bytes of a length and content that follow from it. */
    static byte[] value(long n) {
        byte[] bytes = new byte[8 + (int) (n * 31 % 500)];
        for (int i = 0; i < 8; i++) bytes[i] = (byte) (n >>> (56 - 8 * i));
        for (int i = 8; i < bytes.length; i++) bytes[i] = (byte) (n * 7 + i);
        return bytes;
    }
}
