//! A broker on the real machine.

use crate::assembly::{Endpoint, FormattedDir, OnReady, Setup, run_core, seats};
use crate::boot::StartError;
use crate::core::Layout;
use base::{CoreId, Uuid};
use config::{BrokerConfig, SecurityProtocol};
use reactor::{CoreSpec, Runtime, RuntimeConfig};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, OnceLock};

/// What formatting wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Cluster id.
    pub cluster_id: String,
    /// `directory.id` of each log directory, in the order of `log.dirs`.
    pub dir_ids: Vec<Uuid>,
    /// `directory.id` of the directory of the metadata log.
    pub metadata_dir_id: Uuid,
}

/// Runs a broker until SIGTERM or SIGINT. `on_ready` is called when clients are served, with the bound addresses.
///
/// # Errors
/// Why it could not start, or did not stop cleanly; details are in the log output.
pub fn run(
    config: BrokerConfig,
    identity: Identity,
    on_ready: impl Fn(&[Endpoint]) + Send + Sync + 'static,
) -> Result<(), StartError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (data_cores, dedicated) = config.own.layout(cpus);
    let controller_core = if dedicated { CoreId(data_cores) } else { CoreId(0) };
    let layout = Layout { data_cores, controller_core };
    let runtime = runtime_config(&config, layout, cpus);
    let setup = Arc::new(setup(config, identity, layout, Box::new(on_ready))?);
    let seats = seats(layout);
    let counts = setup.connection_counts();
    // Only the first failure is kept; the cores that end because of it have nothing to add.
    let failure: Arc<OnceLock<StartError>> = Arc::default();
    let failed = failure.clone();
    let started = Runtime::start(runtime, move |id| {
        let (setup, counts, seats, failed) = (setup.clone(), counts.clone(), seats.clone(), failed.clone());
        async move {
            match run_core(id, setup, counts, seats.take(id)).await {
                Ok(()) | Err(StartError::Elsewhere) => {}
                Err(error) => {
                    let _ = failed.set(error);
                }
            }
        }
    });
    let runtime = started.map_err(StartError::Runtime)?;
    if let Err(error) = runtime.stop_handle().on_termination_signals() {
        tracing::warn!(%error, "SIGTERM will not stop the broker in order");
    }
    runtime.join();
    Arc::into_inner(failure).and_then(OnceLock::into_inner).map_or(Ok(()), Err)
}

fn runtime_config(config: &BrokerConfig, layout: Layout, cpus: usize) -> RuntimeConfig {
    let cores = usize::from(layout.cores());
    // More cores than CPUs share them as the scheduler likes.
    let pin = config.own.core_pinning && cores <= cpus;
    let spec = |core: usize| CoreSpec {
        name: if core < usize::from(layout.data_cores) { format!("data-{core}") } else { "controller".into() },
        cpu: pin.then_some(core),
    };
    RuntimeConfig {
        cores: (0..cores).map(spec).collect(),
        ring_entries: config.own.ring_entries,
        ..RuntimeConfig::with_cores(cores)
    }
}

fn setup(config: BrokerConfig, identity: Identity, layout: Layout, on_ready: OnReady) -> Result<Setup, StartError> {
    let dirs = config.log_dirs.iter().zip(&identity.dir_ids);
    let dirs = dirs.map(|(path, id)| FormattedDir { path: path.clone(), id: *id }).collect();
    let mut endpoints = Vec::new();
    let controllers = config.controller_listeners().filter(|_| config.roles.controller);
    for listener in config.broker_listeners().chain(controllers) {
        if listener.protocol != SecurityProtocol::Plaintext {
            return Err(StartError::Unsecured { listener: listener.name.clone(), protocol: listener.protocol.name() });
        }
        let addr = resolve(&listener.host, listener.port);
        let addr = addr.map_err(|error| StartError::Resolve { listener: listener.to_string(), error })?;
        endpoints.push(Endpoint { name: listener.name.clone(), addr });
    }
    let metrics_addr = match &config.own.metrics_listener {
        Some(text) => Some(metrics_address(text)?),
        None => None,
    };
    Ok(Setup {
        config: Arc::new(config),
        cluster_id: identity.cluster_id,
        dirs,
        metadata_dir_id: identity.metadata_dir_id,
        endpoints,
        metrics_addr,
        layout,
        on_ready,
    })
}

/// The address in `odradek.metrics.listener`, `host:port`.
fn metrics_address(text: &str) -> Result<SocketAddr, StartError> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let addr = match parts {
        Some((host, port)) => resolve(host.trim_matches(['[', ']']), port),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "host:port is expected")),
    };
    addr.map_err(|error| StartError::Resolve { listener: text.to_owned(), error })
}

/// The address of a listener; no host means all addresses of the machine.
fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    if host.is_empty() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port));
    }
    let mut found = (host, port).to_socket_addrs()?;
    found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}
