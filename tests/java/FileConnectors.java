import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.sink.*;
import org.apache.kafka.connect.source.*;

/**
 * Connectors for Kafka Connect: Source reads the complete lines of a growing file into a topic and remembers how many bytes it
 * has read; Sink appends the values of its topics to a file, one a line. Both are configured by "file", Source also by "topic".
 */
public final class FileConnectors {
    static final ConfigDef SETTINGS = new ConfigDef()
        .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file.")
        .define("topic", ConfigDef.Type.STRING, "", ConfigDef.Importance.HIGH, "The topic that the lines go to.");

    /** Lines of one poll, so that a file is many batches. */
    static final int POLL_LINES_MAX = 50;

    /** Pause where there is nothing to read, in milliseconds. */
    static final long PAUSE_MS = 50;

    public static final class Source extends SourceConnector {
        private Map<String, String> settings;

        @Override public String version() { return "1"; }
        @Override public void start(Map<String, String> given) { settings = given; }
        @Override public void stop() {}
        @Override public ConfigDef config() { return SETTINGS; }
        @Override public Class<? extends Task> taskClass() { return Reader.class; }
        @Override public List<Map<String, String>> taskConfigs(int max) { return List.of(settings); }
    }

    public static final class Reader extends SourceTask {
        private Map<String, String> from;
        private String topic;
        private RandomAccessFile file;

        @Override public String version() { return "1"; }

        @Override public void start(Map<String, String> settings) {
            from = Map.of("file", settings.get("file"));
            topic = settings.get("topic");
            Map<String, Object> known = context.offsetStorageReader().offset(from);
            try {
                file = new RandomAccessFile(settings.get("file"), "r");
                file.seek(known == null ? 0 : (Long) known.get("bytes"));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            List<SourceRecord> records = new ArrayList<>();
            try {
                long at = file.getFilePointer();
                for (String line; records.size() < POLL_LINES_MAX && (line = file.readLine()) != null; ) {
                    long end = file.getFilePointer();
                    file.seek(end - 1);
                    if (file.read() != '\n') {
                        file.seek(at);
                        break;
                    }
                    at = end;
                    records.add(new SourceRecord(from, Map.of("bytes", end), topic, Schema.STRING_SCHEMA, line));
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            if (records.isEmpty()) Thread.sleep(PAUSE_MS);
            return records;
        }

        @Override public void stop() {}
    }

    public static final class Sink extends SinkConnector {
        private Map<String, String> settings;

        @Override public String version() { return "1"; }
        @Override public void start(Map<String, String> given) { settings = given; }
        @Override public void stop() {}
        @Override public ConfigDef config() { return SETTINGS; }
        @Override public Class<? extends Task> taskClass() { return Writer.class; }
        @Override public List<Map<String, String>> taskConfigs(int max) { return List.of(settings); }
    }

    public static final class Writer extends SinkTask {
        private BufferedWriter out;

        @Override public String version() { return "1"; }

        @Override public void start(Map<String, String> settings) {
            try {
                out = Files.newBufferedWriter(Path.of(settings.get("file")), StandardCharsets.UTF_8,
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override public void put(Collection<SinkRecord> records) {
            try {
                for (SinkRecord record : records) out.append((String) record.value()).append('\n');
                out.flush();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override public void flush(Map<TopicPartition, OffsetAndMetadata> offsets) {}
        @Override public void stop() {}
    }
}
