//! Counters, gauges and histograms that cost an addition.
//!
//! Every core owns a [`Registry`] and the metrics taken from it; nothing is shared between cores, so nothing is locked
//! or atomic. When someone asks, each core makes a [`Snapshot`], which is plain data that can be sent; [`render`] adds
//! the snapshots of all cores up and prints them as Prometheus text. Lives on every core.
//!
//! It does not know of clocks (durations are handed in), sockets (the text is served by others) or what is measured.
//!
//! ```
//! use metrics::{Desc, Registry, Unit, render};
//!
//! static REQUESTS: Desc = Desc::new("odradek_requests_total", "Requests answered, by API.", Unit::Count);
//!
//! let registry = Registry::new(&[]);
//! let produce = registry.counter(&REQUESTS, &[("api", "Produce")]);
//! produce.inc();
//! assert!(render(&[registry.snapshot()]).contains("odradek_requests_total{api=\"Produce\"} 1\n"));
//! ```

mod histogram;
mod registry;
mod text;

pub use histogram::{Histogram, HistogramSnapshot};
pub use registry::{Counter, Desc, Gauge, Registry, SERIES_MAX, Snapshot, Unit};
pub use text::render;
