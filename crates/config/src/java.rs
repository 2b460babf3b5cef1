//! Java's rules for numbers in text, which values of options follow.

/// Characters that `String.trim` takes off: everything up to the space.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// The elements of a list value: separated by commas with white space around them; an empty text is an empty list, but
/// an element may be empty.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    let trimmed = trim(text);
    if trimmed.is_empty() {
        return Vec::new();
    }
    let space = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];
    let mut parts: Vec<&str> = trimmed.split(',').collect();
    let last = parts.len() - 1;
    for (index, part) in parts.iter_mut().enumerate() {
        if index > 0 {
            *part = part.trim_start_matches(space);
        }
        if index < last {
            *part = part.trim_end_matches(space);
        }
    }
    parts.into_iter().map(str::to_owned).collect()
}

/// `Double.parseDouble`, without its hexadecimal forms.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "NaN" || unsigned == "Infinity" {
        return text.parse().ok();
    }
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b".+-eE".contains(&b));
    if plain { digits.parse().ok() } else { None }
}

/// `Double.toString`: the shortest decimal that reads back the same, at least one digit after the point, in scientific
/// form below 10^-3 and from 10^7 on.
pub(crate) fn double_to_string(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-3..1e7).contains(&magnitude) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let point = if mantissa.contains('.') { "" } else { ".0" };
        return format!("{mantissa}{point}E{exponent}");
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_java_prints_them() {
        let cases = [
            (f64::MAX, "1.7976931348623157E308"),
            (0.5, "0.5"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (1e7, "1.0E7"),
            (9999999.0, "9999999.0"),
            (-12345678.9, "-1.23456789E7"),
        ];
        for (value, text) in cases {
            assert_eq!(double_to_string(value), text);
        }
    }

    #[test]
    fn doubles_read_as_java_reads_them() {
        for (text, value) in [("1", 1.0), ("1e3", 1000.0), (".5", 0.5), ("2.5d", 2.5), ("-1F", -1.0), ("+3", 3.0)] {
            assert_eq!(parse_double(text), Some(value), "{text}");
        }
        for text in ["", "inf", "nan", "0x1p3", "1_000", "a"] {
            assert_eq!(parse_double(text), None, "{text}");
        }
    }

    #[test]
    fn lists_split_at_commas_with_space_around() {
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("  ", &[]),
            ("a", &["a"]),
            (" a , b ", &["a", "b"]),
            ("a,,b", &["a", "", "b"]),
            (",", &["", ""]),
        ];
        for (text, want) in cases {
            assert_eq!(split_list(text), want, "{text:?}");
        }
    }
}
