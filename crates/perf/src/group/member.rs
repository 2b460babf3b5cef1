//! One member: joins, heartbeats, joins again when it is told to, restarts and leaves.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use reactor::sync::Notify;
use reactor::{Either, is_stopping, now};
use wire::ErrorCode;

use crate::args::Protocol;
use crate::conn::Broken;
use crate::drive::Done;
use crate::group::{World, classic, consumer};
use crate::link::Link;

/// Time between two heartbeats of a classic member: the default of Kafka's consumer.
pub(crate) const CLASSIC_INTERVAL_MS: u64 = 3000;
/// Pause before something that failed for a passing reason is asked again.
pub(crate) const RETRY_MS: u64 = 20;
/// Pause while another task's heartbeat of the same member is on its way.
const BUSY_MS: u64 = 1;

/// Where a member stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Not in the group, or on its way.
    Out,
    /// In the group with an assignment.
    In,
}

/// What a member is told to do by the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Leave, and join as a new member.
    Restart,
    /// Leave for good.
    Leave,
}

/// A member of a group.
pub(crate) struct Member {
    /// Number of its group.
    pub(crate) group: usize,
    /// For requests that wait for other members; classic members have one each.
    pub(crate) own: Option<Rc<Link>>,
    /// For requests that do not wait.
    pub(crate) shared: Rc<Link>,
    pub(crate) id: RefCell<String>,
    /// Generation, or member epoch.
    pub(crate) epoch: Cell<i32>,
    pub(crate) owned: RefCell<Vec<i32>>,
    pub(crate) standing: Cell<Standing>,
    /// An assignment that the broker was not told to be taken up.
    pub(crate) unsaid: Cell<bool>,
    /// The group rebalances, or the member is unknown.
    pub(crate) rejoin: Cell<bool>,
    /// A heartbeat is on its way.
    pub(crate) busy: Cell<bool>,
    pub(crate) interval_ms: Cell<u64>,
    pub(crate) order: Cell<Option<Order>>,
    pub(crate) wake: Notify,
}

impl Member {
    pub(crate) fn new(group: usize, own: Option<Rc<Link>>, shared: Rc<Link>, interval_ms: u64) -> Member {
        Member {
            group,
            own,
            shared,
            id: RefCell::default(),
            epoch: Cell::new(0),
            owned: RefCell::default(),
            standing: Cell::new(Standing::Out),
            unsaid: Cell::new(false),
            rejoin: Cell::new(false),
            busy: Cell::new(false),
            interval_ms: Cell::new(interval_ms),
            order: Cell::new(None),
            wake: Notify::new(),
        }
    }

    /// Forgets who it was.
    pub(crate) fn reset(&self) {
        self.id.borrow_mut().clear();
        self.epoch.set(0);
        self.lose();
    }

    /// Has nothing any more.
    pub(crate) fn lose(&self) {
        self.owned.borrow_mut().clear();
        self.unsaid.set(false);
        self.standing.set(Standing::Out);
    }
}

/// The life of a member; ends when it was told to leave.
pub(crate) async fn live(world: Rc<World>, me: Rc<Member>) {
    if let Err(why) = try_live(&world, &me).await {
        let mut meters = world.meters.borrow_mut();
        meters.broken += 1;
        meters.trouble(why);
        me.lose();
    }
    world.changed(&me);
}

async fn try_live(world: &World, me: &Rc<Member>) -> Result<(), Broken> {
    loop {
        me.rejoin.set(false);
        match world.plan.protocol {
            Protocol::Classic => classic::join(world, me).await?,
            Protocol::Consumer => consumer::join(world, me).await?,
        }
        world.joins.set(world.joins.get() + 1);
        world.changed(me);
        match attend(world, me).await? {
            None => {}
            Some(order) => {
                match world.plan.protocol {
                    Protocol::Classic => classic::leave(world, me).await?,
                    Protocol::Consumer => consumer::leave(world, me).await?,
                }
                me.reset();
                world.changed(me);
                if order == Order::Leave {
                    return Ok(());
                }
            }
        }
    }
}

/// Heartbeats until the member has to join again, or is told to go.
async fn attend(world: &World, me: &Rc<Member>) -> Result<Option<Order>, Broken> {
    loop {
        if me.busy.get() {
            reactor::sleep(Duration::from_millis(BUSY_MS)).await;
            continue;
        }
        if let Some(order) = me.order.take() {
            return Ok(Some(order));
        }
        if me.rejoin.get() {
            me.lose();
            world.changed(me);
            return Ok(None);
        }
        if is_stopping() {
            return Ok(Some(Order::Leave));
        }
        if me.unsaid.get() {
            beat(world, me).await?;
            continue;
        }
        let pause = reactor::sleep(Duration::from_millis(me.interval_ms.get()));
        // During the measurement heartbeats come from there.
        if let Either::Left(()) = reactor::race(pause, me.wake.notified()).await
            && !world.measuring.get()
            && !me.busy.get()
        {
            beat(world, me).await?;
        }
    }
}

/// One heartbeat of a member that is in its group and has none on its way.
pub(crate) async fn beat(world: &World, me: &Rc<Member>) -> Result<Done, Broken> {
    me.busy.set(true);
    let done = match world.plan.protocol {
        Protocol::Classic => classic::beat(world, me).await,
        Protocol::Consumer => consumer::beat(world, me).await,
    };
    me.busy.set(false);
    if me.unsaid.get() || me.rejoin.get() {
        me.wake.notify_one();
    }
    let error = done?;
    // That a group rebalances is an answer, and so is what a member learns that was thrown out.
    Ok(if error.is_none() || error == ErrorCode::REBALANCE_IN_PROGRESS { Done::of(0, 1) } else { Done::of(error.0, 1) })
}

impl World {
    /// Something about a member changed.
    pub(crate) fn changed(&self, member: &Member) {
        self.dirty.borrow_mut().insert(member.group);
        self.changed_ns.set(now().mono_ns);
    }
}
