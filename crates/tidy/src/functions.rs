//! Finds functions and their lengths without parsing Rust: by indentation, which `cargo fmt` guarantees.

/// A function found in a source text.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of its `fn`, from 1.
    pub line: usize,
    /// Number of lines from `fn` to the closing brace, both counted.
    pub lines: usize,
}

/// Every function with a body in `text`, in order of its end.
pub fn functions(text: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, String, usize)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(name) = function_name(trimmed) {
            if !trimmed.trim_end().ends_with('}') && !trimmed.trim_end().ends_with(';') {
                open.push((indent, name, i + 1));
            }
            continue;
        }
        let closes = trimmed.starts_with('}');
        let declares = trimmed.trim_end() == ");" || (trimmed.starts_with(')') && trimmed.trim_end().ends_with(';'));
        if (closes || declares) && open.last().is_some_and(|(at, _, _)| *at == indent) {
            let (_, name, start) = open.pop().expect("just seen");
            if closes {
                found.push(Function { name, line: start, lines: i + 2 - start });
            }
        }
    }
    found
}

fn function_name(trimmed: &str) -> Option<String> {
    let mut rest = trimmed;
    for prefix in ["pub(crate) ", "pub(super) ", "pub ", "default ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let name: String = rest.strip_prefix("fn ")?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_from_fn_to_brace() {
        let text = "impl A {\n    pub async fn one(\n        &self,\n    ) -> X {\n        if a {\n        }\n    }\n\n    fn two() {}\n}\ntrait T {\n    fn three(\n        x: u8,\n    );\n}\n";
        let found = functions(text);
        assert_eq!(found, [Function { name: "one".into(), line: 2, lines: 6 }]);
    }
}
