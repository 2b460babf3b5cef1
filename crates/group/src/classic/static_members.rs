//! A static member that comes back without its member id: another process has taken over its instance id (KIP-345).

use tracing::info;
use wire::ErrorCode;

use crate::api::{Reply, owned};
use crate::classic::flow::{join_error, reply_join};
use crate::classic::join::Join;
use crate::classic::{ClassicGroup, State, Turn};

/// First version that can tell a leader to keep the assignment (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;

impl ClassicGroup {
    /// Gives the instance's place to the newcomer, and fences whoever waits under the old id. A stable group whose
    /// protocol stays the same goes on without a rebalance.
    pub(crate) fn join_replacing(&mut self, turn: &mut Turn<'_>, join: &Join<'_>, old_id: &str) {
        let old_leader = self.leader.clone();
        let id = join.new_id.clone();
        let instance_id = join.instance_id();
        let Some(old) = self.replace_static(old_id, id.clone()) else { return };
        info!(group = &**turn.id, member = &*id, instance_id, old_member = old_id, "a static member is replaced");
        if let Some(token) = old.awaiting_join {
            let response = join_error(old_id, ErrorCode::FENCED_INSTANCE_ID);
            reply_join(turn.out, token, old.join_version, response);
        }
        if let Some(token) = old.awaiting_sync {
            turn.out.reply(token, Reply::sync_error(ErrorCode::FENCED_INSTANCE_ID));
        }
        let protocols = self.own_protocols(&join.request.protocols);
        self.update_member(&id, protocols, join.rebalance_timeout_ms(), join.request.session_timeout_ms);
        self.extend_session(turn, &id);
        match self.state {
            State::Stable if self.select_protocol() == self.protocol => {
                self.subscribed = self.compute_subscribed();
                self.write(turn);
                let response = if join.version >= SKIP_ASSIGNMENT_FROM {
                    self.join_response(&id, self.is_leader(&id))
                } else {
                    // An older client must not take itself for the leader, which would have it assign anew.
                    let mut response = self.join_response(&id, false);
                    response.members.clear();
                    response.leader = owned(old_leader.as_deref().unwrap_or_default());
                    response
                };
                reply_join(turn.out, join.token, join.version, response);
            }
            State::CompletingRebalance | State::Stable => {
                // The leader may be assigning to the old id, and the newcomer would get nothing.
                self.park_join(turn, &id, join.token, join.version);
                self.prepare_rebalance(turn, "a static member was replaced");
            }
            State::PreparingRebalance => {
                self.park_join(turn, &id, join.token, join.version);
                self.maybe_complete_join(turn);
            }
            State::Empty => join.fail(turn, "", ErrorCode::UNKNOWN_SERVER_ERROR),
        }
    }
}
