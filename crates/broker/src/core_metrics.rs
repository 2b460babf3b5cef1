//! What one core counts about the requests it serves.

use crate::api_table::ROWS;
use base::Now;
use metrics::{Counter, Desc, Gauge, Histogram, Registry, Snapshot, Unit};
use wire::ApiKey;

static REQUESTS: Desc = Desc::new("odradek_requests_total", "Requests answered, by API.", Unit::Count);
static REQUEST_TIME: Desc = Desc::new(
    "odradek_request_seconds",
    "Time from the last byte of a request to its response, by API.",
    Unit::Nanoseconds,
);
static REQUEST_BYTES: Desc = Desc::new("odradek_request_bytes_total", "Bytes of requests, by API.", Unit::Bytes);
static RESPONSE_BYTES: Desc = Desc::new("odradek_response_bytes_total", "Bytes of responses, by API.", Unit::Bytes);
static REFUSED: Desc =
    Desc::new("odradek_requests_refused_total", "Requests answered by closing the connection.", Unit::Count);
static CONNECTIONS: Desc = Desc::new("odradek_connections", "Open connections.", Unit::Count);
static REQUEST_MEMORY: Desc =
    Desc::new("odradek_request_memory_bytes", "Memory admitted for requests in flight.", Unit::Bytes);
static FETCH_SESSIONS: Desc = Desc::new("odradek_fetch_sessions", "Incremental fetch sessions.", Unit::Count);
static PARTITIONS: Desc = Desc::new("odradek_partitions", "Partitions hosted.", Unit::Count);
static POLLS: Desc = Desc::new("odradek_task_polls_total", "Polls of tasks.", Unit::Count);
static OPERATIONS: Desc = Desc::new("odradek_operations_total", "Operations on files and sockets.", Unit::Count);
static ENTERS: Desc = Desc::new("odradek_ring_enters_total", "System calls into the ring.", Unit::Count);
static PARKS: Desc = Desc::new("odradek_parks_total", "Times the core waited in the kernel.", Unit::Count);
static RING_MESSAGES: Desc = Desc::new("odradek_ring_messages_total", "Wake-ups sent to other cores.", Unit::Count);

/// The metrics of one API.
struct OfApi {
    requests: Counter,
    request_bytes: Counter,
    response_bytes: Counter,
    time: Histogram,
}

/// The metrics of one core.
pub struct CoreMetrics {
    registry: Registry,
    /// In the order of [`ROWS`].
    by_row: Vec<OfApi>,
    /// Requests answered by closing the connection.
    pub refused: Counter,
    connections: Gauge,
    request_memory: Gauge,
    fetch_sessions: Gauge,
    partitions: Gauge,
    reactor: [Counter; 5],
}

/// What is only known when somebody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// Open connections.
    pub connections: usize,
    /// Memory admitted for requests, in bytes.
    pub request_memory_bytes: usize,
    /// Fetch sessions.
    pub fetch_sessions: usize,
    /// Partitions hosted.
    pub partitions: usize,
}

impl CoreMetrics {
    /// Nothing counted yet, on core `core`, with the durability rung as a label of everything.
    pub fn new(core: &str, durability: &str) -> CoreMetrics {
        let registry = Registry::new(&[("core", core), ("durability", durability)]);
        let of_api = |api: ApiKey| {
            let labels = [("api", api.info().name)];
            OfApi {
                requests: registry.counter(&REQUESTS, &labels),
                request_bytes: registry.counter(&REQUEST_BYTES, &labels),
                response_bytes: registry.counter(&RESPONSE_BYTES, &labels),
                time: registry.histogram(&REQUEST_TIME, &labels),
            }
        };
        CoreMetrics {
            by_row: ROWS.iter().map(|row| of_api(row.api)).collect(),
            refused: registry.counter(&REFUSED, &[]),
            connections: registry.gauge(&CONNECTIONS, &[]),
            request_memory: registry.gauge(&REQUEST_MEMORY, &[]),
            fetch_sessions: registry.gauge(&FETCH_SESSIONS, &[]),
            partitions: registry.gauge(&PARTITIONS, &[]),
            reactor: [&POLLS, &OPERATIONS, &ENTERS, &PARKS, &RING_MESSAGES].map(|desc| registry.counter(desc, &[])),
            registry,
        }
    }

    /// Where others of this core register what they measure.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Takes note of a request of row `row` that was answered now.
    pub fn answered(&self, row: usize, received: Now, request_bytes: usize, response_bytes: usize) {
        let of_api = &self.by_row[row];
        of_api.requests.inc();
        of_api.request_bytes.add(request_bytes as u64);
        of_api.response_bytes.add(response_bytes as u64);
        of_api.time.record(reactor::now().mono_ns.saturating_sub(received.mono_ns));
    }

    /// Everything as of now.
    pub fn snapshot(&self, levels: Levels) -> Snapshot {
        let as_level = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.connections.set(as_level(levels.connections));
        self.request_memory.set(as_level(levels.request_memory_bytes));
        self.fetch_sessions.set(as_level(levels.fetch_sessions));
        self.partitions.set(as_level(levels.partitions));
        let counters = reactor::counters();
        let now = [counters.tasks_polled, counters.ops, counters.ring_enters, counters.parks, counters.ring_messages];
        for (counter, value) in self.reactor.iter().zip(now) {
            counter.add(value.saturating_sub(counter.get()));
        }
        self.registry.snapshot()
    }
}
