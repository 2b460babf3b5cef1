import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/**
 * A Kafka Streams word count with a repartition and a changelog topic, in two instances of two threads each, while lines are
 * written and the broker is restarted. At least once: no word may be counted too rarely.
 *
 * Arguments: bootstrap servers, lines, a folder for signals and state. A file "restart" in the folder asks the caller to
 * restart the broker and to answer with a file "restarted". Prints "counted W words" when every count is there.
 */
public final class WordCount {
    static final String[] WORDS = {"warp", "weft", "reed", "heddle", "shuttle", "selvage", "treadle"};

    static KafkaStreams instance(String bootstrap, Path state, int number) {
        Properties p = new Properties();
        p.put("application.id", "word-count");
        p.put("client.id", "word-count-" + number);
        p.put("bootstrap.servers", bootstrap);
        p.put("state.dir", state.resolve("state-" + number).toString());
        p.put("num.stream.threads", "2");
        p.put("commit.interval.ms", "200");
        p.put("replication.factor", "1");
        p.put("statestore.cache.max.bytes", "0");
        p.put("default.key.serde", Serdes.String().getClass());
        p.put("default.value.serde", Serdes.String().getClass());
        p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder b = new StreamsBuilder();
        KStream<String, String> lines = b.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream().to("counted", Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(b.build(), p);
        streams.setUncaughtExceptionHandler(e -> {
            System.err.println("a thread died: " + e);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        return streams;
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        int lines = Integer.parseInt(args[1]);
        Path folder = Path.of(args[2]);
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic("lines", 3, (short) 1), new NewTopic("counted", 2, (short) 1))).all().get();
        }
        List<KafkaStreams> instances = List.of(instance(bootstrap, folder, 1), instance(bootstrap, folder, 2));
        instances.forEach(KafkaStreams::start);
        Map<String, Long> expected = new TreeMap<>();
        Properties pp = new Properties();
        pp.putAll(common);
        pp.put("acks", "all");
        pp.put("delivery.timeout.ms", "120000");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(pp, new StringSerializer(), new StringSerializer())) {
            Random random = new Random(7);
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < lines; n++) {
                StringBuilder line = new StringBuilder();
                for (int w = 0; w < 5; w++) {
                    String word = WORDS[random.nextInt(WORDS.length)];
                    line.append(w == 0 ? "" : " ").append(word);
                    expected.merge(word, 1L, Long::sum);
                }
                sent.add(producer.send(new ProducerRecord<>("lines", "" + n, line.toString())));
                if (n == lines / 2) {
                    producer.flush();
                    Files.writeString(folder.resolve("restart"), "");
                    while (!Files.exists(folder.resolve("restarted"))) Thread.sleep(20);
                }
            }
            for (Future<RecordMetadata> f : sent) f.get();
        }
        Properties cp = new Properties();
        cp.putAll(common);
        cp.put("auto.offset.reset", "earliest");
        Map<String, Long> counted = new TreeMap<>();
        long end = System.nanoTime() + Duration.ofSeconds(150).toNanos();
        try (KafkaConsumer<String, Long> c = new KafkaConsumer<>(cp, new StringDeserializer(), new LongDeserializer())) {
            List<TopicPartition> all = List.of(new TopicPartition("counted", 0), new TopicPartition("counted", 1));
            c.assign(all);
            c.seekToBeginning(all);
            while (!enough(counted, expected)) {
                if (System.nanoTime() > end) {
                    System.out.println("counted " + counted + ", expected " + expected + ", states " + instances.stream().map(KafkaStreams::state).toList());
                    Runtime.getRuntime().halt(1);
                }
                for (ConsumerRecord<String, Long> r : c.poll(Duration.ofMillis(200))) counted.put(r.key(), r.value());
            }
        }
        // What was sent once by an idempotent producer and read again after a restart may be counted twice, never less.
        System.out.println("counted " + counted.size() + " words");
        instances.forEach(s -> s.close(Duration.ofSeconds(20)));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static boolean enough(Map<String, Long> counted, Map<String, Long> expected) {
        return expected.entrySet().stream().allMatch(e -> counted.getOrDefault(e.getKey(), 0L) >= e.getValue());
    }
}
