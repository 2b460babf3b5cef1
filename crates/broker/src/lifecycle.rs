//! The broker's place in the cluster: registration with the controller, heartbeats, the orderly end.
//!
//! Runs on data core 0, where the controller may be reached like any core.

use crate::core::DataCore;
use base::{Offset, Uuid};
use config::Listener;
use metadata::features;
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use wire::broker_heartbeat_request::BrokerHeartbeatRequest;
use wire::broker_heartbeat_response::BrokerHeartbeatResponse;
use wire::broker_registration_request::{self, BrokerRegistrationRequest, Feature};
use wire::broker_registration_response::BrokerRegistrationResponse;
use wire::{ApiKey, ErrorCode};

/// Versions of the requests to the controller.
const REGISTRATION_VERSION: i16 = 4;
const HEARTBEAT_VERSION: i16 = 2;

/// Pause between attempts while the controller is not ready, in milliseconds.
const RETRY_MS: u64 = 20;

/// Longest wait for the controller to agree to a shutdown, in milliseconds: a single broker has nobody to hand its
/// partitions to, so there is nothing to wait for beyond one exchange.
const SHUTDOWN_WAIT_MS: u64 = 2_000;

/// What a broker says of itself when it registers.
pub struct Registration {
    /// What clients are told, with real ports.
    pub listeners: Vec<Listener>,
    /// Ids of the log directories.
    pub directories: Vec<Uuid>,
    /// Epoch of the run that ended cleanly before, or -1 (KIP-966).
    pub previous_epoch: i64,
}

/// The broker's membership.
pub struct Membership {
    core: Rc<DataCore>,
    epoch: Cell<i64>,
}

impl Membership {
    /// Registers, trying until the controller is there.
    ///
    /// # Errors
    /// The controller refuses this broker.
    pub async fn register(core: Rc<DataCore>, registration: &Registration) -> Result<Membership, ErrorCode> {
        let config = core.config();
        let deadline_ms = reactor::now().mono_ms() + u64::from(config.registration_timeout_ms);
        let request = registration_request(&core, registration);
        loop {
            let answer = core.exchange::<_, BrokerRegistrationResponse>(
                ApiKey::BrokerRegistration,
                REGISTRATION_VERSION,
                &request,
            );
            let error = match answer.await {
                Ok(response) if response.error_code == 0 => {
                    return Ok(Membership { core, epoch: Cell::new(response.broker_epoch) });
                }
                Ok(response) => ErrorCode(response.error_code),
                Err(error) => error,
            };
            let fatal = matches!(
                error,
                ErrorCode::INCONSISTENT_CLUSTER_ID
                    | ErrorCode::DUPLICATE_BROKER_REGISTRATION
                    | ErrorCode::UNSUPPORTED_VERSION
                    | ErrorCode::INVALID_REGISTRATION
            );
            if fatal || reactor::now().mono_ms() > deadline_ms {
                return Err(error);
            }
            reactor::sleep(Duration::from_millis(RETRY_MS)).await;
        }
    }

    /// The broker epoch.
    pub fn epoch(&self) -> i64 {
        self.epoch.get()
    }

    /// Reports to the controller until it lets this broker serve.
    pub async fn unfence(&self) {
        loop {
            match self.heartbeat(false).await {
                Ok(response) if response.error_code == 0 && !response.is_fenced => return,
                Ok(_) | Err(_) => reactor::sleep(Duration::from_millis(RETRY_MS)).await,
            }
        }
    }

    /// Reports every `broker.heartbeat.interval.ms`, for ever.
    pub async fn keep_alive(&self) {
        loop {
            let interval_ms = self.core.config().heartbeat_interval_ms;
            reactor::sleep(Duration::from_millis(interval_ms.into())).await;
            let error = match self.heartbeat(false).await {
                Ok(response) => ErrorCode(response.error_code),
                Err(error) => error,
            };
            if !error.is_none() {
                tracing::warn!(%error, epoch = self.epoch.get(), "the controller refused a heartbeat");
            }
        }
    }

    /// Tells the controller that this broker goes, and waits a little for its consent.
    pub async fn leave(&self) {
        let leaving = async {
            loop {
                match self.heartbeat(true).await {
                    Ok(response) if response.error_code != 0 || response.should_shut_down => return,
                    Ok(_) => reactor::sleep(Duration::from_millis(RETRY_MS)).await,
                    Err(_) => return,
                }
            }
        };
        // The limit holds for an exchange too: a controller that does not answer must not keep the broker from its logs.
        if reactor::timeout(Duration::from_millis(SHUTDOWN_WAIT_MS), leaving).await.is_err() {
            tracing::warn!(SHUTDOWN_WAIT_MS, "the controller did not agree to the shutdown in time");
        }
    }

    async fn heartbeat(&self, want_shut_down: bool) -> Result<BrokerHeartbeatResponse, ErrorCode> {
        let current_metadata_offset: Offset = self.core.image().provenance.last_offset;
        let request = BrokerHeartbeatRequest {
            broker_id: self.core.node.id,
            broker_epoch: self.epoch.get(),
            current_metadata_offset,
            want_fence: false,
            want_shut_down,
            ..BrokerHeartbeatRequest::default()
        };
        self.core.exchange(ApiKey::BrokerHeartbeat, HEARTBEAT_VERSION, &request).await
    }
}

fn registration_request<'r>(core: &'r DataCore, registration: &'r Registration) -> BrokerRegistrationRequest<'r> {
    let listener = |listener: &'r Listener| broker_registration_request::Listener {
        name: Cow::Borrowed(&listener.name),
        host: Cow::Borrowed(&listener.host),
        port: listener.port,
        security_protocol: listener.protocol.wire_id(),
    };
    let feature = |one: &features::FeatureSupport| Feature {
        name: Cow::Borrowed(one.name),
        min_supported_version: one.min,
        max_supported_version: one.max,
    };
    BrokerRegistrationRequest {
        broker_id: core.node.id,
        cluster_id: Cow::Borrowed(&core.node.cluster_id),
        incarnation_id: core.node.incarnation_id,
        listeners: registration.listeners.iter().map(listener).collect(),
        features: features::SUPPORTED.iter().map(feature).collect(),
        rack: core.config().rack.clone().map(Cow::Owned),
        log_dirs: registration.directories.clone(),
        previous_broker_epoch: registration.previous_epoch,
        ..BrokerRegistrationRequest::default()
    }
}
