//! One data core: what its connections and its partitions share.

use crate::checkpoints::ByDir;
use crate::core_metrics::{CoreMetrics, Levels};
use crate::fetch_session::SessionCache;
use crate::groups::Groups;
use crate::mesh::{Mesh, Remote};
use crate::messages::{ControllerCall, CoreReply, CoreRequest};
use crate::per_ip::PerIp;
use crate::producer_ids::ProducerIds;
use crate::promises::Promises;
use crate::serve::{self, Served};
use base::{BrokerId, CoreId, Uuid};
use bytes::{Bytes, BytesMut};
use config::{BrokerConfig, LayeredConfig};
use log::LogCore;
use metadata::{ConfigResource, ConfigResourceType, MetadataDelta, MetadataImage};
use net::LogGate;
use partition::PartitionCore;
use quorum::ControllerHandle;
use reactor::sync::{Notify, oneshot};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use wire::{ApiKey, Decode, Encode, ErrorCode, Reader, Writer};

/// Which cores there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Data cores are 0 up to this.
    pub data_cores: u16,
    /// The core that the controller runs on: one of the data cores, or the one behind them.
    pub controller_core: CoreId,
}

impl Layout {
    /// Number of cores, the controller's included.
    pub fn cores(&self) -> u16 {
        self.data_cores.max(self.controller_core.0 + 1)
    }
}

/// Facts of this broker that never change while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// `node.id`.
    pub id: BrokerId,
    /// Cluster id from `meta.properties`.
    pub cluster_id: String,
    /// Id of this process, with which it registers.
    pub incarnation_id: Uuid,
}

/// Log lines of one core that hostile input could provoke.
pub struct Gates {
    /// Requests that are answered by closing the connection.
    pub refusals: LogGate,
}

/// Pause between two log lines of one kind, in milliseconds.
const GATE_INTERVAL_MS: u64 = 5_000;

/// Tells the number of connections and the bytes admitted for requests.
pub type NetLevels = Box<dyn Fn() -> (usize, usize)>;

/// One data core.
pub struct DataCore {
    /// Which one.
    pub id: CoreId,
    /// Which others there are.
    pub layout: Layout,
    /// The broker.
    pub node: Arc<Node>,
    /// The way to the other cores.
    pub mesh: Rc<Mesh>,
    /// The partitions that live here.
    pub partitions: PartitionCore,
    /// Their log directories.
    logs: Vec<LogCore>,
    /// The fetch sessions whose ids belong here.
    pub sessions: RefCell<SessionCache>,
    /// The groups that live here.
    pub groups: Groups,
    /// Log lines at a bounded rate.
    pub gates: Gates,
    /// What is counted here.
    pub metrics: CoreMetrics,
    /// How many connections there are and what they hold, told by the listeners once they exist.
    pub net_levels: RefCell<Option<NetLevels>>,
    // Each core has a copy to count references to: all cores counting one `Arc` would fight over its cache line.
    image: RefCell<Rc<MetadataImage>>,
    layered: RefCell<Rc<LayeredConfig>>,
    controller: RefCell<Option<ControllerHandle>>,
    next_watch: Cell<u64>,
    shown: Notify,
    /// Producer ids to hand out.
    pub producer_ids: ProducerIds,
    /// Watches kept here, by the core that asked and its number for it; sending ends one. At most one for each fetch
    /// request in flight.
    pub watches: RefCell<HashMap<(CoreId, u64), oneshot::Sender<()>>>,
    /// Topics whose creation was begun by this core's clients asking for them.
    pub creating: RefCell<BTreeSet<Box<str>>>,
    /// Room in which answers are encoded one behind the other, so that small ones need no memory each.
    pub answers: RefCell<BytesMut>,
    /// Appends that wait for their promise here.
    pub promises: Promises,
    /// The broker stops: nobody begins to wait for records or for members any more.
    pub stopping: Cell<bool>,
    /// Connections of the addresses that are counted on this core.
    pub per_ip: RefCell<PerIp>,
}

/// What a [`DataCore`] is made of.
pub struct DataCoreParts {
    /// Which core.
    pub id: CoreId,
    /// Which others there are.
    pub layout: Layout,
    /// The broker.
    pub node: Arc<Node>,
    /// The way to the other cores.
    pub mesh: Rc<Mesh>,
    /// Its partitions.
    pub partitions: PartitionCore,
    /// Their log directories.
    pub logs: Vec<LogCore>,
    /// Its sessions.
    pub sessions: SessionCache,
    /// The static configuration.
    pub config: Arc<BrokerConfig>,
}

impl DataCore {
    /// A core that knows no metadata yet.
    pub fn new(parts: DataCoreParts) -> DataCore {
        let layered = LayeredConfig::new(BrokerConfig::clone(&parts.config));
        let metrics = CoreMetrics::new(&parts.id.to_string(), parts.config.own.durability.name());
        DataCore {
            id: parts.id,
            layout: parts.layout,
            node: parts.node,
            mesh: parts.mesh,
            partitions: parts.partitions,
            logs: parts.logs,
            sessions: RefCell::new(parts.sessions),
            net_levels: RefCell::new(None),
            gates: Gates { refusals: LogGate::new(GATE_INTERVAL_MS) },
            image: RefCell::default(),
            groups: Groups::new(&layered, metrics.registry()),
            metrics,
            layered: RefCell::new(Rc::new(layered)),
            controller: RefCell::new(None),
            next_watch: Cell::new(0),
            shown: Notify::new(),
            producer_ids: ProducerIds::default(),
            watches: RefCell::new(HashMap::new()),
            creating: RefCell::new(BTreeSet::new()),
            answers: RefCell::default(),
            promises: Promises::default(),
            stopping: Cell::new(false),
            per_ip: RefCell::default(),
        }
    }

    /// The metadata as of now.
    pub fn image(&self) -> Rc<MetadataImage> {
        self.image.borrow().clone()
    }

    /// Puts newer metadata, and the dynamic options in it, in force for requests that begin from here on.
    pub fn show(&self, delta: &MetadataDelta) {
        let image = delta.image();
        if delta.configs().iter().any(|resource| resource.kind == ConfigResourceType::Broker) {
            let all = image.configs.overrides(&ConfigResource::default_broker());
            let own = image.configs.overrides(&ConfigResource::broker(self.node.id));
            let (layered, problems) = self.layered().with_dynamic(all, own);
            // The same on every core; one of them says it.
            for problem in problems.iter().filter(|_| self.id.0 == 0) {
                tracing::error!(%problem, "a dynamic option is not applied");
            }
            *self.layered.borrow_mut() = Rc::new(layered);
        }
        *self.image.borrow_mut() = Rc::new(MetadataImage::clone(image));
        self.shown.notify_all();
    }

    /// Returns once there is metadata at all.
    pub async fn metadata_is_there(&self) {
        while self.image().provenance.last_offset < 0 {
            self.shown.notified().await;
        }
    }

    /// The configuration as of now.
    pub fn config(&self) -> Arc<BrokerConfig> {
        self.layered.borrow().current.clone()
    }

    /// The configuration with the layers it results from.
    pub fn layered(&self) -> Rc<LayeredConfig> {
        self.layered.borrow().clone()
    }

    /// The controller, if it runs on this core.
    pub fn controller(&self) -> Option<ControllerHandle> {
        self.controller.borrow().clone()
    }

    /// Lets this core's requests, and those of others, reach the controller here.
    pub fn set_controller(&self, controller: ControllerHandle) {
        *self.controller.borrow_mut() = Some(controller);
    }

    /// This core's lines for the checkpoint files of each log directory.
    pub fn checkpoints(&self) -> ByDir {
        self.logs.iter().map(LogCore::checkpoint).collect()
    }

    /// Everything this core counts, as of now.
    pub fn metrics_snapshot(&self) -> metrics::Snapshot {
        self.groups.count();
        let (connections, request_memory_bytes) = self.net_levels.borrow().as_ref().map_or((0, 0), |levels| levels());
        self.metrics.snapshot(Levels {
            connections,
            request_memory_bytes,
            fetch_sessions: self.sessions.borrow().len(),
            partitions: self.partitions.partitions().len(),
        })
    }

    /// Whoever waits here for something that a client would have to do is answered with what there is.
    pub fn end_waits(&self) {
        self.stopping.set(true);
        self.groups.stop();
        self.partitions.end_fetch_waits();
    }

    /// Random bits.
    pub fn random(&self) -> u64 {
        reactor::random_u64()
    }

    /// A number for a watch, unique among those this core asks for.
    pub fn next_watch(&self) -> u64 {
        self.next_watch.replace(self.next_watch.get() + 1)
    }

    /// Asks a core, this one included. The order among questions to one core is fixed when this returns; the answer is
    /// what is returned.
    pub fn ask(self: &Rc<Self>, to: CoreId, request: CoreRequest) -> Waiting {
        if to != self.id {
            return Waiting::Remote(self.mesh.post(to, request));
        }
        match serve::begin(self, self.id, request) {
            Served::Done(reply) => Waiting::Done(Some(reply)),
            Served::Later(reply) => Waiting::Local(reply),
            Served::Promised(promised) => {
                let (asker, answer) = self.mesh.open();
                promised.answer(asker);
                Waiting::Remote(answer)
            }
        }
    }

    /// Asks the controller, wherever it runs.
    ///
    /// # Errors
    /// The controller does not serve the request, or has stopped.
    pub async fn ask_controller(self: &Rc<Self>, call: ControllerCall) -> Result<Bytes, ErrorCode> {
        let request = CoreRequest::Controller(Box::new(call));
        let CoreReply::Controller(answer) = self.ask(self.layout.controller_core, request).await else {
            unreachable!("a controller call is answered by the controller");
        };
        answer
    }

    /// One exchange with the controller on this broker's own behalf.
    ///
    /// # Errors
    /// As [`DataCore::ask_controller`]; UNKNOWN_SERVER_ERROR when request or answer have no bytes in this version.
    pub async fn exchange<Q: Encode, A: for<'a> Decode<'a>>(
        self: &Rc<Self>,
        api: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, ErrorCode> {
        let mut w = Writer::new();
        request.encode(&mut w, version).map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
        let call = ControllerCall { api, version, body: w.into_bytes().unwrap_or_default(), client_id: None };
        let answer = self.ask_controller(call).await?;
        A::decode(&mut Reader::new(&answer), version).map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)
    }

    /// Tells a core something; nothing is awaited.
    pub fn tell(self: &Rc<Self>, to: CoreId, request: CoreRequest) {
        if to != self.id {
            self.mesh.tell(to, request);
        } else if let Served::Later(_) | Served::Promised(_) = serve::begin(self, self.id, request) {
            unreachable!("what is told is done at once");
        }
    }
}

/// An answer on its way.
pub enum Waiting {
    /// It is here.
    Done(Option<CoreReply>),
    /// It is being worked out on this core.
    Local(Pin<Box<dyn Future<Output = CoreReply>>>),
    /// It comes from another core, or from whoever keeps appends on this one.
    Remote(Remote),
}

impl Future for Waiting {
    type Output = CoreReply;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CoreReply> {
        match self.get_mut() {
            Waiting::Done(reply) => Poll::Ready(reply.take().expect("polled again after it was ready")),
            Waiting::Local(reply) => reply.as_mut().poll(cx),
            Waiting::Remote(reply) => Pin::new(reply).poll(cx),
        }
    }
}
