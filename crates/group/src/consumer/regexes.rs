//! Subscriptions by regular expression: when they are looked at again, and what follows from it.

use std::sync::Arc;

use base::Now;
use tracing::{debug, warn};

use crate::api::Env;
use crate::consumer::group::{ConsumerGroup, Resolved};
use crate::consumer::records::Records;
use crate::consumer::soft::ConsumerState;
use crate::shard::{Group, GroupShard, Out};
use crate::topic_regex::TopicRegex;

/// A group's expressions are looked at again at most this often, ms, so that a busy cluster's new topics or a storm of new
/// expressions cost little. Kafka has the same interval.
const REFRESH_INTERVAL_MS_MIN: i64 = 10_000;

impl ConsumerGroup {
    /// Whether the regular expressions are to be looked at again. `count` is how many there will be; `is_new` tells of one
    /// that nobody had before.
    pub(super) fn needs_regex_refresh(&self, now: Now, shared: &ConsumerState, count: usize, is_new: bool) -> bool {
        if self.soft.regex_due || count == 0 {
            return false;
        }
        // All are looked at together, so that any of them tells when that was.
        let Some(last) = self.all_resolved().values().next() else { return true };
        if now.wall_ms <= last.timestamp_ms.saturating_add(REFRESH_INTERVAL_MS_MIN) {
            return false;
        }
        is_new
            || count != self.all_resolved().len()
            || last.version < shared.new_topics_version
            || now.wall_ms > last.timestamp_ms.saturating_add(shared.broker().regex_refresh_ms)
    }
}

impl GroupShard {
    /// Looks which topics the group's regular expressions match, and calls for a new assignment if those are others.
    pub(super) fn refresh_regexes(&mut self, env: &mut Env<'_>, group_id: &str, out: &mut Out) {
        let GroupShard { groups, consumer, .. } = self;
        let Some(Group::Consumer(group)) = groups.get(group_id) else { return };
        let mut records = Records::new(group_id);
        let mut changed = false;
        let found: Vec<(Arc<str>, Resolved)> = group.regexes().map(|regex| (regex.clone(), look(regex, env))).collect();
        for (regex, resolved) in &found {
            changed |= group.resolved(regex).map(|old| &old.topics[..]).unwrap_or_default() != &resolved.topics[..];
            records.regex(regex, resolved);
        }
        let mut topics = group.names();
        topics.extend(found.iter().flat_map(|(_, resolved)| resolved.topics.iter().cloned()));
        let hash = consumer.hashes.group(topics.iter(), env.image);
        if changed || hash != group.metadata_hash {
            records.epoch(group.epoch + 1, hash);
            consumer.rebalances += 1;
        }
        match records.finish(env.config.record_bytes_max) {
            Ok(records) => out.records.extend(records),
            Err(_) => warn!(group = group_id, "what the regular expressions match is too long to be stored"),
        }
        debug!(group = group_id, expressions = found.len(), changed, "regular expressions looked at");
    }
}

/// The topics that a regular expression matches. One that does not compile, which only another broker can have let in,
/// matches none.
fn look(regex: &str, env: &Env<'_>) -> Resolved {
    let compiled = TopicRegex::new(regex);
    let topics = env.image.topics.iter().map(|topic| &topic.name);
    let topics = match &compiled {
        Ok(compiled) => topics.filter(|name| compiled.matches(name)).cloned().collect(),
        Err(wrong) => {
            warn!("the regular expression {regex:?} is ignored: {wrong}");
            Box::default()
        }
    };
    Resolved { topics, version: env.image.provenance.last_offset, timestamp_ms: env.now.wall_ms }
}
