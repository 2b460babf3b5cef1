//! A node with somebody who wants to be served while others misbehave.

use crate::client::{Client, FetchLimits, batch};
use crate::node::Node;

/// Growth of the resident set that the broker may show after abuse, KiB, unless a test says otherwise. Connections and
/// pools cost a little.
pub const GROWTH_KIB_MAX: u64 = 96 * 1024;

/// A node with one known record, and a connection that must go on working.
pub struct Watch {
    /// The node.
    pub node: Node,
    /// The connection.
    pub client: Client,
    /// Resident set before anything happened, KiB.
    pub rss_kib: u64,
}

impl Watch {
    /// Starts the node, with extra properties, and stores the record.
    pub fn start(properties: &[(&str, &str)]) -> Watch {
        let node = Node::start_with(properties);
        let mut client = Client::connect(&node);
        client.create_topic("kept", 1, &[]);
        assert_eq!(client.produce("kept", 0, batch(3, b"kept").build().expect("a batch")).base_offset, 0);
        let rss_kib = node.rss_kib();
        Watch { node, client, rss_kib }
    }

    /// The record is what it was, the connection works, and the broker has not grown by more than [`GROWTH_KIB_MAX`].
    pub fn check(&mut self, after: &str) {
        self.check_within(after, GROWTH_KIB_MAX);
    }

    /// As [`Watch::check`], with a bound in KiB. Prints what was found.
    pub fn check_within(&mut self, after: &str, growth_kib_max: u64) {
        self.check_alive(after);
        let grown = self.growth_kib();
        println!("{after}: others are served; {grown} KiB more than before, allowed are {growth_kib_max}");
        assert!(grown <= growth_kib_max, "the broker grew by {grown} KiB after {after}");
    }

    /// The record is what it was and the connection works.
    pub fn check_alive(&mut self, after: &str) {
        let fetched = self.client.fetch("kept", 0, 0, FetchLimits::default());
        assert_eq!((fetched.batches().as_slice(), fetched.high_watermark), (&[(0, 2)][..], 3), "after {after}");
    }

    /// KiB of the resident set beyond those of the beginning.
    pub fn growth_kib(&self) -> u64 {
        self.node.rss_kib().saturating_sub(self.rss_kib)
    }
}
