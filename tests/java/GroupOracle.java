import java.io.*;
import java.util.*;
import java.util.stream.*;
import com.google.re2j.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * What Apache Kafka's group coordinator computes, one answer for each line of standard input. Fields are split by tabs.
 *   assign assignor equal? topics=id:partitions,... members=id/instance/topicIndex,.../topicIndex:partition+partition,...  (one field each)
 *     answers each member's set in the order of the question: topicIndex:partition+partition,...
 *   hash name id partitions rack+rack,rack,...   answers the hash of a topic
 *   group name=hash,...                          answers the hash of a group
 *   regex pattern name,...                       answers the names that match, or what is wrong with the pattern
 */
public class GroupOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 20), false, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "assign" -> out.println(assign(f));
                case "hash" -> out.println(hash(f));
                case "group" -> out.println(Utils.computeGroupHash(Arrays.stream(f[1].split(",")).filter(e -> !e.isEmpty()).map(e -> e.split("="))
                    .collect(Collectors.toMap(e -> e[0], e -> Long.parseLong(e[1])))));
                case "regex" -> out.println(regex(f[1], f[2]));
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    static Uuid id(String hex) { return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16)); }

    static List<String> parts(String text, String by) { return text.isEmpty() ? List.of() : Arrays.asList(text.split(by)); }

    static String assign(String[] f) {
        List<Uuid> ids = new ArrayList<>();
        Map<Uuid, Integer> counts = new HashMap<>(), index = new HashMap<>();
        for (String t : parts(f[3], ",")) {
            Uuid id = id(t.substring(0, 32));
            index.put(id, ids.size());
            ids.add(id);
            counts.put(id, Integer.parseInt(t.substring(33)));
        }
        // Sorted maps give Kafka's algorithms the order of members that Odradek has.
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        List<String> order = new ArrayList<>();
        for (int i = 4; i < f.length; i++) {
            String[] m = f[i].split("/", -1);
            Map<Uuid, Set<Integer>> owned = new TreeMap<>();
            for (String t : parts(m[3], ",")) {
                Uuid id = ids.get(Integer.parseInt(t.substring(0, t.indexOf(':'))));
                Set<Integer> set = new TreeSet<>();
                for (String p : t.substring(t.indexOf(':') + 1).split("\\+")) {
                    set.add(Integer.parseInt(p));
                    inverted.computeIfAbsent(id, k -> new HashMap<>()).put(Integer.parseInt(p), m[0]);
                }
                owned.put(id, set);
            }
            Set<Uuid> subscribed = parts(m[2], ",").stream().map(t -> ids.get(Integer.parseInt(t))).collect(Collectors.toCollection(TreeSet::new));
            Optional<String> instance = m[1].isEmpty() ? Optional.empty() : Optional.of(m[1]);
            members.put(m[0], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, subscribed, new Assignment(owned)));
            order.add(m[0]);
        }
        GroupSpec spec = new GroupSpecImpl(members, f[2].equals("1") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, inverted);
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return counts.getOrDefault(id, -1); }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
            public Set<Integer> assignablePartitions(Uuid id) { return IntStream.range(0, numPartitions(id)).boxed().collect(Collectors.toSet()); }
        };
        ConsumerGroupPartitionAssignor assignor = f[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> result = assignor.assign(spec, topics).members();
        return order.stream().map(m -> result.containsKey(m) ? show(result.get(m).partitions(), index) : "").collect(Collectors.joining("\t"));
    }

    static String show(Map<Uuid, Set<Integer>> set, Map<Uuid, Integer> index) {
        Map<Integer, Set<Integer>> sorted = new TreeMap<>();
        set.forEach((id, ps) -> { if (!ps.isEmpty()) sorted.put(index.get(id), new TreeSet<>(ps)); });
        return sorted.entrySet().stream().map(e -> e.getKey() + ":" + e.getValue().stream().map(String::valueOf).collect(Collectors.joining("+"))).collect(Collectors.joining(","));
    }

    static long hash(String[] f) {
        List<List<String>> racks = Arrays.stream(f[4].split(",", -1)).map(r -> new ArrayList<>(parts(r, "\\+"))).collect(Collectors.toList());
        CoordinatorMetadataImage.TopicMetadata topic = new CoordinatorMetadataImage.TopicMetadata() {
            public String name() { return f[1]; }
            public Uuid id() { return GroupOracle.id(f[2]); }
            public int partitionCount() { return Integer.parseInt(f[3]); }
            public List<String> partitionRacks(int partition) { return racks.get(partition); }
        };
        CoordinatorMetadataImage image = (CoordinatorMetadataImage) java.lang.reflect.Proxy.newProxyInstance(GroupOracle.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.class}, (proxy, method, a) -> method.getName().equals("topicMetadata") ? Optional.of(topic) : null);
        return Utils.computeTopicHash(f[1], image);
    }

    static String regex(String pattern, String names) {
        try {
            com.google.re2j.Pattern compiled = com.google.re2j.Pattern.compile(pattern);
            return "ok " + parts(names, ",").stream().filter(n -> compiled.matcher(n).matches()).collect(Collectors.joining(","));
        } catch (PatternSyntaxException e) {
            return "bad " + e.getDescription();
        }
    }
}
