use base::Prng;
use bytes::Bytes;
use wire::ErrorCode;

use super::*;

/// A register that only grows: a request adds to it, the reply is the sum with everything decided before.
#[derive(Default)]
struct Adder {
    sum: u64,
    offsets: Vec<i64>,
    parked: Vec<Token>,
}

fn record(value: u64) -> CoordinatorRecord {
    CoordinatorRecord::new(Bytes::from([&b"k"[..], &value.to_be_bytes()].concat()), 1)
}

impl Machine for Adder {
    /// Numbers to add; an empty one parks.
    type Request<'a> = &'a [u64];
    type Reply = u64;
    type Env<'e> = ();
    type Change<'e> = u64;

    fn handle(&mut self, (): (), token: Token, request: &[u64], out: &mut Effects<u64>) {
        if request == [u64::MAX] {
            self.parked.push(token);
            return;
        }
        out.records.extend(request.iter().map(|value| record(*value)));
        out.reply(token, self.sum + request.iter().sum::<u64>());
    }
    fn replay(&mut self, record: &Replayed<'_>) {
        self.sum += u64::from_be_bytes(record.value.expect("a value").try_into().expect("8 bytes"));
        assert!(self.offsets.last().is_none_or(|last| *last < record.offset));
        self.offsets.push(record.offset);
    }
    fn replay_marker(&mut self, marker: &Marker) {
        self.sum += u64::from(marker.commit);
    }
    fn loaded(&mut self, (): (), _: &mut Effects<u64>) {}
    fn expire(&mut self, (): (), out: &mut Effects<u64>) {
        for token in self.parked.drain(..) {
            out.reply(token, self.sum);
        }
    }
    fn next_timer_ns(&self) -> Option<u64> {
        (!self.parked.is_empty()).then_some(7)
    }
    fn metadata_changed(&mut self, (): (), change: u64, out: &mut Effects<u64>) {
        out.records.push(record(change));
    }
}

fn active() -> Shell<Adder> {
    let mut shell = Shell::new(Adder::default());
    shell.loaded((), 0, 0);
    shell
}

fn answers(shell: &mut Shell<Adder>) -> Vec<(Token, Answer<u64>)> {
    shell.answers().collect()
}

#[test]
fn requests_are_refused_while_loading_and_after_a_failure() {
    let mut shell = Shell::new(Adder::default());
    shell.submit((), 0, 1, &[1]);
    assert_eq!(answers(&mut shell), [(1, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS))]);
    let value = 5u64.to_be_bytes();
    shell.load(&Replayed { offset: 3, timestamp_ms: 0, producer: None, key: b"k", value: Some(&value) });
    shell.load_marker(4, &Marker { producer_id: 1, producer_epoch: 0, commit: true });
    shell.loaded((), 0, 5);
    shell.submit((), 0, 2, &[]);
    assert_eq!(answers(&mut shell), [(2, Ok(6))], "nothing to commit: answered at once");
    shell.submit((), 0, 3, &[1]);
    assert_eq!(shell.machine().offsets, [3, 5]);
    shell.fail(ErrorCode::NOT_COORDINATOR);
    shell.submit((), 0, 4, &[1]);
    let expected = [(3, Err(ErrorCode::NOT_COORDINATOR)), (4, Err(ErrorCode::NOT_COORDINATOR))];
    assert_eq!(answers(&mut shell), expected);
    assert_eq!((shell.state(), shell.waiting(), shell.next_timer_ns()), (State::Failed, 0, None));
}

#[test]
fn a_failed_append_refuses_everybody_in_the_words_of_coordinators() {
    let cases = [
        (ErrorCode::NOT_ENOUGH_REPLICAS, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (ErrorCode::KAFKA_STORAGE_ERROR, ErrorCode::NOT_COORDINATOR),
        (ErrorCode::MESSAGE_TOO_LARGE, ErrorCode::UNKNOWN_SERVER_ERROR),
        (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
    ];
    for (error, told) in cases {
        let mut shell = active();
        shell.submit((), 0, 1, &[1]);
        shell.submit((), 0, 2, &[]);
        shell.submit((), 0, 3, &[u64::MAX]);
        shell.forget(2);
        assert!(shell.take_batch(100).is_some());
        shell.append_failed(error);
        shell.appended(0);
        shell.committed(1);
        assert_eq!(answers(&mut shell), [(1, Err(told)), (3, Err(told))]);
    }
}

#[test]
fn replies_wait_for_everything_decided_before_them() {
    let mut shell = active();
    shell.submit((), 0, 1, &[1]);
    shell.submit((), 0, 2, &[2, 3]);
    shell.submit((), 0, 3, &[]);
    assert_eq!(shell.take_batch(1000).map(|batch| batch.records.len()), Some(3));
    shell.submit((), 0, 4, &[4]);
    shell.appended(2);
    assert_eq!(answers(&mut shell), []);
    shell.committed(2);
    assert_eq!(answers(&mut shell), [], "a batch is committed as a whole");
    shell.committed(3);
    assert_eq!(answers(&mut shell), [(1, Ok(1)), (2, Ok(6)), (3, Ok(6))]);
    assert_eq!(shell.take_batch(1000).map(|batch| batch.records.len()), Some(1));
    assert_eq!(shell.take_batch(1000), None);
    shell.appended(3);
    shell.committed(4);
    assert_eq!(answers(&mut shell), [(4, Ok(10))]);
}

#[test]
fn parked_requests_are_answered_by_the_clock_and_forgotten_ones_never() {
    let mut shell = active();
    shell.submit((), 0, 1, &[u64::MAX]);
    shell.submit((), 0, 2, &[u64::MAX]);
    assert_eq!((shell.next_timer_ns(), shell.waiting()), (Some(7), 2));
    shell.forget(1);
    shell.metadata_changed((), 0, 9);
    shell.expire((), 0);
    assert_eq!(answers(&mut shell), []);
    assert!(shell.take_batch(1).is_some());
    shell.appended(0);
    shell.committed(1);
    assert_eq!(answers(&mut shell), [(2, Ok(9))]);
}

#[test]
fn batches_keep_decisions_whole_unless_they_are_too_large() {
    let mut shell = active();
    for (token, request) in [&[1u64, 1][..], &[1], &[1, 1, 1, 1, 1], &[1]].iter().enumerate() {
        shell.submit((), 0, token as u64, request);
    }
    // A record takes 9 bytes, so a batch of 30 has room for three.
    let sizes: Vec<usize> =
        std::iter::from_fn(|| shell.take_batch(30)).map(|batch: Batch| batch.records.len()).collect();
    assert_eq!(sizes, [3, 3, 3]);
    assert_eq!(shell.decided_bytes(), 0);
    shell.submit((), 0, 9, &[1]);
    assert_eq!(shell.take_batch(1).map(|batch| batch.records.len()), Some(1), "a large record comes alone");
}

#[test]
fn any_order_of_events_keeps_replies_behind_their_records() {
    for seed in 0..200 {
        let mut prng = Prng::new(seed);
        let mut shell = active();
        let (mut token, mut log_end, mut taken, mut sum, mut committed) = (0, 0i64, Vec::new(), 0u64, 0u64);
        let mut in_log: Vec<u64> = Vec::new();
        for _ in 0..200 {
            match prng.below(5) {
                0 | 1 => {
                    let request: Vec<u64> = (0..prng.below(4)).map(|_| prng.below(100)).collect();
                    shell.submit((), 0, token, &request);
                    token += 1;
                }
                2 => taken.extend(shell.take_batch(20)),
                3 if !taken.is_empty() => {
                    for record in taken.remove(0).records {
                        sum += u64::from_be_bytes(record.value().expect("a value").try_into().expect("8 bytes"));
                        in_log.push(sum);
                        log_end += 1;
                    }
                    // Markers of other writers take offsets of their own.
                    shell.appended(log_end - 1);
                }
                4 if log_end > 0 => {
                    let mark = prng.below(log_end as u64 + 1) as i64;
                    shell.committed(mark);
                    committed = committed.max(mark as u64);
                }
                _ => {}
            }
            for (_, answer) in shell.answers() {
                let told = answer.expect("nothing fails");
                let known = committed.checked_sub(1).map_or(0, |last| in_log[last as usize]);
                assert!(told <= known, "seed {seed}: {told} was told, {known} is committed");
            }
        }
    }
}
