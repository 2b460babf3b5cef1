//! When which batch is sent. Pure: the time is an argument.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What to do now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Step {
    /// Send this.
    Send(Pick),
    /// Nothing is due before this moment, in monotonic nanoseconds.
    Wait(u64),
    /// The next batch is for a partition that the request at hand has a batch of already.
    Later,
}

/// A batch that is due.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pick {
    /// Which of the lane's partitions.
    pub(crate) slot: usize,
    /// Number of records.
    pub(crate) count: usize,
    /// When the first record should have been sent.
    pub(crate) first_ns: u64,
    /// Time between the records.
    pub(crate) step_ns: f64,
}

impl Pick {
    /// When record number `i` of the batch should have been sent.
    pub(crate) fn intended_ns(&self, i: usize) -> u64 {
        self.first_ns + (i as f64 * self.step_ns) as u64
    }
}

/// The schedule of one connection.
pub(crate) enum Schedule {
    /// Full batches, whenever the connection can take one.
    Closed {
        /// Number of partitions.
        slots: usize,
        /// The partition whose turn it is.
        turn: usize,
    },
    /// Records at even distances, whatever becomes of those before.
    Paced(Paced),
}

/// What a paced schedule is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The moment of the first record.
    pub(crate) start_ns: u64,
    /// Time between two records.
    pub(crate) interval_ns: f64,
    /// How long a batch that is not full waits for more.
    pub(crate) linger_ns: u64,
    /// Records of a full batch.
    pub(crate) records_max: usize,
    /// Number of partitions.
    pub(crate) slots: usize,
    /// The partition that begins.
    pub(crate) turn: usize,
    /// Single records in turn, not batches.
    pub(crate) by_record: bool,
}

pub(crate) struct Paced {
    pace: Pace,
    /// Records between two of the same batch.
    stride: u64,
    /// For each batch being filled the number of its first record, and its partition when records are spread. The batch
    /// with the lowest first record is the first to be full and the first whose linger ends.
    filling: BinaryHeap<Reverse<(u64, usize)>>,
    turn: usize,
}

impl Schedule {
    /// As fast as answers come, beginning with partition `turn` of `slots`.
    pub(crate) fn closed(slots: usize, turn: usize) -> Schedule {
        Schedule::Closed { slots, turn: turn % slots }
    }

    /// At even distances.
    pub(crate) fn paced(pace: Pace) -> Schedule {
        let (stride, first) = if pace.by_record { (pace.slots, pace.slots) } else { (1, 1) };
        let filling = (0..first).map(|k| Reverse((k as u64, (k + pace.turn) % pace.slots))).collect();
        Schedule::Paced(Paced { pace, stride: stride as u64, filling, turn: pace.turn % pace.slots })
    }

    /// What is to be done at `now_ns`. `fit` says how many of the records that are due the batch takes, at least one;
    /// `taken` names the partitions that the request at hand has a batch of.
    pub(crate) fn next(&mut self, now_ns: u64, taken: &[usize], fit: impl Fn(usize) -> usize) -> Step {
        match self {
            Schedule::Closed { turn, .. } if taken.contains(turn) => Step::Later,
            Schedule::Closed { slots, turn } => {
                let slot = std::mem::replace(turn, (*turn + 1) % *slots);
                Step::Send(Pick { slot, count: fit(usize::MAX), first_ns: now_ns, step_ns: 0.0 })
            }
            Schedule::Paced(paced) => paced.next(now_ns, taken, fit),
        }
    }

    /// When the next record should be sent that was not sent yet; `None` when that is up to the answers.
    pub(crate) fn behind_since(&self) -> Option<u64> {
        match self {
            Schedule::Closed { .. } => None,
            Schedule::Paced(paced) => paced.filling.peek().map(|Reverse((first, _))| paced.moment(*first)),
        }
    }
}

impl Paced {
    fn moment(&self, record: u64) -> u64 {
        self.pace.start_ns + (record as f64 * self.pace.interval_ns) as u64
    }

    fn next(&mut self, now_ns: u64, taken: &[usize], fit: impl Fn(usize) -> usize) -> Step {
        let &Reverse((first, spread_to)) = self.filling.peek().expect("one batch is always being filled");
        let max = self.pace.records_max;
        let first_ns = self.moment(first);
        let full_ns = self.moment(first + (max as u64 - 1) * self.stride);
        let due_ns = full_ns.min(first_ns + self.pace.linger_ns);
        if now_ns < due_ns {
            return Step::Wait(due_ns);
        }
        let slot = if self.pace.by_record { spread_to } else { self.turn };
        if taken.contains(&slot) {
            return Step::Later;
        }
        let last = ((now_ns - self.pace.start_ns) as f64 / self.pace.interval_ns) as u64;
        let due = if now_ns >= full_ns { max } else { (last.saturating_sub(first) / self.stride) as usize + 1 };
        let count = fit(due.min(max));
        self.filling.pop();
        self.filling.push(Reverse((first + count as u64 * self.stride, slot)));
        self.turn = (self.turn + 1) % self.pace.slots;
        Step::Send(Pick { slot, count, first_ns, step_ns: self.pace.interval_ns * self.stride as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace { start_ns: 1_000, interval_ns: 100.0, linger_ns: 0, records_max: 4, slots: 3, turn: 0, by_record: false }
    }

    fn picks(schedule: &mut Schedule, now_ns: u64) -> Vec<(usize, usize, u64)> {
        let mut found = Vec::new();
        loop {
            match schedule.next(now_ns, &[], |due| due.min(4)) {
                Step::Send(pick) => found.push((pick.slot, pick.count, pick.first_ns)),
                Step::Wait(until) => {
                    assert!(until > now_ns, "waiting for a moment that is past");
                    return found;
                }
                Step::Later => unreachable!("nothing is taken"),
            }
        }
    }

    #[test]
    fn without_linger_every_record_goes_at_its_moment() {
        let mut schedule = Schedule::paced(pace());
        assert_eq!(picks(&mut schedule, 999), []);
        assert_eq!(picks(&mut schedule, 1_000), [(0, 1, 1_000)]);
        assert_eq!(picks(&mut schedule, 1_099), []);
        assert_eq!(picks(&mut schedule, 1_200), [(1, 2, 1_100)]);
    }

    #[test]
    fn a_delay_is_made_up_in_full_batches_with_the_intended_times() {
        let mut schedule = Schedule::paced(pace());
        assert_eq!(picks(&mut schedule, 2_050), [(0, 4, 1_000), (1, 4, 1_400), (2, 3, 1_800)]);
        let Step::Send(pick) = schedule.next(2_100, &[], |due| due) else { panic!("a record is due") };
        assert_eq!((pick.intended_ns(0), schedule.behind_since()), (2_100, Some(2_200)));
    }

    #[test]
    fn linger_ends_when_a_batch_is_full() {
        let mut schedule = Schedule::paced(Pace { linger_ns: 250, ..pace() });
        assert_eq!(schedule.next(1_000, &[], |due| due), Step::Wait(1_250));
        assert_eq!(picks(&mut schedule, 1_250), [(0, 3, 1_000)]);
        let mut schedule = Schedule::paced(Pace { linger_ns: 5_000, ..pace() });
        assert_eq!(schedule.next(1_000, &[], |due| due), Step::Wait(1_300));
        assert_eq!(picks(&mut schedule, 1_300), [(0, 4, 1_000)]);
    }

    #[test]
    fn spread_records_make_small_batches_of_every_partition() {
        let mut schedule = Schedule::paced(Pace { by_record: true, turn: 1, ..pace() });
        assert_eq!(picks(&mut schedule, 1_600), [(1, 3, 1_000), (2, 2, 1_100), (0, 2, 1_200)]);
        let Step::Send(pick) = schedule.next(1_700, &[], |due| due) else { panic!("a record is due") };
        assert_eq!((pick.slot, pick.first_ns, pick.intended_ns(2)), (2, 1_700, 2_300));
    }

    #[test]
    fn no_record_is_lost_or_sent_twice() {
        for (by_record, interval_ns, linger_ns) in
            [(false, 33.3, 0), (true, 33.3, 0), (true, 7.77, 500), (false, 0.9, 90)]
        {
            let mut schedule = Schedule::paced(Pace { by_record, interval_ns, linger_ns, ..pace() });
            let (mut now, mut sent) = (1_000, 0);
            while now < 100_000 {
                match schedule.next(now, &[], |due| due) {
                    Step::Send(pick) => sent += pick.count,
                    Step::Wait(until) => now = until,
                    Step::Later => unreachable!("nothing is taken"),
                }
            }
            let due = (99_000.0 / interval_ns) as i64;
            let waiting = (linger_ns as f64 / interval_ns) as i64 + 16;
            assert!((due - sent as i64).abs() <= waiting, "{sent} of {due} at {interval_ns}, {by_record}");
        }
    }

    #[test]
    fn the_closed_loop_goes_round_and_keeps_partitions_apart() {
        let mut schedule = Schedule::closed(2, 1);
        let slot = |step| match step {
            Step::Send(Pick { slot, count: 9, first_ns: 5, .. }) => slot,
            other => panic!("{other:?}"),
        };
        assert_eq!(slot(schedule.next(5, &[], |_| 9)), 1);
        assert_eq!(slot(schedule.next(5, &[1], |_| 9)), 0);
        assert_eq!(schedule.next(5, &[1, 0], |_| 9), Step::Later);
    }
}
