//! The shell around a machine.

use std::collections::VecDeque;

use wire::ErrorCode;

use crate::machine::{CoordinatorRecord, Effects, Machine, Marker, Replayed, Token};

/// Bytes of decided records that may wait to be appended. A host appends at once what it is given, so that what waits is
/// what was decided during one append; 64 MiB is far above what a core decides in the slowest of them. Beyond it requests
/// are refused with COORDINATOR_NOT_AVAILABLE, which clients retry.
pub const DECIDED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a coordinator is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Its log is being read; requests are refused with COORDINATOR_LOAD_IN_PROGRESS.
    Loading,
    /// It serves.
    Active,
    /// An append failed or leadership is gone. Every waiting request has been refused, and the shell is to be dropped and
    /// made anew; requests get NOT_COORDINATOR.
    Failed,
}

/// A reply, or the error that refuses the request; the host says it in the request's own response.
pub type Answer<R> = Result<R, ErrorCode>;

/// What clients of a coordinator are told when its log refused an append with `error`: that they shall look for the
/// coordinator again, or try again, or that it is a failure of ours. The log's own errors would mean something else to
/// them.
pub fn refusal_of(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::KAFKA_STORAGE_ERROR => ErrorCode::NOT_COORDINATOR,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE | ErrorCode::INVALID_FETCH_SIZE => {
            ErrorCode::UNKNOWN_SERVER_ERROR
        }
        error => error,
    }
}

/// Records to append as one batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The records, at least one.
    pub records: Vec<CoordinatorRecord>,
    /// Bytes of their keys and values.
    pub bytes: usize,
    /// When the first of them was decided, ms since the epoch: the batch's timestamp.
    pub timestamp_ms: i64,
}

/// The records of one decision that still wait to be appended.
struct Decided {
    records: VecDeque<CoordinatorRecord>,
    bytes: usize,
    timestamp_ms: i64,
}

/// A batch that was handed out: up to which record, by number, and where it ends in the log once that is known.
struct Appended {
    records_end: u64,
    last_offset: Option<i64>,
}

/// Replies that wait for all records up to a number.
struct Held<R> {
    records_end: u64,
    token: Token,
    reply: R,
}

/// A machine with its state, the records it decided and the replies that wait for them. The host calls it from one core:
///
/// 1. `load` for every record of the log, then `loaded`;
/// 2. `submit`, `expire` and `metadata_changed`, each followed by 3.;
/// 3. `take_batch` until there is none: append it, then `appended` or `append_failed`, in the order taken;
/// 4. `committed` whenever the high watermark moves;
/// 5. `answers` after any of these.
pub struct Shell<M: Machine> {
    machine: M,
    state: State,
    /// Requests submitted and not yet answered; refused together when the machine fails.
    waiting: std::collections::BTreeSet<Token>,
    decided: VecDeque<Decided>,
    decided_bytes: usize,
    /// Records decided so far; the number of the next one.
    records_end: u64,
    /// Records handed out so far.
    taken_end: u64,
    /// Records committed so far.
    committed_end: u64,
    in_log: VecDeque<Appended>,
    held: VecDeque<Held<M::Reply>>,
    answers: VecDeque<(Token, Answer<M::Reply>)>,
    effects: Effects<M::Reply>,
    /// Offset expected for the next record decided.
    next_offset: i64,
}

impl<M: Machine> Shell<M> {
    /// A machine that has seen nothing of its log.
    pub fn new(machine: M) -> Shell<M> {
        Shell {
            machine,
            state: State::Loading,
            waiting: Default::default(),
            decided: VecDeque::new(),
            decided_bytes: 0,
            records_end: 0,
            taken_end: 0,
            committed_end: 0,
            in_log: VecDeque::new(),
            held: VecDeque::new(),
            answers: VecDeque::new(),
            effects: Effects::default(),
            next_offset: 0,
        }
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// The machine, to look at.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Number of requests that wait for their answer.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of decided records that wait to be taken.
    pub fn decided_bytes(&self) -> usize {
        self.decided_bytes
    }

    /// A record of the log, while loading.
    pub fn load(&mut self, record: &Replayed<'_>) {
        assert_eq!(self.state, State::Loading, "records are loaded before the machine decides");
        self.next_offset = record.offset + 1;
        self.machine.replay(record);
    }

    /// The end of a transaction in the log, while loading.
    pub fn load_marker(&mut self, offset: i64, marker: &Marker) {
        assert_eq!(self.state, State::Loading, "markers are loaded before the machine decides");
        self.next_offset = offset + 1;
        self.machine.replay_marker(marker);
    }

    /// The whole log up to `log_end` is loaded. From here on the machine decides.
    pub fn loaded(&mut self, env: M::Env<'_>, wall_ms: i64, log_end: i64) {
        assert_eq!(self.state, State::Loading, "a machine is loaded once");
        self.state = State::Active;
        self.next_offset = self.next_offset.max(log_end);
        self.machine.loaded(env, &mut self.effects);
        self.settle(wall_ms);
    }

    /// A request. `wall_ms` is the time in `env`, which the shell cannot see into.
    pub fn submit(&mut self, env: M::Env<'_>, wall_ms: i64, token: Token, request: M::Request<'_>) {
        let refusal = match self.state {
            State::Loading => Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            State::Failed => Some(ErrorCode::NOT_COORDINATOR),
            State::Active if self.decided_bytes > DECIDED_BYTES_MAX => Some(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            State::Active => None,
        };
        if let Some(error) = refusal {
            self.answers.push_back((token, Err(error)));
            return;
        }
        self.machine.handle(env, token, request, &mut self.effects);
        // Most requests are answered at once, and never have to be remembered.
        if self.effects.records.is_empty() && self.records_end == self.committed_end {
            let answered = self.effects.replies.iter().position(|(answered, _)| *answered == token);
            if let Some(index) = answered {
                let (_, reply) = self.effects.replies.remove(index);
                self.answers.push_back((token, Ok(reply)));
                return self.settle(wall_ms);
            }
        }
        assert!(self.waiting.insert(token), "token {token} is in use");
        self.settle(wall_ms);
    }

    /// Lets the machine do what is due. It may stop where it has decided something, so call it again while
    /// `next_timer_ns` has passed.
    pub fn expire(&mut self, env: M::Env<'_>, wall_ms: i64) {
        if self.state == State::Active {
            self.machine.expire(env, &mut self.effects);
            self.settle(wall_ms);
        }
    }

    /// When `expire` is to be called next, in monotonic ns.
    pub fn next_timer_ns(&self) -> Option<u64> {
        if self.state == State::Active { self.machine.next_timer_ns() } else { None }
    }

    /// Tells the machine of new metadata.
    pub fn metadata_changed(&mut self, env: M::Env<'_>, wall_ms: i64, change: M::Change<'_>) {
        if self.state == State::Active {
            self.machine.metadata_changed(env, change, &mut self.effects);
            self.settle(wall_ms);
        }
    }

    /// Whoever waits under `token` is gone: the answer is dropped when it comes.
    pub fn forget(&mut self, token: Token) {
        self.waiting.remove(&token);
    }

    /// Replays what the last call decided and holds its replies.
    fn settle(&mut self, wall_ms: i64) {
        let records = std::mem::take(&mut self.effects.records);
        if !records.is_empty() {
            let bytes = records.iter().map(CoordinatorRecord::size).sum();
            self.machine.replay_decided(self.next_offset, wall_ms, &records);
            self.next_offset += (records.len() as u64).cast_signed();
            self.records_end += records.len() as u64;
            self.decided_bytes += bytes;
            self.decided.push_back(Decided { records: records.into(), bytes, timestamp_ms: wall_ms });
        }
        let records_end = self.records_end;
        for (token, reply) in self.effects.replies.drain(..) {
            if records_end == self.committed_end {
                if self.waiting.remove(&token) {
                    self.answers.push_back((token, Ok(reply)));
                }
            } else {
                self.held.push_back(Held { records_end, token, reply });
            }
        }
    }

    /// Takes the next batch to append: whole decisions, as many as fit `bytes_max` bytes of keys and values. One decision
    /// that exceeds it by itself is cut between records, and a single larger record comes alone; the log judges it.
    pub fn take_batch(&mut self, bytes_max: usize) -> Option<Batch> {
        let timestamp_ms = self.decided.front()?.timestamp_ms;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(decision) = self.decided.front_mut() {
            if bytes + decision.bytes <= bytes_max {
                bytes += decision.bytes;
                self.decided_bytes -= decision.bytes;
                records.extend(decision.records.drain(..));
                self.decided.pop_front();
                continue;
            }
            if !records.is_empty() {
                break;
            }
            while let Some(size) = decision.records.front().map(CoordinatorRecord::size) {
                if !records.is_empty() && bytes + size > bytes_max {
                    break;
                }
                bytes += size;
                records.extend(decision.records.pop_front());
            }
            decision.bytes -= bytes;
            self.decided_bytes -= bytes;
            if decision.records.is_empty() {
                self.decided.pop_front();
            }
            break;
        }
        self.taken_end += records.len() as u64;
        self.in_log.push_back(Appended { records_end: self.taken_end, last_offset: None });
        Some(Batch { records, bytes, timestamp_ms })
    }

    /// The oldest batch taken and not reported yet is in the log and ends at `last_offset`.
    pub fn appended(&mut self, last_offset: i64) {
        if self.state == State::Failed {
            return;
        }
        let batch = self.in_log.iter_mut().find(|batch| batch.last_offset.is_none());
        let batch = batch.expect("only a batch that was taken is appended");
        batch.last_offset = Some(last_offset);
        let behind = self.records_end - batch.records_end;
        self.next_offset = self.next_offset.max(last_offset + 1 + behind.cast_signed());
    }

    /// A batch taken could not be appended. The machine knows of records that the log will never have, so it is finished:
    /// every waiting request is refused with what [`refusal_of`] makes of the log's error, and the shell is to be dropped
    /// and loaded anew.
    pub fn append_failed(&mut self, error: ErrorCode) {
        self.fail(refusal_of(error));
    }

    /// Ends the coordinator: leadership is gone, or its log cannot be read. Every waiting request is refused with `error`.
    pub fn fail(&mut self, error: ErrorCode) {
        self.state = State::Failed;
        self.decided.clear();
        self.decided_bytes = 0;
        self.in_log.clear();
        self.held.clear();
        let waiting = std::mem::take(&mut self.waiting);
        self.answers.extend(waiting.into_iter().map(|token| (token, Err(error))));
    }

    /// Everything below `high_watermark` is committed: releases the replies that waited for it.
    pub fn committed(&mut self, high_watermark: i64) {
        while let Some(batch) = self.in_log.front() {
            if batch.last_offset.is_none_or(|last| last >= high_watermark) {
                break;
            }
            self.committed_end = batch.records_end;
            self.in_log.pop_front();
        }
        while self.held.front().is_some_and(|held| held.records_end <= self.committed_end) {
            if let Some(Held { token, reply, .. }) = self.held.pop_front()
                && self.waiting.remove(&token)
            {
                self.answers.push_back((token, Ok(reply)));
            }
        }
    }

    /// Takes the answers that may be given now, in the order in which they became valid.
    pub fn answers(&mut self) -> impl Iterator<Item = (Token, Answer<M::Reply>)> + '_ {
        self.answers.drain(..)
    }
}
