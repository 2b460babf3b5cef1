//! What cores tell each other while the broker starts and stops.

use crate::assembly::Endpoint;
use crate::checkpoints::ByDir;
use crate::controller_host::ControllerHost;
use base::{CoreId, Uuid};
use log::DirStart;
use reactor::mailbox::Port;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use wire::ErrorCode;

/// Why a broker cannot start, or stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A log directory cannot be used.
    #[error("log directory {}: {error}", path.display())]
    Dir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// A listener cannot listen.
    #[error("listener {} at {}: {error}", endpoint.name, endpoint.addr)]
    Bind {
        /// The listener.
        endpoint: Endpoint,
        /// What the system says.
        error: std::io::Error,
    },
    /// Somebody else listens where a listener should.
    #[error(
        "listener {}: address {} is in use by another process. Stop that process, or change the port in listeners",
        endpoint.name, endpoint.addr
    )]
    InUse {
        /// The listener.
        endpoint: Endpoint,
    },
    /// A listener's host has no address.
    #[error("listener {listener}: {error}")]
    Resolve {
        /// The listener.
        listener: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// The cores cannot be started.
    #[error("the cores cannot be started: {0}")]
    Runtime(std::io::Error),
    /// The controller does not take this broker.
    #[error("the controller refuses this broker: {0}")]
    Refused(ErrorCode),
    /// The controller's core cannot start.
    #[error("the controller: {0}")]
    Controller(String),
    /// A listener asks for TLS or SASL. To serve it in plain text would give away what it is to protect.
    #[error(
        "listener {listener} asks for {protocol}, which is not served yet; set its protocol to PLAINTEXT in \
         listener.security.protocol.map, where its network is trusted, or take it out of listeners"
    )]
    Unsecured {
        /// Name of the listener.
        listener: String,
        /// Its protocol.
        protocol: &'static str,
    },
    /// Closing failed; the next start recovers.
    #[error("closing: {0}")]
    Close(String),
    /// Another core said why, or a stop was asked for.
    #[error("another core ended the broker")]
    Elsewhere,
}

/// What core 0 found, and chose for all.
pub struct Opened {
    /// The log directories, in the order of `log.dirs`.
    pub dirs: Vec<DirStart>,
    /// Id of this process.
    pub incarnation_id: Uuid,
}

/// The messages.
#[derive(Clone)]
pub enum Boot {
    /// Core 0 opened the log directories.
    Opened(Arc<Opened>),
    /// Core 0 bound the listeners.
    Endpoints(Vec<Endpoint>),
    /// The broker is part of the cluster: accept connections.
    Serve,
    /// A core's connections are gone.
    Drained,
    /// All are: close the partitions.
    Close,
    /// A core's partitions are closed; what it has to say for the checkpoint files.
    Closed(Result<ByDir, String>),
    /// All of them are: the controller on a core of its own ends.
    CloseController,
    /// It has.
    ControllerClosed(Result<(), String>),
    /// All is done.
    Exit,
    /// A core failed: end.
    Abort,
}

/// One core's end.
pub struct BootPort {
    id: CoreId,
    cores: u16,
    port: Port<Boot>,
    // Messages that came before anybody asked for them.
    early: RefCell<VecDeque<Boot>>,
}

impl BootPort {
    /// The end of core `id` of `cores`.
    pub fn new(id: CoreId, cores: u16, port: Port<Boot>) -> BootPort {
        BootPort { id, cores, port, early: RefCell::new(VecDeque::new()) }
    }

    /// Tells all other cores.
    pub async fn announce(&self, message: impl Fn() -> Boot) {
        for core in (0..self.cores).map(CoreId).filter(|core| *core != self.id) {
            self.port.post(core, message()).await;
        }
    }

    /// Tells core 0.
    pub async fn tell_first(&self, message: Boot) {
        self.port.post(CoreId(0), message).await;
    }

    /// Tells all other cores to end.
    pub fn abort(&self) {
        for core in (0..self.cores).map(CoreId).filter(|core| *core != self.id) {
            // A lane that is full is that of a core which ended.
            let _ = self.port.try_post(core, Boot::Abort);
        }
    }

    /// Returns when another core failed.
    pub async fn aborted(&self) {
        loop {
            match self.port.recv().await {
                (_, Boot::Abort) => return,
                (_, other) => self.early.borrow_mut().push_back(other),
            }
        }
    }

    /// Waits for one message of a kind.
    ///
    /// # Errors
    /// [`StartError::Elsewhere`].
    pub async fn one(&self, is_it: impl Fn(&Boot) -> bool) -> Result<Boot, StartError> {
        let at = self.early.borrow().iter().position(&is_it);
        if let Some(message) = at.and_then(|at| self.early.borrow_mut().remove(at)) {
            return Ok(message);
        }
        loop {
            match self.port.recv().await {
                (_, Boot::Abort) => return Err(StartError::Elsewhere),
                (_, message) if is_it(&message) => return Ok(message),
                (_, other) => self.early.borrow_mut().push_back(other),
            }
        }
    }

    /// Waits for one message of a kind from every other data core, of which there are `count`.
    ///
    /// # Errors
    /// [`StartError::Elsewhere`].
    pub async fn each(&self, count: usize, is_it: impl Fn(&Boot) -> bool) -> Result<Vec<Boot>, StartError> {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(self.one(&is_it).await?);
        }
        Ok(all)
    }

    /// Ends the controller, wherever it runs: `shared` on this core, else on the one of its own. Every core still takes in
    /// what it publishes; once one does not, it cannot finish what it began.
    ///
    /// # Errors
    /// [`StartError::Controller`], [`StartError::Elsewhere`].
    pub async fn close_controller(&self, shared: Option<ControllerHost>) -> Result<(), StartError> {
        if let Some(controller) = shared {
            return controller.close().await;
        }
        self.announce(|| Boot::CloseController).await;
        match self.one(|message| matches!(message, Boot::ControllerClosed(_))).await? {
            Boot::ControllerClosed(closed) => closed.map_err(StartError::Controller),
            _ => unreachable!("only this kind was waited for"),
        }
    }

    /// Waits for what core 0 found in the log directories.
    ///
    /// # Errors
    /// [`StartError::Elsewhere`].
    pub async fn opened(&self) -> Result<Arc<Opened>, StartError> {
        match self.one(|message| matches!(message, Boot::Opened(_))).await? {
            Boot::Opened(opened) => Ok(opened),
            _ => unreachable!("only this kind was waited for"),
        }
    }

    /// Waits for the addresses that core 0 bound.
    ///
    /// # Errors
    /// [`StartError::Elsewhere`].
    pub async fn endpoints(&self) -> Result<Vec<Endpoint>, StartError> {
        match self.one(|message| matches!(message, Boot::Endpoints(_))).await? {
            Boot::Endpoints(endpoints) => Ok(endpoints),
            _ => unreachable!("only this kind was waited for"),
        }
    }
}
