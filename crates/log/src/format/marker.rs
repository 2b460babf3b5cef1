//! `.kafka_cleanshutdown`: its presence says that nothing has to be recovered; its content is the broker's epoch.

/// The content.
pub fn write(broker_epoch: i64) -> String {
    format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}")
}

/// The broker epoch in the marker; -1 when it names none (markers of older releases are empty or of another form).
pub fn broker_epoch(text: &str) -> i64 {
    let Some(at) = text.find("\"brokerEpoch\"") else { return -1 };
    let rest = text[at + "\"brokerEpoch\"".len()..].trim_start();
    let Some(rest) = rest.strip_prefix(':') else { return -1 };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_comes_back_and_damage_reads_as_none() {
        assert_eq!(write(17), "{\"version\":0,\"brokerEpoch\":17}");
        for (text, expect) in [
            (write(i64::MAX), i64::MAX),
            ("{ \"brokerEpoch\" : 5, \"version\":0 }".into(), 5),
            (String::new(), -1),
            ("0".into(), -1),
            ("{\"brokerEpoch\":x}".into(), -1),
            ("{\"brokerEpoch\"".into(), -1),
        ] {
            assert_eq!(broker_epoch(&text), expect, "{text:?}");
        }
    }
}
