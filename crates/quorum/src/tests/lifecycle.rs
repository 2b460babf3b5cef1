//! The broker's side of its registration: comes, reports, leaves.

use std::time::Duration;

use base::Uuid;
use bytes::Bytes;
use metadata::{Endpoint, features};
use thiserror::Error;
use wire::broker_heartbeat_request::BrokerHeartbeatRequest;
use wire::broker_heartbeat_response::BrokerHeartbeatResponse;
use wire::broker_registration_request::{BrokerRegistrationRequest, Feature, Listener};
use wire::broker_registration_response::BrokerRegistrationResponse;
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Writer};

use quorum::{ControllerHandle, RequestContext, RequestFailure};

/// Versions in which the requests are made.
const REGISTRATION_VERSION: i16 = 4;
const HEARTBEAT_VERSION: i16 = 2;

/// Pause between two tries to register, and between two looks whether an orderly leave is granted.
const RETRY_MS: u64 = 50;

/// What a broker says of itself when it registers.
#[derive(Clone, Debug)]
pub struct BrokerIdentity {
    /// `node.id`.
    pub id: i32,
    /// Cluster id from `meta.properties`.
    pub cluster_id: String,
    /// Random id of this process.
    pub incarnation_id: Uuid,
    /// Advertised listeners.
    pub listeners: Vec<Endpoint>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Ids of the online log directories.
    pub log_dirs: Vec<Uuid>,
    /// Epoch of the last incarnation, when this one knows that it still has every acknowledged record: it found the mark
    /// of a clean stop, or its durability rung promises it. -1 when it does not know; with eligible leader replicas its
    /// partitions then get leaders that count as uncleanly elected.
    pub previous_epoch: i64,
}

/// The registration failed.
#[derive(Debug, Error)]
pub enum LifecycleError {
    /// The controller has stopped, or does not understand its own broker.
    #[error(transparent)]
    Request(#[from] RequestFailure),
    /// The controller refuses the broker.
    #[error("the controller refuses broker {id}: {error}")]
    Refused {
        /// `node.id`.
        id: i32,
        /// The error.
        error: ErrorCode,
    },
}

/// A registered broker.
#[derive(Clone)]
pub struct BrokerLifecycle {
    controller: ControllerHandle,
    id: i32,
    epoch: i64,
}

/// What the controller answered to a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The broker leads nothing and must not serve clients.
    pub fenced: bool,
    /// The broker may end now.
    pub should_shut_down: bool,
}

fn context() -> RequestContext {
    RequestContext { principal: "User:ANONYMOUS".to_owned(), client_id: None }
}

fn encode(request: &impl Encode, version: i16) -> Bytes {
    let mut writer = Writer::new();
    request.encode(&mut writer, version).expect("the version holds every field that is set");
    writer.into_bytes().unwrap_or_default()
}

impl BrokerLifecycle {
    /// Registers the broker. While an earlier incarnation may still be alive, the controller refuses; this waits for the
    /// end of its session.
    ///
    /// # Errors
    /// When the controller refuses for another reason or has stopped.
    pub async fn register(
        controller: ControllerHandle,
        identity: &BrokerIdentity,
    ) -> Result<BrokerLifecycle, LifecycleError> {
        let body = encode(&registration(identity), REGISTRATION_VERSION);
        loop {
            let answer =
                controller.request(context(), ApiKey::BrokerRegistration, REGISTRATION_VERSION, body.clone()).await?;
            let response = BrokerRegistrationResponse::decode(&mut Reader::new(&answer), REGISTRATION_VERSION);
            let response = response.map_err(|error| RequestFailure::Malformed(error.to_string()))?;
            match ErrorCode(response.error_code) {
                ErrorCode::NONE => {
                    return Ok(BrokerLifecycle { controller, id: identity.id, epoch: response.broker_epoch });
                }
                ErrorCode::DUPLICATE_BROKER_REGISTRATION => reactor::sleep(Duration::from_millis(RETRY_MS)).await,
                error => return Err(LifecycleError::Refused { id: identity.id, error }),
            }
        }
    }

    /// Sends one heartbeat. `metadata_offset` is the offset of the image that every core has applied.
    ///
    /// # Errors
    /// STALE_BROKER_EPOCH when another incarnation has registered; when the controller has stopped.
    pub async fn heartbeat(
        &self,
        metadata_offset: i64,
        want_shut_down: bool,
        offline_log_dirs: Vec<Uuid>,
    ) -> Result<Heartbeat, LifecycleError> {
        let request = BrokerHeartbeatRequest {
            broker_id: self.id,
            broker_epoch: self.epoch,
            current_metadata_offset: metadata_offset,
            want_fence: false,
            want_shut_down,
            offline_log_dirs,
            cordoned_log_dirs: Some(Vec::new()),
        };
        let body = encode(&request, HEARTBEAT_VERSION);
        let answer = self.controller.request(context(), ApiKey::BrokerHeartbeat, HEARTBEAT_VERSION, body).await?;
        let response = BrokerHeartbeatResponse::decode(&mut Reader::new(&answer), HEARTBEAT_VERSION);
        let response = response.map_err(|error| RequestFailure::Malformed(error.to_string()))?;
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => {
                Ok(Heartbeat { fenced: response.is_fenced, should_shut_down: response.should_shut_down })
            }
            error => Err(LifecycleError::Refused { id: self.id, error }),
        }
    }

    /// Leaves in order: leaderships move away, then the broker is fenced and may end. Gives up after `timeout`.
    ///
    /// # Errors
    /// As for [`BrokerLifecycle::heartbeat`]. True when the leave was granted.
    pub async fn shut_down(&self, metadata_offset: i64, timeout: Duration) -> Result<bool, LifecycleError> {
        let leave = async {
            loop {
                let beat = self.heartbeat(metadata_offset, true, Vec::new()).await?;
                if beat.should_shut_down {
                    return Ok(());
                }
                reactor::sleep(Duration::from_millis(RETRY_MS)).await;
            }
        };
        match reactor::timeout(timeout, leave).await {
            Ok(outcome) => outcome.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

fn registration(identity: &BrokerIdentity) -> BrokerRegistrationRequest<'_> {
    let listeners = identity.listeners.iter().map(|endpoint| Listener {
        name: (*endpoint.name).into(),
        host: (*endpoint.host).into(),
        port: endpoint.port,
        security_protocol: endpoint.security_protocol,
    });
    let supported = features::SUPPORTED.iter().map(|feature| Feature {
        name: feature.name.into(),
        min_supported_version: feature.min,
        max_supported_version: feature.max,
    });
    BrokerRegistrationRequest {
        broker_id: identity.id,
        cluster_id: identity.cluster_id.as_str().into(),
        incarnation_id: identity.incarnation_id,
        listeners: listeners.collect(),
        features: supported.collect(),
        rack: identity.rack.as_deref().map(Into::into),
        is_migrating_zk_broker: false,
        log_dirs: identity.log_dirs.clone(),
        previous_broker_epoch: identity.previous_epoch,
    }
}
