//! Members that go: by their own request, for a while, or because a deadline has passed.

use std::sync::Arc;

use metadata::MetadataImage;
use wire::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;

use wire::ErrorCode;

use crate::api::Env;
use crate::consumer::decision::{owning_static_member, unknown_member};
use crate::consumer::group::ConsumerGroup;
use crate::consumer::heartbeat::HeartbeatReply;
use crate::consumer::member::{Member, STATIC_LEAVE_EPOCH};
use crate::consumer::owned::Owned;
use crate::consumer::records::Records;
use crate::consumer::refusal::Refusal;
use crate::consumer::soft::ConsumerState;
use crate::shard::{Group, GroupShard, Out};

/// Epoch in the current assignment of a static member that is away: whoever comes back may commit.
const AWAY_ASSIGNMENT_EPOCH: i32 = 0;

impl GroupShard {
    /// A heartbeat that says good-bye.
    pub(super) fn leave_heartbeat(
        &mut self,
        env: &mut Env<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        out: &mut Out,
    ) -> Result<HeartbeatReply, Refusal> {
        let group_id = &*request.group_id;
        let group = self.existing_consumer_group(group_id)?;
        let (id, member) = match request.instance_id.as_deref() {
            None => {
                group.member_entry(&request.member_id).ok_or_else(|| unknown_member(group_id, &request.member_id))?
            }
            Some(instance_id) => owning_static_member(group, &request.member_id, instance_id)?,
        };
        let id = id.clone();
        if request.instance_id.is_some() && request.member_epoch == STATIC_LEAVE_EPOCH {
            let mut records = Records::new(group_id);
            records.current(&id, &away(member));
            out.records.extend(records.finish(env.config.record_bytes_max)?);
            return Ok(HeartbeatReply::left(id, STATIC_LEAVE_EPOCH));
        }
        self.fence_members(env, group_id, std::slice::from_ref(&id), out)?;
        Ok(HeartbeatReply::left(id, request.member_epoch))
    }

    /// A consumer group that exists.
    pub(super) fn existing_consumer_group(&self, group_id: &str) -> Result<&ConsumerGroup, Refusal> {
        let message = match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => return Ok(group),
            Some(_) => format!("Group {group_id} is not a consumer group."),
            None => format!("Group {group_id} not found."),
        };
        Err(Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message))
    }

    /// Removes members. If only members that speak the classic protocol are left, the group becomes a classic one.
    pub(super) fn fence_members(
        &mut self,
        env: &mut Env<'_>,
        group_id: &str,
        ids: &[Arc<str>],
        out: &mut Out,
    ) -> Result<(), Refusal> {
        if ids.is_empty() {
            return Ok(());
        }
        if let Some(left) = self.downgraded_without(env, group_id, ids) {
            return self.downgrade_without(env, group_id, left, out);
        }
        let GroupShard { groups, consumer, .. } = self;
        let Some(Group::Consumer(group)) = groups.get(group_id) else { return Ok(()) };
        let mut records = Records::new(group_id);
        remove(group, ids, env.image, consumer, &mut records);
        out.records.extend(records.finish(env.config.record_bytes_max)?);
        Ok(())
    }
}

/// A static member that is away: it keeps what it has, owes nothing, and comes back with another epoch.
fn away(member: &Member) -> Member {
    let assigned = Owned::at_epoch(member.assigned.partitions().clone(), AWAY_ASSIGNMENT_EPOCH);
    Member { epoch: STATIC_LEAVE_EPOCH, assigned, revoking: Owned::default(), ..member.clone() }
}

/// The records that remove members and call for a new assignment.
fn remove(
    group: &ConsumerGroup,
    ids: &[Arc<str>],
    image: &MetadataImage,
    shared: &mut ConsumerState,
    records: &mut Records<'_>,
) {
    let leaving: Vec<&Member> = ids.iter().filter_map(|id| group.member(id)).collect();
    ids.iter().for_each(|id| records.member_gone(id));
    let outlook = group.outlook(&leaving, None);
    outlook.dropped_regexes.iter().for_each(|regex| records.regex_gone(regex));
    let hash = shared.hashes.group(outlook.topics.iter(), image);
    let epoch = group.epoch + 1;
    records.epoch(epoch, hash);
    if leaving.len() == group.len() {
        // Nobody is left to assign anything to, and whoever comes next shall not wait.
        records.target_epoch(epoch, 0);
    }
}
