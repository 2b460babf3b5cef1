/// `MaxWaitMs` as `max_wait_ms`. A run of capitals is one word (`ISRNodes` is `isr_nodes`), and so is `KRaft`.
pub fn snake_case(name: &str) -> String {
    let name = name.replace("KRaft", "Kraft");
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let after_lower = i > 0 && !chars[i - 1].is_ascii_uppercase();
        let before_lower = chars.get(i + 1).is_some_and(|next| next.is_ascii_lowercase());
        if c.is_ascii_uppercase() && i > 0 && (after_lower || before_lower) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A field's name as a Rust identifier.
pub(crate) fn field_ident(name: &str) -> String {
    let snake = snake_case(name);
    match snake.as_str() {
        "type" | "match" | "ref" | "move" | "use" | "in" | "loop" | "self" | "where" => format!("r#{snake}"),
        _ => snake,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_snake_case() {
        let check = |name: &str, expect: &str| assert_eq!(snake_case(name), expect);
        check("MaxWaitMs", "max_wait_ms");
        check("KRaftVersionRecord", "kraft_version_record");
        check("ISRNodes", "isr_nodes");
        check("topicId", "topic_id");
        check("Crc", "crc");
        assert_eq!(field_ident("Type"), "r#type");
    }
}
