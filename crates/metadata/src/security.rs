//! Kinds that nothing serves yet, kept so that snapshots stay complete.

use std::sync::Arc;

use base::Uuid;
use imbl::OrdMap;

/// One access control entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessControlEntry {
    /// Resource type number.
    pub resource_type: i8,
    /// Resource name or prefix.
    pub resource_name: Arc<str>,
    /// Pattern type number (literal or prefixed).
    pub pattern_type: i8,
    /// Principal as text.
    pub principal: Arc<str>,
    /// Host.
    pub host: Arc<str>,
    /// Operation number.
    pub operation: i8,
    /// Permission number (deny or allow).
    pub permission_type: i8,
}

/// Access control entries by id.
pub type AclsImage = OrdMap<Uuid, Arc<AccessControlEntry>>;

/// SCRAM secrets of one user and mechanism (KIP-554).
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    /// Salt.
    pub salt: Arc<[u8]>,
    /// Stored key.
    pub stored_key: Arc<[u8]>,
    /// Server key.
    pub server_key: Arc<[u8]>,
    /// Iterations.
    pub iterations: i32,
}

impl std::fmt::Debug for ScramCredential {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramCredential").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// SCRAM credentials by mechanism number (1 SHA-256, 2 SHA-512) and user.
pub type ScramImage = OrdMap<(i8, Arc<str>), Arc<ScramCredential>>;

/// Whom a client quota is for: pairs of entity type and name, sorted by type; no name means the default (KIP-546).
pub type QuotaEntity = Vec<(Arc<str>, Option<Arc<str>>)>;

/// Client quotas by entity, then by quota name. Values are kept as IEEE bits so that images compare exactly; see
/// [`f64::from_bits`].
pub type ClientQuotasImage = OrdMap<QuotaEntity, OrdMap<Arc<str>, u64>>;

/// A delegation token (KIP-900); the secret itself is derived, never stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelegationToken {
    /// Owner as a principal's text.
    pub owner: Arc<str>,
    /// Requester as a principal's text.
    pub requester: Arc<str>,
    /// Who may renew.
    pub renewers: Vec<Arc<str>>,
    /// Issue time, ms since the epoch.
    pub issue_timestamp: i64,
    /// Last possible expiry, ms since the epoch.
    pub max_timestamp: i64,
    /// Current expiry, ms since the epoch.
    pub expiration_timestamp: i64,
}

/// Delegation tokens by token id.
pub type DelegationTokensImage = OrdMap<Arc<str>, Arc<DelegationToken>>;
