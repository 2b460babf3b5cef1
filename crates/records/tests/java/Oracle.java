import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Answers, line by line, what Apache Kafka makes of record batches.
 *
 * <pre>
 * read ID HEX             -> ID ok FIELDS | RECORD | RECORD ...     or   ID error CLASS
 * write ID CODEC LEVEL N  -> ID HEX                                 a batch of N known records
 * config KEY=VALUE ...                                              begins a log with this configuration
 * append ID VERSION HEX   -> ID ok BASE MAXTS HEX                   the batch as it lies in the log
 *                         or ID error NAME [INDEX=HEXTEXT ...] HEXTEXT
 * </pre>
 */
public class Oracle {
    static final long NOW = 1_700_000_000_000L;
    static final HexFormat HEX = HexFormat.of();
    static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    static UnifiedLog log;
    static int logs = 0;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "read" -> OUT.println(words[1] + " " + read(words[2]));
                case "write" -> OUT.println(words[1] + " " + write(words));
                case "config" -> log = open(words, new File(args[0]));
                case "append" -> OUT.println(words[1] + " " + append(words));
                default -> throw new IllegalArgumentException(line);
            }
        }
        OUT.flush();
        // Threads of the metrics library would keep the process.
        System.exit(0);
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "[" + HEX.formatHex(bytes) + "]";
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "null" : hex(ByteBuffer.wrap(bytes));
    }

    static String read(String hex) {
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
            StringBuilder out = new StringBuilder("ok");
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                out.append(" " + batch.baseOffset() + "," + batch.lastOffset() + "," + batch.partitionLeaderEpoch());
                out.append("," + batch.compressionType().name + "," + batch.timestampType().name);
                out.append("," + batch.maxTimestamp() + "," + batch.producerId() + "," + batch.producerEpoch());
                out.append("," + batch.baseSequence() + "," + batch.lastSequence() + "," + batch.isTransactional());
                out.append("," + batch.isControlBatch() + "," + batch.countOrNull());
                for (Record record : batch) {
                    out.append(" | " + record.offset() + "," + record.timestamp() + "," + record.sequence());
                    out.append("," + record.sizeInBytes() + "," + hex(record.key()) + "," + hex(record.value()));
                    for (Header header : record.headers())
                        out.append("," + header.key() + "=" + hex(header.value()));
                }
            }
            return out.toString();
        } catch (Exception e) {
            return "error " + e.getClass().getSimpleName();
        }
    }

    @SuppressWarnings("fallthrough")
    static Compression compression(String codec, int level) {
        if (level == Integer.MIN_VALUE)
            return Compression.of(codec).build();
        return switch (codec) {
            case "gzip" -> Compression.gzip().level(level).build();
            case "lz4" -> Compression.lz4().level(level).build();
            case "zstd" -> Compression.zstd().level(level).build();
            default -> Compression.of(codec).build();
        };
    }

    /** The same records as the Rust side makes. */
    static String write(String[] words) {
        Compression compression = compression(words[2], Integer.parseInt(words[3]));
        int count = Integer.parseInt(words[4]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.CURRENT_MAGIC_VALUE,
            compression, TimestampType.CREATE_TIME, 1000L, -1L, 77L, (short) 3, Integer.MAX_VALUE - 1, false, 5);
        for (int i = 0; i < count; i++) {
            byte[] key = i % 3 == 0 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 5 == 0 ? null : ("value " + (i * 7919) + " ").repeat(i % 11 * 40).getBytes(StandardCharsets.UTF_8);
            Header[] headers = new Header[i % 4];
            for (int j = 0; j < headers.length; j++)
                headers[j] = new RecordHeader("h" + j, j == 1 ? null : ("v" + i).getBytes(StandardCharsets.UTF_8));
            builder.appendWithOffset(1000L + i, NOW + (i * 37) % 100 - 50, key, value, headers);
        }
        ByteBuffer buffer = builder.build().buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }

    static UnifiedLog open(String[] words, File parent) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("segment.index.bytes", "4096");
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            properties.setProperty(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        File dir = new File(new File(parent, Integer.toString(logs++)), "foo-0");
        Files.createDirectories(dir.toPath());
        return UnifiedLog.create(dir, new LogConfig(properties), 0L, 0L, new NoScheduler(), new BrokerTopicStats(),
            new FixedTime(), 60_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(10), true, Optional.of(Uuid.fromString("ASNFZ4mrTe-BI0VniavN7w")));
    }

    /** What happens to a produce request's records, from the request handler to the log. */
    static String append(String[] words) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(words.length > 3 ? HEX.parseHex(words[3]) : new byte[0]));
        try {
            ProduceRequest.validateRecords(Short.parseShort(words[2]), records);
            LogAppendInfo info = log.appendAsLeader(records, 0, AppendOrigin.CLIENT);
            return "ok " + info.firstOffset() + " " + info.maxTimestamp() + " " + stored(info.firstOffset());
        } catch (RecordValidationException e) {
            List<String> parts = new ArrayList<>();
            for (ProduceResponse.RecordError error : e.recordErrors())
                parts.add(error.batchIndex + "=" + HEX.formatHex(error.message.getBytes(StandardCharsets.UTF_8)));
            Exception inner = e.invalidException();
            String message = HEX.formatHex(inner.getMessage().getBytes(StandardCharsets.UTF_8));
            return "error " + Errors.forException(inner).name() + " " + String.join(" ", parts) + " " + message;
        } catch (Throwable e) {
            return "error " + Errors.forException(e).name() + " " + HEX.formatHex(String.valueOf(e).getBytes(StandardCharsets.UTF_8));
        }
    }

    static String stored(long offset) throws Exception {
        FileRecords records = (FileRecords) log.read(offset, 1 << 30, FetchIsolation.LOG_END, true).records;
        ByteBuffer buffer = ByteBuffer.allocate(records.sizeInBytes());
        records.readInto(buffer, 0);
        MutableRecordBatch batch = MemoryRecords.readableRecords(buffer).batches().iterator().next();
        ByteBuffer one = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(one);
        return HEX.formatHex(one.array());
    }

    static class FixedTime implements Time {
        @Override
        public long milliseconds() {
            return NOW;
        }

        @Override
        public long nanoseconds() {
            return NOW * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
        }
    }

    static class NoScheduler implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return null;
        }

        @Override
        public void resizeThreadPool(int size) {
        }
    }
}
