//! DescribeGroups (6: GROUP_ID_NOT_FOUND), ListGroups (4: states, 5: types) and DeleteGroups.

use coordinator::Token;
use wire::ErrorCode;
use wire::delete_groups_response::DeletableGroupResult;
use wire::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use wire::list_groups_request::ListGroupsRequest;
use wire::list_groups_response::{ListGroupsResponse, ListedGroup};

use crate::api::{Reply, owned};
use crate::classic::{ClassicGroup, State};
use crate::records;
use crate::shard::{Group, GroupShard, Out};
use crate::subscription::CONSUMER_PROTOCOL_TYPE;

/// First version in which a missing group is an error.
const NOT_FOUND_FROM: i16 = 6;

/// Longest text of the protocol, in bytes.
const TEXT_BYTES_MAX: usize = 32_767;

impl GroupShard {
    /// DescribeGroups of one group.
    pub(crate) fn describe_group(&self, group_id: &str, version: i16) -> DescribedGroup<'static> {
        let missing = match self.groups.get(group_id) {
            Some(Group::Classic(group)) => return group.describe(group_id),
            Some(Group::Consumer(_)) => format!("Group {group_id} is not a classic group."),
            None => format!("Group {group_id} not found."),
        };
        let mut described =
            DescribedGroup { group_id: owned(group_id), group_state: owned("Dead"), ..Default::default() };
        if version >= NOT_FOUND_FROM {
            described.error_code = ErrorCode::GROUP_ID_NOT_FOUND.code();
            // With the id of a group that is as long as a text may be the sentence cannot be said.
            described.error_message = (missing.len() <= TEXT_BYTES_MAX).then(|| missing.into());
        }
        described
    }

    /// ListGroups. Filters are compared without regard to case; one that names no state or type matches nothing.
    pub(crate) fn list_groups(&self, request: &ListGroupsRequest<'_>) -> ListGroupsResponse<'static> {
        let named = |filter: &[wire::Str<'_>], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        let mut groups = Vec::new();
        for (id, group) in &self.groups {
            let (state, kind, protocol_type) = match group {
                Group::Classic(group) => {
                    (group.state.name(), "classic", group.protocol_type.as_deref().unwrap_or_default())
                }
                Group::Consumer(group) => (group.state_name(), "consumer", CONSUMER_PROTOCOL_TYPE),
            };
            if named(&request.states_filter, state) && named(&request.types_filter, kind) {
                groups.push(ListedGroup {
                    group_id: owned(id),
                    protocol_type: owned(protocol_type),
                    group_state: owned(state),
                    group_type: owned(kind),
                });
            }
        }
        ListGroupsResponse { groups, ..Default::default() }
    }

    /// DeleteGroups of one group: its offsets and itself.
    pub(crate) fn delete_group(&mut self, token: Token, group_id: &str, out: &mut Out) {
        let error = match self.groups.get(group_id) {
            None => ErrorCode::GROUP_ID_NOT_FOUND,
            Some(group) if !group.is_empty() => ErrorCode::NON_EMPTY_GROUP,
            Some(group) => {
                self.offsets.tombstones_of_group(group_id, &mut out.records);
                group.tombstones(group_id, &mut out.records);
                ErrorCode::NONE
            }
        };
        let result = DeletableGroupResult { group_id: owned(group_id), error_code: error.code(), ..Default::default() };
        out.reply(token, Reply::DeleteGroup(result));
    }
}

impl Group {
    /// True when it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Group::Classic(group) => group.state == State::Empty,
            Group::Consumer(group) => group.is_empty(),
        }
    }

    /// Whether a member is subscribed to the topic.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        match self {
            Group::Classic(group) => group.is_subscribed(topic),
            Group::Consumer(group) => group.is_subscribed(topic),
        }
    }

    /// The tombstones that delete it, offsets aside.
    pub(crate) fn tombstones(&self, group_id: &str, out: &mut Vec<coordinator::CoordinatorRecord>) {
        match self {
            Group::Classic(_) => out.extend(records::group_tombstone(group_id)),
            Group::Consumer(group) => group.tombstones(group_id, out),
        }
    }
}

impl ClassicGroup {
    fn describe(&self, group_id: &str) -> DescribedGroup<'static> {
        // Only a stable group has metadata of one protocol.
        let protocol = self.protocol.as_deref().filter(|_| self.state == State::Stable);
        let members = self.members.iter().map(|(id, member)| DescribedGroupMember {
            member_id: owned(id),
            group_instance_id: member.instance_id.as_deref().map(owned),
            client_id: owned(&member.client_id),
            client_host: owned(&member.client_host),
            member_metadata: protocol.map_or(&[][..], |protocol| member.metadata(protocol)).to_vec().into(),
            member_assignment: member.assignment.to_vec().into(),
        });
        DescribedGroup {
            group_id: owned(group_id),
            group_state: owned(self.state.name()),
            protocol_type: owned(self.protocol_type.as_deref().unwrap_or_default()),
            protocol_data: owned(protocol.unwrap_or_default()),
            members: members.collect(),
            ..Default::default()
        }
    }
}
