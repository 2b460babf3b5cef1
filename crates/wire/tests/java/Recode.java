import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.AbstractApiMessageSerde;

/**
 * Reads one request per line and answers each with one line: the bytes that Kafka's own classes write.
 *
 * <pre>
 * recode SCHEMA VERSION HEX      parse the bytes, write them again
 * cross SCHEMA FROM TO HEX       parse the bytes of one version, write them in another
 * default SCHEMA VERSION         write a new object with defaults
 * framed metadata|tiered HEX     the same for a record of a log with framed values
 * keyed group|txn|share KEY VALUE  the same for a coordinator's record
 * </pre>
 *
 * What fails is answered with "error" and the reason.
 */
public class Recode {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.", "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.", "org.apache.kafka.raft.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    private static final Map<String, Class<?>> CLASSES = new HashMap<>();
    private static final HexFormat HEX = HexFormat.of();

    /** The tiered storage records have the frame of metadata records, with their own types. */
    private static final class TieredSerde extends AbstractApiMessageSerde {
        @Override
        public ApiMessage apiMessageFor(short apiKey) {
            return org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType.fromId(apiKey)
                .newMetadataRecord();
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintWriter out = new PrintWriter(System.out);
        String line;
        while ((line = in.readLine()) != null) {
            String answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Throwable t) {
                answer = "error " + t.toString().replace('\n', ' ');
            }
            out.println(answer);
        }
        out.flush();
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "recode":
                return recode(words[1], Short.parseShort(words[2]), Short.parseShort(words[2]), words[3]);
            case "cross":
                return recode(words[1], Short.parseShort(words[2]), Short.parseShort(words[3]), words[4]);
            case "default": {
                Message message = (Message) classOf(words[1]).getConstructor().newInstance();
                return hex(MessageUtil.toByteBufferAccessor(message, Short.parseShort(words[2])).buffer());
            }
            case "framed": {
                AbstractApiMessageSerde serde =
                    words[1].equals("metadata") ? MetadataRecordSerde.INSTANCE : new TieredSerde();
                byte[] bytes = HEX.parseHex(words[2]);
                ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
                org.apache.kafka.common.protocol.ObjectSerializationCache cache =
                    new org.apache.kafka.common.protocol.ObjectSerializationCache();
                ByteBufferAccessor written = new ByteBufferAccessor(ByteBuffer.allocate(serde.recordSize(record, cache)));
                serde.write(record, cache, written);
                ByteBuffer buffer = written.buffer();
                buffer.flip();
                return hex(buffer);
            }
            case "keyed": {
                CoordinatorRecordSerde serde = switch (words[1]) {
                    case "group" -> new GroupCoordinatorRecordSerde();
                    case "txn" -> new TransactionCoordinatorRecordSerde();
                    default -> new ShareCoordinatorRecordSerde();
                };
                CoordinatorRecord record = serde.deserialize(ByteBuffer.wrap(HEX.parseHex(words[2])),
                    ByteBuffer.wrap(HEX.parseHex(words[3])));
                return HEX.formatHex(serde.serializeKey(record)) + " " + HEX.formatHex(serde.serializeValue(record));
            }
            default:
                return "error unknown request " + words[0];
        }
    }

    private static String recode(String schema, short from, short to, String hex) throws Exception {
        ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(hex)));
        Message message = (Message) classOf(schema).getConstructor(Readable.class, short.class).newInstance(bytes, from);
        if (bytes.remaining() > 0) {
            return "error " + bytes.remaining() + " bytes are left";
        }
        return hex(MessageUtil.toByteBufferAccessor(message, to).buffer());
    }

    private static Class<?> classOf(String schema) throws ClassNotFoundException {
        Class<?> known = CLASSES.get(schema);
        if (known != null) {
            return known;
        }
        for (String place : PACKAGES) {
            for (String name : new String[] {schema + "Data", schema}) {
                try {
                    Class<?> found = Class.forName(place + name);
                    CLASSES.put(schema, found);
                    return found;
                } catch (ClassNotFoundException e) {
                    // Look in the next package.
                }
            }
        }
        throw new ClassNotFoundException(schema);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }
}
