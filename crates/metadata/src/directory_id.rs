//! Ids of log directories that stand for a situation instead of a directory (KIP-858).

use base::Uuid;

/// The record is older than directory assignment: the directory is not known.
pub const MIGRATING: Uuid = Uuid::ZERO;
/// The broker has not yet chosen a directory for the replica.
pub const UNASSIGNED: Uuid = Uuid::from_u128(1);
/// The replica lies in a directory that is offline.
pub const LOST: Uuid = Uuid::from_u128(2);

/// True for ids that no real directory may have: the three above and the rest of the first hundred.
pub fn is_reserved(id: Uuid) -> bool {
    u128::from_be_bytes(*id.as_bytes()) < 100
}

/// Whether a replica in `directory` can be led or followed on a broker whose online directories are `online` (sorted).
/// An empty `online` list comes from a broker that registers no directories and means "all".
pub fn is_online(directory: Uuid, online: &[Uuid]) -> bool {
    if directory == UNASSIGNED || directory == MIGRATING {
        return true;
    }
    if directory == LOST {
        return false;
    }
    online.is_empty() || online.binary_search(&directory).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_online_where_its_directory_is() {
        let (a, b) = (Uuid::from_u128(1000), Uuid::from_u128(2000));
        for (directory, online, expect) in [
            (UNASSIGNED, vec![a], true),
            (MIGRATING, vec![a], true),
            (LOST, vec![a], false),
            (a, vec![a, b], true),
            (b, vec![a], false),
            (b, vec![], true),
        ] {
            assert_eq!(is_online(directory, &online), expect, "{directory} of {online:?}");
        }
        assert!(is_reserved(LOST) && !is_reserved(a));
    }
}
