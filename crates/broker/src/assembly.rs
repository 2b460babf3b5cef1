//! Putting a broker together: cores, log directories, partitions, controller, listeners; and taking it apart in order.

use crate::boot::{Boot, BootPort, Opened, StartError};
use crate::checkpoints::{self, ByDir};
use crate::controller_host::{self, ControllerHost};
use crate::core::{DataCore, DataCoreParts, Layout, Node};
use crate::dispatch::Dispatch;
use crate::fetch_session::{CacheLimits, SessionCache};
use crate::lifecycle::{Membership, Registration};
use crate::mesh::{Mesh, MeshPorts, mesh_ports};
use crate::metrics_endpoint;
use crate::promises;
use crate::serve;
use base::{CoreId, Prng, Uuid};
use config::{BrokerConfig, Durability};
use log::{DirLock, DirStart, JournalConfig, LogCore, LogCoreConfig};
use net::{AdmissionLimits, ConnectionCounts, Listener, ListenerSpec, NetCore, NetLimits};
use partition::{LogDir, PartitionCore, PartitionCoreConfig};
use reactor::mailbox::mesh;
use reactor::{Class, Handover, Task, spawn};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Frames up to this many bytes are admitted from a budget of their own: every request but a produce of real data.
const SMALL_FRAME_BYTES_MAX: usize = 64 << 10;

/// Share of a core's request memory that is kept for small frames: one part in so many.
const SMALL_SHARE: usize = 8;

/// Requests in flight at a stop have this many milliseconds to be answered.
const DRAIN_MS: u64 = 5_000;

/// Largest journal file, in bytes: positions in it are 32 bits.
const JOURNAL_FILE_BYTES_MAX: u32 = 1 << 31;

/// A fetch session unused for so long, or so old, may be evicted, in milliseconds; no option in Kafka either.
const SESSION_EVICTION_MS: u64 = 120_000;

/// Messages of the start and the stop that a core may be behind with; each core sends a handful.
const BOOT_MESSAGES: usize = 16;

/// A listener's address that is in use is tried so often: the kernel may close the sockets of a killed broker late.
const PROBES_MAX: u32 = 10;

/// Pause between two of these tries, in milliseconds.
const PROBE_PAUSE_MS: u64 = 100;

/// A log directory as formatting left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormattedDir {
    /// The directory.
    pub path: PathBuf,
    /// `directory.id` of its `meta.properties`.
    pub id: Uuid,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// The address to bind; port 0 lets the system choose.
    pub addr: SocketAddr,
}

/// Called with the bound addresses when clients are served.
pub type OnReady = Box<dyn Fn(&[Endpoint]) + Send + Sync>;

/// Everything a broker is started with.
pub struct Setup {
    /// The configuration.
    pub config: Arc<BrokerConfig>,
    /// Cluster id of `meta.properties`.
    pub cluster_id: String,
    /// The log directories, in the order of `log.dirs`.
    pub dirs: Vec<FormattedDir>,
    /// `directory.id` of the directory of the metadata log.
    pub metadata_dir_id: Uuid,
    /// Where to listen, names resolved.
    pub endpoints: Vec<Endpoint>,
    /// Where metrics are served.
    pub metrics_addr: Option<SocketAddr>,
    /// Which cores there are.
    pub layout: Layout,
    /// Called once, on core 0, when clients are served.
    pub on_ready: OnReady,
}

impl Setup {
    /// Counts for the connections of all listeners. As in Kafka, `max.connections` holds for those of the broker together, and
    /// once more for those of the controller: clients in crowds do not keep brokers from the quorum.
    pub fn connection_counts(&self) -> ConnectionCounts {
        let of = |controller: bool| {
            let names = self.endpoints.iter().map(|endpoint| endpoint.name.as_str());
            names.filter(|name| self.config.is_controller_listener(name) == controller).collect()
        };
        ConnectionCounts::new(&[of(false), of(true)])
    }
}

/// What one core needs that no other may have.
pub struct Seat {
    ports: MeshPorts,
    boot: reactor::mailbox::Port<Boot>,
}

/// The seats of all cores.
pub fn seats(layout: Layout) -> Handover<Seat> {
    let cores = usize::from(layout.cores());
    let boots = mesh(cores, BOOT_MESSAGES);
    let seats = mesh_ports(cores).into_iter().zip(boots).map(|(ports, boot)| Seat { ports, boot });
    Handover::new(seats.collect())
}

/// What one core does from start to stop. The error is for the log output and the exit status; when one core fails to
/// start, all of them end.
///
/// # Errors
/// Why the broker could not start, or stop cleanly.
pub async fn run_core(id: CoreId, setup: Arc<Setup>, counts: ConnectionCounts, seat: Seat) -> Result<(), StartError> {
    let boot = BootPort::new(id, setup.layout.cores(), seat.boot);
    let result = start_and_serve(id, &setup, counts, seat.ports, &boot).await;
    if let Err(error) = &result {
        if !matches!(error, StartError::Elsewhere) {
            tracing::error!(core = %id, %error, "the broker cannot run");
        }
        boot.abort();
    }
    result
}

async fn start_and_serve(
    id: CoreId,
    setup: &Arc<Setup>,
    counts: ConnectionCounts,
    ports: MeshPorts,
    boot: &BootPort,
) -> Result<(), StartError> {
    let mesh = Rc::new(Mesh::new(ports));
    spawn(Class::Latency, mesh.clone().receive()).detach();
    let _locks = if id.0 == 0 { claim(setup).await? } else { Vec::new() };
    let opened = open_dirs(id, setup, boot).await?;
    if id.0 >= setup.layout.data_cores {
        return controller_host::run_dedicated(setup, mesh, boot).await;
    }
    let core = data_core(id, setup, mesh.clone(), &opened).await?;
    let serving = core.clone();
    spawn(Class::Latency, mesh.clone().serve(move |from, request| serve::begin(&serving, from, request))).detach();
    let controller = match id == setup.layout.controller_core {
        true => Some(controller_host::start_shared(setup, mesh, &core).await?),
        false => None,
    };
    core.partitions.start_tasks();
    let listeners = bind(id, setup, boot).await?;
    let net = Rc::new(NetCore::new(Dispatch::new(core.clone()), net_limits(setup), counts));
    let (registry, admission) = (net.registry.clone(), net.admission.clone());
    *core.net_levels.borrow_mut() = Some(Box::new(move || (registry.len(), admission.used_bytes())));
    match id.0 {
        0 => {
            let membership = lead(setup, &core, &net, listeners, boot, &opened.dirs).await?;
            close_all(setup, &core, &net, boot, membership, controller).await
        }
        _ => follow(&core, &net, listeners, boot).await,
    }
}

/// What core 0 makes sure of before anything is read or changed: nobody else has the directories or the addresses.
async fn claim(setup: &Setup) -> Result<Vec<DirLock>, StartError> {
    let locks = lock_dirs(setup).await?;
    for endpoint in setup.endpoints.iter().filter(|endpoint| endpoint.addr.port() != 0) {
        let mut tries = 1;
        loop {
            match Listener::probe(endpoint.addr) {
                Ok(()) => break,
                Err(error) if error.kind() != ErrorKind::AddrInUse => {
                    return Err(StartError::Bind { endpoint: endpoint.clone(), error });
                }
                Err(_) if tries == PROBES_MAX => return Err(StartError::InUse { endpoint: endpoint.clone() }),
                Err(_) => tries += 1,
            }
            reactor::sleep(Duration::from_millis(PROBE_PAUSE_MS)).await;
        }
    }
    Ok(locks)
}

/// Core 0 takes the lock on every log directory and on that of the metadata log, before anybody reads or changes anything
/// there. The locks are held until the process ends.
async fn lock_dirs(setup: &Setup) -> Result<Vec<DirLock>, StartError> {
    let dirs = setup.dirs.iter().map(|dir| &dir.path).chain([&setup.config.metadata_log_dir]);
    // The metadata log mostly is in one of the log directories.
    let dirs: BTreeSet<&PathBuf> = dirs.collect();
    let mut locks = Vec::with_capacity(dirs.len());
    for path in dirs {
        let unusable = |error: log::LogError| StartError::Dir { path: path.clone(), error: error.to_string() };
        let lock = log::lock_dir(path).await.map_err(unusable)?;
        lock.keep_until_exit().map_err(unusable)?;
        locks.push(lock);
    }
    Ok(locks)
}

/// Core 0 opens the log directories, which belong to all cores, and tells what it found.
async fn open_dirs(id: CoreId, setup: &Setup, boot: &BootPort) -> Result<Arc<Opened>, StartError> {
    if id.0 != 0 {
        return boot.opened().await;
    }
    let mut dirs = Vec::with_capacity(setup.dirs.len());
    for dir in &setup.dirs {
        let started = log::open_dir(&dir.path).await;
        dirs.push(started.map_err(|error| StartError::Dir { path: dir.path.clone(), error: error.to_string() })?);
    }
    let opened = Arc::new(Opened { dirs, incarnation_id: incarnation() });
    boot.announce(|| Boot::Opened(opened.clone())).await;
    Ok(opened)
}

async fn data_core(
    id: CoreId,
    setup: &Arc<Setup>,
    mesh: Rc<Mesh>,
    opened: &Opened,
) -> Result<Rc<DataCore>, StartError> {
    let (own, cores, dir_count) = (&setup.config.own, setup.layout.data_cores, setup.dirs.len());
    let tail_bytes_max = as_size(own.tail_share(cores, dir_count));
    let unwritten_bytes_max = as_size(own.unwritten_share(cores, dir_count));
    let durability = match own.durability {
        Durability::Durable => log::Durability::Durable,
        Durability::Written => log::Durability::Written,
    };
    let mut dirs = Vec::with_capacity(setup.dirs.len());
    let mut all_logs = Vec::with_capacity(setup.dirs.len());
    for (dir, start) in setup.dirs.iter().zip(&opened.dirs) {
        let mut config = LogCoreConfig::new(dir.path.clone(), id, durability, start.clone());
        config.journal = Some(JournalConfig {
            file_bytes: u32::try_from(own.journal_file_bytes).unwrap_or(JOURNAL_FILE_BYTES_MAX),
            files_max: own.journal_files,
        });
        config.tail_bytes_max = tail_bytes_max;
        config.unwritten_bytes_max = unwritten_bytes_max;
        let logs = LogCore::open(config).await;
        let logs = logs.map_err(|error| StartError::Dir { path: dir.path.clone(), error: error.to_string() })?;
        all_logs.push(logs.clone());
        dirs.push(LogDir { id: dir.id, logs });
    }
    let partitions = PartitionCore::new(PartitionCoreConfig {
        broker_id: setup.config.node_id,
        core: id,
        cores,
        broker: setup.config.clone(),
        dirs,
    });
    let limits = CacheLimits {
        slots: (setup.config.fetch.session_slots as usize / usize::from(cores)).max(1),
        eviction_ms: SESSION_EVICTION_MS,
        modulus: i32::from(cores),
        residue: i32::from(id.0),
    };
    let core = Rc::new(DataCore::new(DataCoreParts {
        id,
        layout: setup.layout,
        node: Arc::new(Node {
            id: setup.config.node_id,
            cluster_id: setup.cluster_id.clone(),
            incarnation_id: opened.incarnation_id,
        }),
        mesh,
        partitions,
        logs: all_logs,
        sessions: SessionCache::new(limits, Prng::new(reactor::random_u64())),
        config: setup.config.clone(),
    }));
    let weak = Rc::downgrade(&core);
    core.partitions.keep_with(Rc::new(move |token| {
        if let Some(core) = weak.upgrade() {
            promises::look(&core, token);
        }
    }));
    Ok(core)
}

/// Binds the listeners. Core 0 goes first, and the others take the ports that it got.
async fn bind(id: CoreId, setup: &Setup, boot: &BootPort) -> Result<Vec<Listener>, StartError> {
    let endpoints = match id.0 {
        0 => setup.endpoints.clone(),
        _ => boot.endpoints().await?,
    };
    let mut listeners = Vec::with_capacity(endpoints.len());
    for endpoint in &endpoints {
        let net = &setup.config.net;
        let spec = ListenerSpec {
            name: endpoint.name.clone(),
            addr: endpoint.addr,
            backlog: net.backlog,
            send_buffer_bytes: net.send_buffer_bytes,
            receive_buffer_bytes: net.receive_buffer_bytes,
        };
        let bound = Listener::bind(&spec).await;
        listeners.push(bound.map_err(|error| StartError::Bind { endpoint: endpoint.clone(), error })?);
    }
    if id.0 == 0 {
        let bound = bound_endpoints(&endpoints, &listeners);
        boot.announce(|| Boot::Endpoints(bound.clone())).await;
    }
    Ok(listeners)
}

fn bound_endpoints(endpoints: &[Endpoint], listeners: &[Listener]) -> Vec<Endpoint> {
    let bound = |(endpoint, listener): (&Endpoint, &Listener)| Endpoint {
        name: endpoint.name.clone(),
        addr: listener.local_addr(),
    };
    endpoints.iter().zip(listeners).map(bound).collect()
}

/// A size in memory; what no address space has is as much as there is.
fn as_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn net_limits(setup: &Setup) -> NetLimits {
    let net = &setup.config.net;
    let cores = setup.layout.data_cores;
    let share = match net.queued_request_bytes_max {
        Some(all) => as_size(all / u64::from(cores)),
        None => as_size(setup.config.own.request_share(cores)),
    };
    let small = (share / SMALL_SHARE).max(SMALL_FRAME_BYTES_MAX);
    NetLimits {
        frame_bytes_max: net.request_max_bytes as usize,
        idle_ms_max: net.idle_ms_max,
        admission: AdmissionLimits {
            small_frame_bytes_max: SMALL_FRAME_BYTES_MAX,
            small_bytes_max: small,
            large_bytes_max: share.saturating_sub(small).max(SMALL_FRAME_BYTES_MAX),
        },
    }
}

fn accept(net: &Rc<NetCore<Dispatch>>, listeners: Vec<Listener>) {
    for listener in listeners {
        spawn(Class::Latency, listener.run(net.clone())).detach();
    }
    spawn(Class::Normal, net.clone().sweep()).detach();
    spawn(Class::Background, give_buffers_back()).detach();
}

/// Core 0's place in the cluster, and what it does all the time.
struct Leading {
    membership: Rc<Membership>,
    heart: Task<()>,
    checkpointing: Task<()>,
}

/// Core 0: joins the cluster, opens the doors, and serves until a stop is asked for.
async fn lead(
    setup: &Setup,
    core: &Rc<DataCore>,
    net: &Rc<NetCore<Dispatch>>,
    listeners: Vec<Listener>,
    boot: &BootPort,
    starts: &[DirStart],
) -> Result<Leading, StartError> {
    let endpoints = bound_endpoints(&setup.endpoints, &listeners);
    match reactor::race(core.metadata_is_there(), boot.aborted()).await {
        reactor::Either::Left(()) => {}
        reactor::Either::Right(()) => return Err(StartError::Elsewhere),
    }
    let registration = Registration {
        listeners: advertised(setup, &endpoints).await,
        directories: setup.dirs.iter().map(|dir| dir.id).collect(),
        previous_epoch: previous_epoch(setup, core, starts),
    };
    let joining = async {
        let membership = Membership::register(core.clone(), &registration).await.map_err(StartError::Refused)?;
        membership.unfence().await;
        Ok::<_, StartError>(membership)
    };
    let membership = match reactor::race(joining, reactor::race(reactor::stopping(), boot.aborted())).await {
        reactor::Either::Left(joined) => Rc::new(joined?),
        reactor::Either::Right(_) => return Err(StartError::Elsewhere),
    };
    let beating = membership.clone();
    let dirs: Vec<PathBuf> = setup.dirs.iter().map(|dir| dir.path.clone()).collect();
    let checkpointing = spawn(Class::Background, checkpoints::keep(core.clone(), dirs));
    let heart = spawn(Class::Normal, async move { beating.keep_alive().await });
    if let Some(addr) = setup.metrics_addr {
        metrics_endpoint::serve(core.clone(), addr)
            .await
            .map_err(|error| StartError::Bind { endpoint: Endpoint { name: "metrics".into(), addr }, error })?;
    }
    accept(net, listeners);
    boot.announce(|| Boot::Serve).await;
    tracing::info!(broker = core.node.id, cluster = %core.node.cluster_id, cores = setup.layout.data_cores, "serving");
    (setup.on_ready)(&endpoints);
    reactor::stopping().await;
    Ok(Leading { membership, heart, checkpointing })
}

/// Core 0 sees to it that all cores close before the broker is gone. Every wait ends: those for other cores since each of
/// their steps does, those for the disk with it.
async fn close_all(
    setup: &Setup,
    core: &Rc<DataCore>,
    net: &Rc<NetCore<Dispatch>>,
    boot: &BootPort,
    Leading { membership, heart, checkpointing }: Leading,
    controller: Option<ControllerHost>,
) -> Result<(), StartError> {
    let begun_ms = reactor::now().mono_ms();
    tracing::info!("stopping");
    core.end_waits();
    net.drain(DRAIN_MS).await;
    let dirs: Vec<PathBuf> = setup.dirs.iter().map(|dir| dir.path.clone()).collect();
    let others = usize::from(setup.layout.data_cores - 1);
    boot.each(others, |message| matches!(message, Boot::Drained)).await?;
    heart.abort();
    let drained_ms = reactor::now().mono_ms();
    membership.leave().await;
    checkpointing.abort();
    boot.announce(|| Boot::Close).await;
    let mut checkpoints = close(core).await.map_err(StartError::Close)?;
    for message in boot.each(others, |message| matches!(message, Boot::Closed(_))).await? {
        let Boot::Closed(entries) = message else { unreachable!("only this kind was waited for") };
        checkpoints::add(&mut checkpoints, entries.map_err(StartError::Close)?);
    }
    checkpoints::write(&dirs, checkpoints).await?;
    for dir in &dirs {
        let written = log::write_clean_shutdown(dir, membership.epoch()).await;
        written.map_err(|error| StartError::Close(error.to_string()))?;
    }
    let closed_ms = reactor::now().mono_ms();
    boot.close_controller(controller).await?;
    boot.announce(|| Boot::Exit).await;
    let took = (drained_ms - begun_ms, closed_ms - drained_ms, reactor::now().mono_ms() - closed_ms);
    tracing::info!(connections_ms = took.0, logs_ms = took.1, controller_ms = took.2, "closed");
    Ok(())
}

/// Closes the partitions of a core; gives what it has to say for the checkpoint files.
async fn close(core: &DataCore) -> Result<ByDir, String> {
    core.partitions.close().await.map_err(|error| error.to_string())?;
    Ok(core.checkpoints())
}

/// Every other data core.
async fn follow(
    core: &Rc<DataCore>,
    net: &Rc<NetCore<Dispatch>>,
    listeners: Vec<Listener>,
    boot: &BootPort,
) -> Result<(), StartError> {
    boot.one(|message| matches!(message, Boot::Serve)).await?;
    accept(net, listeners);
    reactor::stopping().await;
    core.end_waits();
    net.drain(DRAIN_MS).await;
    boot.tell_first(Boot::Drained).await;
    boot.one(|message| matches!(message, Boot::Close)).await?;
    let closed = close(core).await;
    boot.tell_first(Boot::Closed(closed)).await;
    boot.one(|message| matches!(message, Boot::Exit)).await?;
    Ok(())
}

/// The epoch of the last run, if nothing that it acknowledged can be missing (KIP-966): it ended cleanly, or its promise
/// was to survive whatever ended it.
fn previous_epoch(setup: &Setup, core: &DataCore, starts: &[DirStart]) -> i64 {
    let registered = core.image().cluster.broker(core.node.id).map_or(-1, |broker| broker.epoch);
    match setup.config.own.durability {
        Durability::Durable => registered,
        Durability::Written => starts.iter().map(|start| start.broker_epoch).min().unwrap_or(-1),
    }
}

fn incarnation() -> Uuid {
    loop {
        let bits = u128::from(reactor::random_u64()) << 64 | u128::from(reactor::random_u64());
        if let Some(id) = Uuid::from_random_bits(bits) {
            return id;
        }
    }
}

/// `advertised.listeners` with the ports that were bound and this machine's name where none is given.
async fn advertised(setup: &Setup, endpoints: &[Endpoint]) -> Vec<config::Listener> {
    let mut advertised = setup.config.advertised_listeners.clone();
    for listener in &mut advertised {
        if listener.port == 0
            && let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.name == listener.name)
        {
            listener.port = endpoint.addr.port();
        }
        if listener.host.is_empty() {
            listener.host = host_name().await;
        }
    }
    advertised
}

async fn host_name() -> String {
    let name = reactor::fs::read("/proc/sys/kernel/hostname").await.ok();
    let name = name.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".into())
}

/// Pause between two looks for buffer memory that nobody needed meanwhile.
const IDLE_BUFFERS: Duration = Duration::from_secs(5);

/// Gives buffer memory of this core that a burst left behind back to the system, for ever.
async fn give_buffers_back() {
    loop {
        reactor::sleep(IDLE_BUFFERS).await;
        reactor::release_idle_buffers();
    }
}
