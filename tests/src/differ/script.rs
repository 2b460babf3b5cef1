//! Cases as text.
//!
//! A line is one of
//!
//! - `# ...`: a remark; `== ...`: the title of what follows, shown with every difference;
//! - `API VERSIONS OPTIONS {...}`: a request to both brokers in each of the versions (`3`, `0-5`, or `all` that clients may
//!   send). The body is in the notation of [`super::text`] and may go on over several lines. Options: `conn=NAME` (another
//!   connection, to the controller's listener where the name begins with `controller`), `client=null` or `client=TEXT`, `tags=HEX` (the tagged section of the header), `trailing=HEX` (bytes behind
//!   the body), `ver=N` and `key=N` (what the header says instead), `nowait` (no answer is expected: the next request on the
//!   connection must be answered, or the connection closed), `once` (never asked again);
//! - `for NAME: A | B | C`: the next request is made once for each; several of them multiply;
//! - `let NAME = PATH`: keeps a value of the last answer, of each broker its own;
//! - `why PATH: REASON`: the next answer differs there on purpose (`*` is a name or its end, `**` any number; with `absent`
//!   behind it for what Odradek leaves out only, with `kafka=VALUE` for what Apache Kafka answers so); `why-all` is for the rest of the file;
//! - `raw HEX`, `bytes HEX`: a frame, or bytes without a length in front, on a connection of their own; the answer is bytes;
//! - `sleep MS`, `close NAME` (a connection), `settle TOPIC` (waits until both brokers can use it).
//!
//! `$NAME` stands for a value: of `for` and `let`, `$v` the version, `$now` the time in ms, `$id.TOPIC` a topic's id.

use std::ops::RangeInclusive;

/// A file of cases.
#[derive(Debug)]
pub struct Script {
    /// What differences call it.
    pub name: String,
    /// The lines, in order.
    pub steps: Vec<Step>,
}

/// A line with what stood before it.
#[derive(Debug)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    /// The title it stands under.
    pub title: String,
    /// What to do.
    pub action: Action,
    /// Names and their values.
    pub loops: Vec<(String, Vec<String>)>,
    /// Differences on purpose.
    pub whys: Vec<Why>,
}

/// A difference on purpose.
#[derive(Clone, Debug)]
pub struct Why {
    /// Where, as a pattern.
    pub path: String,
    /// True when the reason is for what Odradek leaves out and for nothing else.
    pub absent: bool,
    /// What Apache Kafka says there, if the reason is for that alone.
    pub kafka: Option<String>,
    /// The reason.
    pub reason: String,
    /// Line in the file.
    pub line: usize,
}

/// What a line does.
#[derive(Debug)]
pub enum Action {
    /// A request.
    Request(Request),
    /// A frame or bare bytes.
    Raw {
        /// With a length in front.
        framed: bool,
        /// Hexadecimal, with names in it.
        hex: String,
    },
    /// Keep a value of the last answer.
    Let(String, String),
    /// Wait.
    Sleep(u64),
    /// Close a connection.
    Close(String),
    /// Wait for a topic.
    Settle(String),
    /// From here on answers differ on purpose.
    WhyAll(Why),
}

/// A request in some versions.
#[derive(Debug)]
pub struct Request {
    /// Name of the API.
    pub api: String,
    /// Versions; `None` for all.
    pub versions: Option<RangeInclusive<i16>>,
    /// Option words.
    pub options: Vec<String>,
    /// The body, with names in it.
    pub body: String,
}

impl Request {
    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// True when the word stands among the options.
    pub fn has(&self, word: &str) -> bool {
        self.options.iter().any(|option| option == word)
    }
}

/// Reads a file of cases.
///
/// # Panics
/// If a line is not understood.
pub fn parse(name: &str, text: &str) -> Script {
    let mut steps = Vec::new();
    let (mut title, mut loops, mut whys) = (String::new(), Vec::new(), Vec::new());
    let mut lines = text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let line = at + 1;
        let mut whole = first.trim().to_owned();
        while depth(&whole) > 0 {
            let (_, next) = lines.next().unwrap_or_else(|| panic!("{name}:{line}: a brace is not closed"));
            whole.push(' ');
            whole.push_str(next.trim());
        }
        let (word, rest) = whole.split_once(' ').map_or((&*whole, ""), |(word, rest)| (word, rest.trim()));
        let action = match word {
            "" | "#" => continue,
            "==" => {
                title = rest.to_owned();
                continue;
            }
            "for" => {
                let (name, values) = rest.split_once(':').expect("for NAME: VALUES");
                loops.push((name.to_owned(), values.split(" | ").map(|v| v.trim().to_owned()).collect()));
                continue;
            }
            "why" => {
                whys.push(why(rest, line));
                continue;
            }
            "why-all" => Action::WhyAll(why(rest, line)),
            "let" => {
                let (name, path) = rest.split_once('=').expect("let NAME = PATH");
                Action::Let(name.trim().to_owned(), path.trim().to_owned())
            }
            "raw" | "bytes" => Action::Raw { framed: word == "raw", hex: rest.to_owned() },
            "sleep" => Action::Sleep(rest.parse().expect("sleep MS")),
            "close" => Action::Close(rest.to_owned()),
            "settle" => Action::Settle(rest.to_owned()),
            api => Action::Request(request(api, rest)),
        };
        let (loops, whys) = match action {
            Action::Request(_) | Action::Raw { .. } => (std::mem::take(&mut loops), std::mem::take(&mut whys)),
            _ => (Vec::new(), Vec::new()),
        };
        steps.push(Step { line, title: title.clone(), action, loops, whys });
    }
    Script { name: name.to_owned(), steps }
}

fn why(rest: &str, line: usize) -> Why {
    let (path, reason) = rest.split_once(": ").expect("why PATH: REASON");
    let (path, absent) = path.strip_suffix(" absent").map_or((path, false), |path| (path, true));
    let (path, kafka) = path.split_once(" kafka=").map_or((path, None), |(path, kafka)| (path, Some(kafka.to_owned())));
    Why { path: path.trim().to_owned(), absent, kafka, reason: reason.trim().to_owned(), line }
}

fn request(api: &str, rest: &str) -> Request {
    let (head, body) = rest.find('{').map_or((rest, "{}"), |at| rest.split_at(at));
    let mut words = head.split_whitespace();
    let number = |text: &str| text.parse::<i16>().unwrap_or_else(|_| panic!("{api}: {text} is no version"));
    let versions = match words.next().unwrap_or_else(|| panic!("{api} needs versions")) {
        "all" => None,
        range => Some(match range.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(range)..=number(range),
        }),
    };
    Request { api: api.to_owned(), versions, options: words.map(str::to_owned).collect(), body: body.to_owned() }
}

/// Braces and brackets open at the end, those in quotes aside.
fn depth(text: &str) -> i32 {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    if text.starts_with('#') { 0 } else { depth }
}

/// `text` with each `$NAME` that `of` knows replaced; names are letters, digits, `_`, `-` and, within, `.`.
pub fn fill(text: &str, of: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let mut end = tail.find(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c)).unwrap_or(tail.len());
        // The longest name that means something: `$now-5` is `$now` and `-5`.
        let found = loop {
            if end == 0 {
                break None;
            }
            if let Some(value) = of(&tail[..end]) {
                break Some(value);
            }
            end -= 1;
        };
        filled.push_str(found.as_deref().unwrap_or("$"));
        rest = &tail[end..];
    }
    filled.push_str(rest);
    filled
}
