//! What the group coordinator computes, beside what Apache Kafka's classes compute from the same input.

use std::fmt::Write as _;

use base::{Prng, TopicId, Uuid};
use group::assignor::{Assignor, GroupSpec, MemberSpec, Partitions, TopicSpec};
use group::topic_regex::TopicRegex;
use odradek_tests::Tool;

/// Asks `GroupOracle.java` everything at once: one answer for each question.
fn ask(questions: &[String]) -> Vec<String> {
    let input = questions.join("\n") + "\n";
    let answers = Tool::java("GroupOracle.java", &[]).input(input).run().ok().text();
    let answers: Vec<String> = answers.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), questions.len(), "one answer for each question");
    answers
}

struct Member {
    id: String,
    instance: Option<String>,
    topics: Vec<usize>,
}

struct Group {
    topics: Vec<TopicSpec>,
    members: Vec<Member>,
    owned: Vec<Partitions>,
}

/// How large a generated group may be.
#[derive(Clone, Copy)]
struct Size {
    members: u64,
    topics: u64,
    partitions: u64,
}

impl Group {
    fn generate(prng: &mut Prng, size: Size) -> Group {
        let mut ids: Vec<Uuid> = (0..1 + prng.below(size.topics)).map(|_| random_id(prng)).collect();
        ids.sort_unstable();
        let topics: Vec<TopicSpec> =
            ids.iter().map(|id| TopicSpec { id: *id, partitions: 1 + prng.below(size.partitions) as usize }).collect();
        let kinds = 1 + prng.below(4);
        let subscriptions: Vec<Vec<usize>> =
            (0..kinds).map(|_| (0..topics.len()).filter(|_| kinds == 1 || prng.chance(2, 3)).collect()).collect();
        let mut group = Group { topics, members: Vec::new(), owned: Vec::new() };
        for _ in 0..1 + prng.below(size.members) {
            let topics = subscriptions[prng.below(kinds) as usize].clone();
            group.join(prng, topics);
        }
        group
    }

    fn join(&mut self, prng: &mut Prng, topics: Vec<usize>) {
        let id = format!("{:016x}", prng.next_u64());
        let instance = prng.chance(1, 3).then(|| format!("i{:08x}", prng.next_u64() as u32));
        let at = self.members.partition_point(|member| member.id < id);
        self.members.insert(at, Member { id, instance, topics });
        self.owned.insert(at, Partitions::EMPTY);
    }

    /// Some leave, some join, some change what they subscribe to.
    fn change(&mut self, prng: &mut Prng) {
        for _ in 0..1 + prng.below(1 + self.members.len() as u64 / 8) {
            let at = prng.below(self.members.len() as u64) as usize;
            let topics = self.members[at].topics.clone();
            match prng.below(3) {
                0 if self.members.len() > 1 => {
                    self.members.remove(at);
                    self.owned.remove(at);
                }
                1 => {
                    let other = prng.below(self.members.len() as u64) as usize;
                    self.members[other].topics = topics;
                }
                _ => self.join(prng, topics),
            }
        }
    }

    fn has_equal_subscriptions(&self) -> bool {
        self.members.windows(2).all(|pair| pair[0].topics == pair[1].topics)
    }

    fn assign(&self, assignor: Assignor) -> Vec<Partitions> {
        let members = self.members.iter().zip(&self.owned).map(|(member, owned)| MemberSpec {
            member_id: &member.id,
            instance_id: member.instance.as_deref(),
            topics: &member.topics,
            owned,
        });
        let members: Vec<MemberSpec<'_>> = members.collect();
        assignor.assign(&GroupSpec { topics: &self.topics, members: &members })
    }

    fn question(&self, assignor: Assignor) -> String {
        let topics: Vec<String> = self
            .topics
            .iter()
            .map(|t| format!("{:032x}:{}", u128::from_be_bytes(*t.id.as_bytes()), t.partitions))
            .collect();
        let equal = i32::from(self.has_equal_subscriptions());
        let mut line = format!("assign\t{}\t{equal}\t{}", assignor.name(), topics.join(","));
        for (member, owned) in self.members.iter().zip(&self.owned) {
            let topics: Vec<String> = member.topics.iter().map(usize::to_string).collect();
            let instance = member.instance.as_deref().unwrap_or("");
            write!(line, "\t{}/{instance}/{}/{}", member.id, topics.join(","), self.show(owned)).expect("a string");
        }
        line
    }

    fn show(&self, set: &Partitions) -> String {
        let one = |(id, partitions): (TopicId, &[i32])| {
            let index = self.topics.iter().position(|topic| topic.id == id).expect("a topic of the group");
            let partitions: Vec<String> = partitions.iter().map(i32::to_string).collect();
            format!("{index}:{}", partitions.join("+"))
        };
        set.topics().map(one).collect::<Vec<_>>().join(",")
    }

    fn parse(&self, text: &str) -> Partitions {
        let topic = |part: &str| -> Vec<(TopicId, i32)> {
            let (index, partitions) = part.split_once(':').expect("topic:partitions");
            let id = self.topics[index.parse::<usize>().expect("an index")].id;
            partitions.split('+').map(|partition| (id, partition.parse().expect("a partition"))).collect()
        };
        text.split(',').filter(|part| !part.is_empty()).flat_map(topic).collect()
    }

    /// How many partitions stay where they were.
    fn kept(&self, targets: &[Partitions]) -> usize {
        let kept =
            |(owned, target): (&Partitions, &Partitions)| owned.iter().filter(|(t, p)| target.contains(*t, *p)).count();
        self.owned.iter().zip(targets).map(kept).sum()
    }

    /// Every partition that somebody subscribes to has exactly one owner, who subscribes to it.
    fn check_complete(&self, targets: &[Partitions], said: &str) {
        let mut found: Vec<(TopicId, i32)> = targets.iter().flat_map(Partitions::iter).collect();
        found.sort_unstable();
        let wanted = self.topics.iter().enumerate().filter(|(i, _)| self.members.iter().any(|m| m.topics.contains(i)));
        let wanted: Vec<(TopicId, i32)> =
            wanted.flat_map(|(_, topic)| (0..topic.partitions as i32).map(move |p| (topic.id, p))).collect();
        assert!(found == wanted, "{said}: {} owned, {} subscribed to", found.len(), wanted.len());
        for (member, target) in self.members.iter().zip(targets) {
            let known = target.topics().all(|(id, _)| member.topics.iter().any(|topic| self.topics[*topic].id == id));
            assert!(known, "{said}: {} has what it does not subscribe to", member.id);
        }
    }
}

fn random_id(prng: &mut Prng) -> Uuid {
    Uuid::from_u128(u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64()))
}

fn spread(targets: &[Partitions]) -> usize {
    let sizes = targets.iter().map(Partitions::len);
    sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0)
}

/// One step in the life of a group and what was asked about it.
struct Step {
    group: Group,
    assignor: Assignor,
    ours: Vec<Partitions>,
    said: String,
}

fn live(seed: u64, size: Size, steps: usize, all: &mut Vec<Step>) {
    let mut prng = Prng::new(seed);
    for assignor in [Assignor::Uniform, Assignor::Range] {
        let mut group = Group::generate(&mut prng, size);
        for step in 0..steps {
            let ours = group.assign(assignor);
            let copy = |member: &Member| Member {
                id: member.id.clone(),
                instance: member.instance.clone(),
                topics: member.topics.clone(),
            };
            let members = group.members.iter().map(copy).collect();
            let next = Group { topics: group.topics.clone(), members, owned: ours.clone() };
            all.push(Step { group, assignor, ours, said: format!("seed {seed} {assignor:?} step {step}") });
            group = next;
            group.change(&mut prng);
        }
    }
}

#[test]
fn assignments_are_as_balanced_and_as_sticky_as_kafkas() {
    let mut steps = Vec::new();
    for seed in 0..60 {
        live(seed, Size { members: 12, topics: 6, partitions: 12 }, 5, &mut steps);
    }
    for seed in 60..66 {
        live(seed, Size { members: 200, topics: 20, partitions: 60 }, 3, &mut steps);
    }
    live(66, Size { members: 1000, topics: 20, partitions: 900 }, 3, &mut steps);
    let questions: Vec<String> = steps.iter().map(|step| step.group.question(step.assignor)).collect();
    let (mut identical, mut moved, mut moved_by_kafka) = (0, 0, 0);
    for (Step { group, assignor, ours, said }, answer) in steps.iter().zip(ask(&questions)) {
        let theirs: Vec<Partitions> = if answer.is_empty() && group.members.len() > 1 {
            vec![Partitions::EMPTY; group.members.len()]
        } else {
            answer.split('\t').map(|text| group.parse(text)).collect()
        };
        assert_eq!(theirs.len(), group.members.len(), "{said}");
        group.check_complete(ours, said);
        if *assignor == Assignor::Range || !group.has_equal_subscriptions() {
            assert!(*ours == theirs, "{said}: other partitions than Kafka's");
        }
        let (kept, kept_by_kafka) = (group.kept(ours), group.kept(&theirs));
        assert!(kept >= kept_by_kafka, "{said}: {kept} stay, with Kafka {kept_by_kafka}");
        assert_eq!(spread(ours), spread(&theirs), "{said}");
        let had: usize = group.owned.iter().map(Partitions::len).sum();
        identical += usize::from(*ours == theirs);
        moved += had - kept;
        moved_by_kafka += had - kept_by_kafka;
    }
    println!("{} steps, {identical} identical; {moved} partitions moved, {moved_by_kafka} by Kafka", steps.len());
    assert!(identical * 2 > steps.len(), "only {identical} of {} are the same", steps.len());
}

/// Expressions for which the engine and RE2 differ in syntax, and some for which they do not.
const EXPRESSIONS: &[&str] = &[
    "foo",
    "fo+|bar",
    "(?i)FOO",
    "[",
    "(a",
    ")",
    "*",
    "a**",
    "a{1001}",
    "(?=a)",
    r"(a)\1",
    "\\",
    "a{2,1}",
    "[z-a]",
    "(?P<n>a)(?P<n>b)",
    "(?x)a",
    "[[:foo:]]",
    r"\q",
    "[a&&b]",
    "[[]",
    "a++",
    "a{3}{4}",
    "(?<n>a)",
    r"\Qa.b\E",
    "[a--b]",
    r"\p{Foo}",
    "x{2}*",
    "[]",
    "[]a]",
    "(?P<>a)",
    "+",
    "a|*",
    r"\8",
    r"\07",
    r"\pN+",
    r"\C",
    "a*?",
    "a*?*",
    r"a\z",
    r"\Z",
    r"\bfoo\b",
    "^a$",
    "[^",
    "{",
    "a{",
    "a{,2}",
    r"\x{110000}",
    r"\x{41}",
    "(?q)",
    "[+--]",
    "[a-c-e]*",
    r"[\w-]+",
    r"\d{2,}",
    "(?:a|b)*",
    "(?i:b)AR",
    "(?s).*",
    "(?m)^foo$",
    r"a\<b",
    "[[:alpha:]_]+",
    "[^[:digit:]]+",
    "(?i)[f]oO",
    r"\.\.",
    "a{0}b",
    "(a{2}){3}",
    "(|a)b",
    "()",
    r"[\.]",
    r"[\d]",
    "(?U)a+",
    r"\\",
    "^*",
    "$+",
    "(?i-s)foo",
    "(?-)a",
    "(?i",
    r"\x4",
    "[a",
    r"[\",
    r"\p{^Lu}+",
    r"[\pL]+",
    r"\PL+",
    "a{1}",
    "a{1,1000}",
    "a{,}",
    "a{x}",
    "~~",
    "[~~]",
];

/// Names to match them with.
const NAMES: &str = "foo,bar,FOO,a.b,axb,a,b,&,ab,aaaaaa,a-b,a_1,12,.,..,a{,2},{,-,BAR,A,aab,fooo,__x";

#[test]
fn regular_expressions_mean_what_they_mean_to_kafka() {
    let mut expressions: Vec<String> = EXPRESSIONS.iter().map(|expression| (*expression).to_owned()).collect();
    let pieces =
        ["a", "b", "foo", ".", "*", "+", "?", "(", ")", "|", "[", "]", "^", "-", "{2}", r"\d", r"\.", "[ab]", "$", "{"];
    let mut prng = Prng::new(11);
    for _ in 0..3000 {
        let piece = |_| pieces[prng.below(pieces.len() as u64) as usize];
        expressions.push((0..6).map(piece).collect());
    }
    let questions: Vec<String> = expressions.iter().map(|expression| format!("regex\t{expression}\t{NAMES}")).collect();
    let mut wrong = Vec::new();
    for (expression, answer) in expressions.iter().zip(ask(&questions)) {
        let ours = match TopicRegex::new(expression) {
            Ok(regex) => {
                let matched: Vec<&str> = NAMES.split(',').filter(|name| regex.matches(name)).collect();
                format!("ok {}", matched.join(","))
            }
            Err(wrong) => format!("bad {wrong}"),
        };
        if ours != answer {
            wrong.push(format!("{expression}\n  here {ours}\n  java {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
}
