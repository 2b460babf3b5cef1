//! Numbers with units, as they stand on the command line and in what is printed.

use std::time::Duration;

/// A duration such as `30s`, `500ms`, `2m` or plain seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} is no duration: say 30s, 500ms, 2m or 1h")),
    };
    let value = number.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0 && *v < 1e9);
    value.map(|v| Duration::from_secs_f64(v * seconds)).ok_or_else(|| format!("{text:?} is no duration"))
}

/// A number of bytes such as `100`, `16k`, `1M` or `2g`, in powers of 1024.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("{text:?} is no size: say 100, 16k, 1m or 2g")),
    };
    let value = number.parse::<usize>().ok().and_then(|v| v.checked_mul(1 << shift));
    value.ok_or_else(|| format!("{text:?} is no size"))
}

/// A count such as `1000`, `50k` or `2M`, in powers of 1000.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => return Err(format!("{text:?} is no count: say 1000, 50k or 2m")),
    };
    let value = number.parse::<f64>().ok().map(|v| v * factor).filter(|v| (0.0..1e18).contains(v));
    value.map(|v| v as u64).ok_or_else(|| format!("{text:?} is no count"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A count with a comma at every thousand.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, ms) in [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1.5", 1500), ("0", 0), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for (text, bytes) in [("100", 100), ("16k", 16 << 10), ("1M", 1 << 20), ("2 GiB", 2 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, n) in [("7", 7), ("1.5k", 1500), ("2M", 2_000_000)] {
            assert_eq!(count(text), Ok(n), "{text}");
        }
        for text in ["", "x", "-1", "3 parsecs", "1.2.3", "99999999999999999999999g"] {
            assert!(duration(text).is_err() && size(text).is_err() && count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn thousands_are_marked() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }
}
