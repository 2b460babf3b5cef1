//! Regular expressions over topic names in RE2 syntax, as Kafka's broker reads them (KIP-848), on an engine of linear time.
//!
//! The engine's own syntax differs from RE2's in places: it nests classes, knows set operations, flags and boundaries that
//! RE2 does not, and refuses braces that are no repetition. So an expression is read here by RE2's rules, refused with
//! RE2/J's words where those say so, and handed to the engine in a form that both read alike. Topic names are ASCII, which
//! is why differences beyond ASCII do not matter.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use regex::{Regex, RegexBuilder};

/// Memory of a compiled expression in bytes. Hundreds of names fit; what repetition of repetition would blow up does not. It
/// also bounds the time that one name takes: the engine's lazy automaton needs no more than some milliseconds for the worst of
/// this size, where its slow path takes seconds for one of a megabyte.
const COMPILED_BYTES_MAX: usize = 256 << 10;
/// Most repetitions that `{n,m}` may ask for, as in RE2.
const REPEAT_MAX: u32 = 1000;
/// Longest expression in bytes: as many as the key of its record can say.
const EXPRESSION_BYTES_MAX: usize = 32_767;

/// What is wrong with an expression, in RE2/J's words.
pub type Wrong = Cow<'static, str>;

const BAD_CLASS: Wrong = Cow::Borrowed("invalid character class range");
const BAD_ESCAPE: Wrong = Cow::Borrowed("invalid escape sequence");
const BAD_GROUP_NAME: Wrong = Cow::Borrowed("invalid named capture");
const BAD_PERL: Wrong = Cow::Borrowed("invalid or unsupported Perl syntax");
const BAD_REPEAT_SIZE: Wrong = Cow::Borrowed("invalid repeat count");
const NESTED_REPEAT: Wrong = Cow::Borrowed("invalid nested repetition operator");
const NO_BRACKET: Wrong = Cow::Borrowed("missing closing ]");
const NO_PAREN: Wrong = Cow::Borrowed("missing closing )");
const NO_REPEAT_ARGUMENT: Wrong = Cow::Borrowed("missing argument to repetition operator");
const SAME_GROUP_NAME: Wrong = Cow::Borrowed("duplicate capture group name");
const TRAILING_BACKSLASH: Wrong = Cow::Borrowed("trailing backslash at end of expression");
const STRAY_PAREN: Wrong = Cow::Borrowed("regexp/syntax: internal error");
const TOO_LARGE: Wrong = Cow::Borrowed("expression too large");

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct TopicRegex(Regex);

impl TopicRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(expression: &str) -> Result<TopicRegex, Wrong> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        let translated = Translator::new(expression).run()?;
        let whole = format!(r"\A(?:{translated})\z");
        match RegexBuilder::new(&whole).size_limit(COMPILED_BYTES_MAX).build() {
            Ok(regex) => Ok(TopicRegex(regex)),
            Err(regex::Error::CompiledTooBig(_)) => Err(TOO_LARGE),
            Err(error) => Err(Cow::Owned(error.to_string().lines().last().unwrap_or_default().to_owned())),
        }
    }

    /// Whether it matches the whole of a topic's name.
    pub fn matches(&self, topic: &str) -> bool {
        self.0.is_match(topic)
    }
}

/// Whether an expression can be compiled.
///
/// # Errors
/// What is wrong with it.
pub fn check(expression: &str) -> Result<(), Wrong> {
    TopicRegex::new(expression).map(|_| ())
}

/// What stands before the present place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that can be repeated.
    Nothing,
    /// Something that can.
    Item,
    /// Something with a repetition.
    Repetition,
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
    before: Before,
    open_groups: usize,
    names: BTreeSet<&'a str>,
}

impl<'a> Translator<'a> {
    fn new(expression: &'a str) -> Translator<'a> {
        Translator {
            rest: expression,
            out: String::with_capacity(expression.len() + 16),
            before: Before::Nothing,
            open_groups: 0,
            names: BTreeSet::new(),
        }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn take_if(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).map(|rest| self.rest = rest).is_some()
    }

    fn item(&mut self, text: &str) {
        self.out.push_str(text);
        self.before = Before::Item;
    }

    fn literal(&mut self, c: char) {
        push_literal(&mut self.out, c);
        self.before = Before::Item;
    }

    fn run(mut self) -> Result<String, Wrong> {
        while let Some(c) = self.take() {
            match c {
                '(' => self.open()?,
                ')' if self.open_groups == 0 => return Err(STRAY_PAREN),
                ')' => {
                    self.open_groups -= 1;
                    self.item(")");
                }
                '|' => {
                    self.out.push('|');
                    self.before = Before::Nothing;
                }
                '[' => self.class()?,
                '*' => self.repetition("*")?,
                '+' => self.repetition("+")?,
                '?' => self.repetition("?")?,
                '{' => self.brace()?,
                '\\' => self.escape()?,
                '.' | '^' | '$' => self.item(c.encode_utf8(&mut [0; 4])),
                c => self.literal(c),
            }
        }
        if self.open_groups > 0 { Err(NO_PAREN) } else { Ok(self.out) }
    }

    fn repetition(&mut self, operator: &str) -> Result<(), Wrong> {
        match self.before {
            Before::Nothing => return Err(NO_REPEAT_ARGUMENT),
            Before::Repetition => return Err(NESTED_REPEAT),
            Before::Item => self.out.push_str(operator),
        }
        if self.take_if("?") {
            self.out.push('?');
        }
        self.before = Before::Repetition;
        Ok(())
    }

    /// A repetition, or a brace that stands for itself.
    fn brace(&mut self) -> Result<(), Wrong> {
        let Some((inside, rest)) = self.rest.split_once('}') else {
            self.literal_brace();
            return Ok(());
        };
        let (min, max) = inside.split_once(',').unwrap_or((inside, inside));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(min) || !(max.is_empty() || is_number(max)) {
            self.literal_brace();
            return Ok(());
        }
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= REPEAT_MAX).ok_or(BAD_REPEAT_SIZE);
        let min = number(min)?;
        if !max.is_empty() && number(max)? < min {
            return Err(BAD_REPEAT_SIZE);
        }
        self.rest = rest;
        self.repetition(&format!("{{{inside}}}"))
    }

    /// A brace that stands for itself. RE2 still takes what follows it for the second of two repetitions.
    fn literal_brace(&mut self) {
        push_literal(&mut self.out, '{');
        self.before = Before::Repetition;
    }

    fn open(&mut self) -> Result<(), Wrong> {
        if !self.take_if("?") {
            self.open_groups += 1;
            self.out.push('(');
            self.before = Before::Nothing;
            return Ok(());
        }
        if self.take_if("P<") || (!self.rest.starts_with("<=") && !self.rest.starts_with("<!") && self.take_if("<")) {
            let (name, rest) = self.rest.split_once('>').ok_or(BAD_GROUP_NAME)?;
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(BAD_GROUP_NAME);
            }
            if !self.names.insert(name) {
                return Err(SAME_GROUP_NAME);
            }
            self.rest = rest;
            self.open_groups += 1;
            // Nobody asks for the groups, and the engine has rules of its own for names.
            self.out.push('(');
            self.before = Before::Nothing;
            return Ok(());
        }
        self.flags()
    }

    /// `(?i)` for the rest of the group, or `(?i:...)`.
    fn flags(&mut self) -> Result<(), Wrong> {
        let end = self.rest.find([':', ')']).ok_or(BAD_PERL)?;
        let flags = &self.rest[..end];
        let (on, off) = flags.split_once('-').unwrap_or((flags, "i"));
        let known = |flags: &str| flags.bytes().all(|flag| b"imsU".contains(&flag));
        if !known(on) || !known(off) || off.is_empty() {
            return Err(BAD_PERL);
        }
        let is_group = self.rest.as_bytes()[end] == b':';
        if !is_group && flags.is_empty() {
            return Err(NO_REPEAT_ARGUMENT);
        }
        self.rest = &self.rest[end + 1..];
        let close = if is_group { ':' } else { ')' };
        write!(self.out, "(?{flags}{close}").expect("a string");
        if is_group {
            self.open_groups += 1;
            self.before = Before::Nothing;
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Wrong> {
        if self.take_if("Q") {
            let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
            quoted.chars().for_each(|c| self.literal(c));
            self.rest = rest;
            return Ok(());
        }
        match self.rest.chars().next() {
            None => Err(TRAILING_BACKSLASH),
            Some(c @ ('A' | 'b' | 'B' | 'z' | 'd' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                self.take();
                self.item(&format!("\\{c}"));
                Ok(())
            }
            Some('p' | 'P') => {
                let class = self.property()?;
                self.item(&class);
                Ok(())
            }
            Some(_) => {
                let c = self.escaped_char()?;
                self.literal(c);
                Ok(())
            }
        }
    }

    /// `pN`, `p{Greek}`, `p{^Greek}` and the same with `P`, the backslash taken.
    fn property(&mut self) -> Result<String, Wrong> {
        let mut negated = self.take() == Some('P');
        let name = if self.take_if("{") {
            let (name, rest) = self.rest.split_once('}').ok_or(BAD_CLASS)?;
            self.rest = rest;
            name
        } else {
            let rest = self.rest;
            let c = self.take().ok_or(BAD_CLASS)?;
            &rest[..c.len_utf8()]
        };
        let bare = name.strip_prefix('^').unwrap_or(name);
        negated ^= bare.len() != name.len();
        let bare = if bare == "Any" { "any" } else { bare };
        let class = format!("\\{}{{{bare}}}", if negated { 'P' } else { 'p' });
        if bare.contains(['=', ':', '!']) || Regex::new(&class).is_err() {
            return Err(BAD_CLASS);
        }
        Ok(class)
    }

    /// The character that an escape stands for, the backslash taken.
    fn escaped_char(&mut self) -> Result<char, Wrong> {
        let c = self.take().ok_or(TRAILING_BACKSLASH)?;
        match c {
            'a' => Ok('\x07'),
            'f' => Ok('\x0c'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0b'),
            'x' => self.hexadecimal(),
            '0'..='7' => {
                let is_octal = |text: &str| text.starts_with(|c: char| ('0'..='7').contains(&c));
                // A single digit other than 0 would be a back reference, which RE2 does not have.
                if c != '0' && !is_octal(self.rest) {
                    return Err(BAD_ESCAPE);
                }
                let mut value = c as u32 - '0' as u32;
                for _ in 0..2 {
                    if is_octal(self.rest) {
                        value = value * 8 + self.take().map_or(0, |c| c as u32 - '0' as u32);
                    }
                }
                char::from_u32(value).ok_or(BAD_ESCAPE)
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(c),
            _ => Err(BAD_ESCAPE),
        }
    }

    fn hexadecimal(&mut self) -> Result<char, Wrong> {
        let digits = if self.take_if("{") {
            let (digits, rest) = self.rest.split_once('}').ok_or(BAD_ESCAPE)?;
            self.rest = rest;
            digits
        } else {
            let digits = self.rest.get(..2).ok_or(BAD_ESCAPE)?;
            self.rest = &self.rest[2..];
            digits
        };
        let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        value.and_then(char::from_u32).ok_or(BAD_ESCAPE)
    }

    /// A class, its bracket taken. Written out as ranges of escaped characters, so that no rule of the engine's own applies.
    fn class(&mut self) -> Result<(), Wrong> {
        let mut class = String::from(if self.take_if("^") { "[^" } else { "[" });
        let mut is_first = true;
        loop {
            if self.rest.is_empty() {
                return Err(NO_BRACKET);
            }
            if !is_first && self.take_if("]") {
                break;
            }
            is_first = false;
            if let Some(named) = self.class_in_class()? {
                class.push_str(&named);
                continue;
            }
            let low = self.class_char()?;
            let is_range = self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]");
            let high = if is_range {
                self.take();
                self.class_char()?
            } else {
                low
            };
            if high < low {
                return Err(BAD_CLASS);
            }
            write!(class, "\\x{{{:x}}}-\\x{{{:x}}}", low as u32, high as u32).expect("a string");
        }
        class.push(']');
        self.item(&class);
        Ok(())
    }

    fn class_char(&mut self) -> Result<char, Wrong> {
        match self.take() {
            None => Err(NO_BRACKET),
            Some('\\') => self.escaped_char(),
            Some(c) => Ok(c),
        }
    }

    /// `[:alpha:]`, `\d` or `\pL` within a class.
    fn class_in_class(&mut self) -> Result<Option<String>, Wrong> {
        if let Some((name, rest)) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
            const NAMES: [&str; 14] = [
                "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
                "upper", "word", "xdigit",
            ];
            if !NAMES.contains(&name.trim_start_matches('^')) || name.starts_with("^^") {
                return Err(BAD_CLASS);
            }
            self.rest = rest;
            return Ok(Some(format!("[:{name}:]")));
        }
        let mut chars = self.rest.chars();
        match (chars.next(), chars.next()) {
            (Some('\\'), Some(c @ ('d' | 'D' | 's' | 'S' | 'w' | 'W'))) => {
                self.rest = &self.rest[2..];
                Ok(Some(format!("\\{c}")))
            }
            (Some('\\'), Some('p' | 'P')) => {
                self.take();
                self.property().map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        write!(out, "\\x{{{:x}}}", c as u32).expect("a string");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_whole_names() {
        for (expression, topic, matches) in [
            ("foo", "foo", true),
            ("foo", "foobar", false),
            ("foo|foobar", "foobar", true),
            ("foo.*", "foobar", true),
            ("(?i)FOO", "foo", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            ("[a&&b]", "&", true),
            ("[[]", "[", true),
            ("[]a]", "]", true),
            ("[^[:alpha:]]", "1", true),
            (r"t\d{2,3}", "t123", true),
            (r"a\<b", "a<b", true),
            ("{", "{", true),
            ("a{,2}", "a{,2}", true),
            (r"\x41\07", "A\u{7}", true),
            (r"[\d_-]+", "1_-2", true),
            ("", "", true),
        ] {
            let compiled = TopicRegex::new(expression).unwrap_or_else(|wrong| panic!("{expression}: {wrong}"));
            assert_eq!(compiled.matches(topic), matches, "{expression} on {topic}");
        }
    }

    #[test]
    fn expressions_that_explode_elsewhere_are_linear_or_refused() {
        let name = "a".repeat(249);
        assert!(!TopicRegex::new("(a+)+b").expect("valid").matches(&name));
        assert!(!TopicRegex::new("(a|aa)*(a|aa)*(a|aa)*c").expect("valid").matches(&name));
        assert_eq!(check("((a{1000}){1000}){1000}"), Err(TOO_LARGE));
        assert_eq!(check(&"(".repeat(30_000)), Err(NO_PAREN));
        assert_eq!(check(&"a".repeat(40_000)), Err(TOO_LARGE));
        let nested = format!("{}a{}", "(".repeat(2000), ")".repeat(2000));
        assert!(check(&nested).is_err(), "deeper than the engine takes");
    }
}
