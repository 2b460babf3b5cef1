//! Which feature levels a new cluster begins with. Texts are Kafka's.

use std::collections::BTreeMap;

use metadata::features::{self, KRAFT_VERSION, METADATA_VERSION, MetadataVersion};

use super::StorageError;

/// A level of a feature above 0.
struct Level {
    level: i16,
    /// Clusters formatted with this metadata version or a later one begin with the level.
    default_from: i16,
    /// Metadata version without which the level cannot be set.
    needs: i16,
}

/// A level that needs nothing but the lowest metadata version.
const fn level(level: i16, default_from: i16) -> Level {
    Level { level, default_from, needs: 0 }
}

/// The features besides `metadata.version` and `kraft.version`, sorted by name.
const FEATURES: [(&str, &[Level]); 5] = [
    (features::ELR_VERSION, &[Level { level: 1, default_from: 26, needs: 23 }]),
    (features::GROUP_VERSION, &[level(1, 22)]),
    (features::SHARE_VERSION, &[level(1, 28), level(2, 31)]),
    (features::STREAMS_VERSION, &[level(1, 29)]),
    (features::TRANSACTION_VERSION, &[level(1, 24), level(2, 24)]),
];

/// What the command line says about features.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// `--release-version`.
    pub(crate) release: Option<String>,
    /// `--feature name=level`.
    pub(crate) levels: BTreeMap<String, i16>,
    /// The voters are kept in the log (KIP-853).
    pub(crate) dynamic_quorum: bool,
}

/// The levels a cluster is formatted with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Levels {
    /// `metadata.version`.
    pub(crate) release: MetadataVersion,
    /// `kraft.version`.
    pub(crate) kraft: i16,
    /// The others that are above 0, sorted by name.
    pub(crate) others: Vec<(&'static str, i16)>,
}

/// Parses `--feature`.
pub(crate) fn parse_level(text: &str) -> Result<(String, i16), StorageError> {
    let Some((name, level)) = text.split_once('=') else {
        return Err(StorageError::new(format!("Can't parse feature=level string {text}: equals sign not found.")));
    };
    let parsed = level.trim().parse().map_err(|_| {
        StorageError::new(format!(
            "Can't parse feature=level string {text}: unable to parse {} as a short.",
            level.trim()
        ))
    })?;
    Ok((name.trim().to_owned(), parsed))
}

/// Parses `--release-version`: a name such as `4.4-IV2`, or a release such as `4.4`, which stands for its last level.
pub(crate) fn parse_release(text: &str) -> Result<MetadataVersion, StorageError> {
    let all = || (MetadataVersion::MIN.level()..=MetadataVersion::MAX.level()).filter_map(MetadataVersion::from_level);
    let key = text.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let matches = |version: &MetadataVersion| version.name() == key || version.name().split('-').next() == Some(&key);
    all().rev().find(matches).ok_or_else(|| {
        let names: Vec<&str> = all().map(MetadataVersion::name).collect();
        StorageError::new(format!(
            "Unknown metadata.version '{text}'. Supported metadata.version are: {}",
            names.join(", ")
        ))
    })
}

/// Decides on the levels.
pub(crate) fn decide(wanted: &Wanted) -> Result<Levels, StorageError> {
    let release = release(wanted)?;
    let known: Vec<&str> = names().collect();
    if let Some(name) = wanted.levels.keys().find(|name| *name != METADATA_VERSION && !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(StorageError::new(format!("Unsupported feature: {name}. Supported features are: {known}")));
    }
    let kraft = kraft_version(wanted)?;
    let mut others = Vec::new();
    for (name, levels) in FEATURES {
        let default = levels.iter().rev().find(|level| level.default_from <= release.level());
        let chosen = wanted.levels.get(name).copied().unwrap_or_else(|| default.map_or(0, |level| level.level));
        if chosen == 0 {
            continue;
        }
        let Some(level) = levels.iter().find(|level| level.level == chosen) else {
            return Err(StorageError::new(format!("No feature:{name} with feature level {chosen}")));
        };
        if level.needs > release.level() {
            return Err(StorageError::new(format!(
                "{name} could not be set to {chosen} because it depends on metadata.version level {}",
                level.needs
            )));
        }
        others.push((name, chosen));
    }
    Ok(Levels { release, kraft, others })
}

fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&'static str> = FEATURES.iter().map(|(name, _)| *name).chain([KRAFT_VERSION]).collect();
    names.sort_unstable();
    names.into_iter()
}

fn release(wanted: &Wanted) -> Result<MetadataVersion, StorageError> {
    match (wanted.levels.get(METADATA_VERSION), &wanted.release) {
        (Some(_), Some(_)) => {
            Err(StorageError::new("Use --release-version instead of --feature metadata.version=X to avoid ambiguity."))
        }
        (Some(&level), None) => MetadataVersion::from_level(level).ok_or_else(|| {
            StorageError::new(format!(
                "No MetadataVersion with feature level {level}. Valid feature levels are from {} to {}.",
                MetadataVersion::MIN.level(),
                MetadataVersion::MAX.level()
            ))
        }),
        (None, Some(text)) => parse_release(text),
        (None, None) => Ok(MetadataVersion::MAX),
    }
}

fn kraft_version(wanted: &Wanted) -> Result<i16, StorageError> {
    match (wanted.levels.get(KRAFT_VERSION), wanted.dynamic_quorum) {
        (None, dynamic) => Ok(i16::from(dynamic)),
        (Some(0), true) => Err(StorageError::new(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, \
             --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing \
             the --feature flag for kraft.version.",
        )),
        (Some(0), false) => Ok(0),
        (Some(level), false) => Err(StorageError::new(format!(
            "Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags \
             --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, \
             try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing \
             controller.quorum.voters."
        ))),
        (Some(1), true) => Ok(1),
        (Some(level), true) => Err(StorageError::new(format!("No feature:kraft.version with feature level {level}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(levels: &[&str], release: Option<&str>, dynamic_quorum: bool) -> Wanted {
        let levels = levels.iter().map(|text| parse_level(text).unwrap()).collect();
        Wanted { release: release.map(str::to_owned), levels, dynamic_quorum }
    }

    #[test]
    fn a_new_cluster_has_the_newest_levels() {
        let levels = decide(&wanted(&[], None, true)).unwrap();
        assert_eq!((levels.release.level(), levels.kraft), (33, 1));
        let want = [
            ("eligible.leader.replicas.version", 1),
            ("group.version", 1),
            ("share.version", 2),
            ("streams.version", 1),
            ("transaction.version", 2),
        ];
        assert_eq!(levels.others, want);
    }

    #[test]
    fn an_older_release_has_older_levels() {
        // Levels of: eligible leader replicas, group, share, streams, transaction.
        let cases = [
            ("3.3-IV3", 7, [0, 0, 0, 0, 0]),
            ("4.0", 25, [0, 1, 0, 0, 2]),
            ("4.2.1", 29, [1, 1, 1, 1, 2]),
            ("4.4-IV0", 31, [1, 1, 2, 1, 2]),
        ];
        for (release, level, others) in cases {
            let levels = decide(&wanted(&[], Some(release), false)).unwrap();
            let got =
                FEATURES.map(|(name, _)| levels.others.iter().find(|(other, _)| *other == name).map_or(0, |(_, l)| *l));
            assert_eq!((levels.release.level(), levels.kraft, got), (level, 0, others), "{release}");
        }
    }

    #[test]
    fn levels_can_be_chosen() {
        let levels = decide(&wanted(&["share.version=0", "group.version=1"], None, false)).unwrap();
        assert!(!levels.others.iter().any(|(name, _)| *name == "share.version"));
    }

    #[test]
    fn refusals() {
        let cases: [(&[&str], Option<&str>, bool, &str); 7] = [
            (
                &["nope=1"],
                None,
                false,
                "Unsupported feature: nope. Supported features are: \
              eligible.leader.replicas.version, group.version, kraft.version, share.version, streams.version, \
              transaction.version",
            ),
            (&["group.version=2"], None, false, "No feature:group.version with feature level 2"),
            (
                &["metadata.version=33"],
                Some("4.4"),
                false,
                "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
            ),
            (
                &["metadata.version=99"],
                None,
                false,
                "No MetadataVersion with feature level 99. Valid feature levels are from 7 to 33.",
            ),
            (
                &["eligible.leader.replicas.version=1"],
                Some("3.9"),
                false,
                "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
            ),
            (
                &["kraft.version=0"],
                None,
                true,
                "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one \
              of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic \
              controllers support, try removing the --feature flag for kraft.version.",
            ),
            (&["kraft.version=2"], None, true, "No feature:kraft.version with feature level 2"),
        ];
        for (levels, release, dynamic, want) in cases {
            assert_eq!(decide(&wanted(levels, release, dynamic)), Err(StorageError::new(want)));
        }
        assert!(parse_release("9.9").unwrap_err().0.starts_with("Unknown metadata.version '9.9'."));
        assert!(parse_level("x").is_err() && parse_level("x=y").is_err());
    }
}
