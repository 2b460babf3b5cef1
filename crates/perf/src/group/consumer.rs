//! The consumer protocol of KIP-848: ConsumerGroupHeartbeat alone.

use std::time::Duration;

use base::Uuid;
use wire::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};
use wire::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use wire::{ApiKey, ErrorCode};

use crate::conn::{Broken, answer};
use crate::coordinator::is_passing;
use crate::group::World;
use crate::group::member::{Member, RETRY_MS, Standing};

/// The epoch of a heartbeat that joins, and of one that leaves.
const EPOCH_JOIN: i32 = 0;
const EPOCH_LEAVE: i32 = -1;

/// Joins.
pub(crate) async fn join(world: &World, me: &Member) -> Result<(), Broken> {
    loop {
        if me.id.borrow().is_empty() {
            let bits = u128::from(reactor::random_u64()) << 64 | u128::from(reactor::random_u64());
            me.id.replace(Uuid::from_u128(bits).to_string());
        }
        me.epoch.set(EPOCH_JOIN);
        me.lose();
        match say(world, me, EPOCH_JOIN, true).await? {
            ErrorCode::NONE => {
                me.standing.set(Standing::In);
                return Ok(());
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH => me.reset(),
            error if is_passing(error) => {}
            error => return Err(format!("joining group {}: {error}", world.groups[me.group])),
        }
        reactor::sleep(Duration::from_millis(RETRY_MS)).await;
        if reactor::is_stopping() {
            return Err("interrupted while joining".to_owned());
        }
    }
}

/// A heartbeat, with the partitions where they changed.
pub(crate) async fn beat(world: &World, me: &Member) -> Result<ErrorCode, Broken> {
    let full = me.unsaid.replace(false);
    let error = say(world, me, me.epoch.get(), full).await?;
    if matches!(error, ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH) {
        me.rejoin.set(true);
    }
    Ok(error)
}

/// Leaves the group.
pub(crate) async fn leave(world: &World, me: &Member) -> Result<(), Broken> {
    // Whoever was thrown out before has left as well.
    say(world, me, EPOCH_LEAVE, false).await.map(|_| ())
}

async fn say(world: &World, me: &Member, epoch: i32, with_partitions: bool) -> Result<ErrorCode, Broken> {
    let (key, version) = (ApiKey::ConsumerGroupHeartbeat, world.versions.consumer_heartbeat);
    let id = me.id.borrow().clone();
    let joins = epoch == EPOCH_JOIN;
    let timeout_ms = i32::try_from(world.plan.rebalance_timeout.as_millis()).unwrap_or(i32::MAX);
    let owned = || match me.owned.borrow().clone() {
        none if none.is_empty() => Vec::new(),
        partitions => vec![TopicPartitions { topic_id: world.topic_id, partitions }],
    };
    let request = ConsumerGroupHeartbeatRequest {
        group_id: world.groups[me.group].as_str().into(),
        member_id: id.as_str().into(),
        member_epoch: epoch,
        rebalance_timeout_ms: if joins { timeout_ms } else { -1 },
        subscribed_topic_names: joins.then(|| vec![world.topic.as_str().into()]),
        topic_partitions: with_partitions.then(owned),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let (frame, correlation) = me.shared.ask(key, version, &request).await?;
    let said: ConsumerGroupHeartbeatResponse<'_> = answer(&frame, key, version, correlation)?;
    let error = ErrorCode(said.error_code);
    if !error.is_none() || epoch == EPOCH_LEAVE {
        return Ok(error);
    }
    if let Some(given) = said.member_id.filter(|given| *given != id) {
        me.id.replace(given.into_owned());
    }
    if world.plan.heartbeat_interval.is_none() {
        me.interval_ms.set(u64::try_from(said.heartbeat_interval_ms).unwrap_or(1).max(1));
    }
    let moved = me.epoch.replace(said.member_epoch) != said.member_epoch;
    let mut changed = moved;
    if let Some(assignment) = said.assignment {
        let mine = assignment.topic_partitions.into_iter().filter(|part| part.topic_id == world.topic_id);
        let mut partitions: Vec<i32> = mine.flat_map(|part| part.partitions).collect();
        partitions.sort_unstable();
        if *me.owned.borrow() != partitions {
            me.owned.replace(partitions);
            me.unsaid.set(true);
            changed = true;
        }
    }
    if changed {
        world.changed(me);
    }
    Ok(error)
}
