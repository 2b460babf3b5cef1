use super::*;
use base::Prng;

const LIMITS: Limits = Limits { waiters_max: 1000, watches_max: 3000 };

fn at_ms(ms: u64) -> Now {
    Now::default().plus_ms(ms)
}

fn ms(ms: u64) -> u64 {
    ms * 1_000_000
}

fn woken(p: &Purgatory<u32, &'static str>, key: u32) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    p.wake(&key, &mut tokens);
    tokens.iter().map(|&t| *p.get(t).unwrap()).collect()
}

fn expired<T: Copy>(p: &mut Purgatory<u32, T>, now_ms: u64) -> Vec<T> {
    let mut out = Vec::new();
    p.expire(at_ms(now_ms), &mut out);
    out.iter().map(|(_, data)| *data).collect()
}

#[test]
fn waking_names_waiters_and_cancelling_ends_them() {
    let mut p = Purgatory::new(LIMITS);
    let a = p.register([1, 2], ms(50), "a").unwrap();
    let b = p.register([2, 2, 3], ms(60), "b").unwrap();
    assert_eq!((p.len(), p.watches()), (2, 4));
    assert_eq!(woken(&p, 1), ["a"]);
    assert_eq!(woken(&p, 2), ["a", "b"]);
    assert_eq!(woken(&p, 4), [""; 0]);
    assert_eq!(p.cancel(a), Some("a"));
    assert_eq!(p.cancel(a), None);
    assert_eq!((woken(&p, 1), woken(&p, 2)), (vec![], vec!["b"]));
    // The freed place is used again, under another name.
    let c = p.register([1], ms(70), "c").unwrap();
    assert_ne!(a, c);
    assert_eq!((p.get(a), p.get(c)), (None, Some(&"c")));
    *p.get_mut(b).unwrap() = "bb";
    assert_eq!(expired(&mut p, 100), ["bb", "c"]);
    assert!(p.is_empty() && p.watches() == 0 && p.by_key.is_empty());
}

#[test]
fn deadlines_are_never_early_and_come_in_order() {
    let mut p: Purgatory<u32, u64> = Purgatory::new(LIMITS);
    for deadline in [5, 64, 63, 4096, 4095, 100_000, 262_144, 1] {
        p.register([], ms(deadline), deadline).unwrap();
    }
    p.register([], ms(5) + 1, 6).unwrap();
    assert_eq!(expired(&mut p, 0), []);
    assert_eq!(p.next_deadline_ns(), Some(ms(1)));
    assert_eq!(expired(&mut p, 5), [1, 5]);
    assert_eq!(expired(&mut p, 6), [6]);
    assert_eq!(expired(&mut p, 64), [63, 64]);
    assert_eq!(expired(&mut p, 4094), []);
    assert_eq!(expired(&mut p, 1 << 40), [4095, 4096, 100_000, 262_144]);
    assert_eq!(p.next_deadline_ns(), None);
    // A deadline in the past is due at once, one that never comes does not come.
    p.register([], ms(3), 3).unwrap();
    p.register([], u64::MAX, 9).unwrap();
    assert!(p.next_deadline_ns().unwrap() <= ms(1 << 40));
    assert_eq!(expired(&mut p, 1 << 40), [3]);
    assert_eq!(p.len(), 1);
}

#[test]
fn limits_hold_and_refusals_leave_nothing() {
    let mut p = Purgatory::new(Limits { waiters_max: 2, watches_max: 3 });
    let a = p.register([1, 2], ms(5), "a").unwrap();
    assert_eq!(p.register([3, 4], ms(5), "too many watches"), Err(Refused("too many watches")));
    assert_eq!((p.len(), p.watches(), p.by_key.len()), (1, 2, 2));
    p.register([3], ms(5), "b").unwrap();
    assert_eq!(p.register([], ms(5), "too many waiters"), Err(Refused("too many waiters")));
    p.cancel(a);
    assert!(p.register([1, 2], ms(5), "c").is_ok());
}

#[test]
fn a_hundred_thousand_waiters() {
    let n = 100_000u32;
    let mut p: Purgatory<u32, u32> = Purgatory::new(Limits { waiters_max: n, watches_max: 3 * n });
    let mut prng = Prng::new(5);
    let tokens: Vec<Token> =
        (0..n).map(|i| p.register([i % 1000, 1000 + i % 7, 2000 + i], ms(prng.below(600_000)), i).unwrap()).collect();
    assert!(p.register([], 0, 0).is_err());
    let mut woken = Vec::new();
    p.wake(&1003, &mut woken);
    assert_eq!(woken.len(), n.div_ceil(7) as usize);
    for (i, token) in tokens.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
        assert_eq!(p.cancel(*token), Some(i as u32));
    }
    let mut out = Vec::new();
    let mut calls = 0;
    while let Some(next) = p.next_deadline_ns() {
        p.expire(Now { mono_ns: next, wall_ms: 0 }, &mut out);
        calls += 1;
    }
    assert_eq!(out.len(), n as usize / 2);
    assert!(p.is_empty() && p.by_key.is_empty());
    // One call per tick that has something, and a few per slot of higher levels.
    assert!(calls <= 60_000, "{calls}");
}

/// What the purgatory must be indistinguishable from.
#[derive(Default)]
struct Model {
    waiters: Vec<(Token, Vec<u32>, u64)>,
}

impl Model {
    fn woken(&self, key: u32) -> Vec<Token> {
        self.waiters.iter().filter(|w| w.1.contains(&key)).map(|w| w.0).collect()
    }

    fn expire(&mut self, now_ms: u64) -> Vec<(u64, Token)> {
        let mut due: Vec<_> = self.waiters.iter().filter(|w| w.2 <= now_ms).map(|w| (w.2, w.0)).collect();
        self.waiters.retain(|w| w.2 > now_ms);
        due.sort();
        due
    }
}

#[test]
fn behaves_like_the_naive_model() {
    for seed in 0..60 {
        run_against_model(seed);
    }
}

fn run_against_model(seed: u64) {
    let mut prng = Prng::new(seed);
    let mut p: Purgatory<u32, u64> = Purgatory::new(Limits { waiters_max: 40, watches_max: 90 });
    let mut model = Model::default();
    let mut now = prng.below(1 << 30);
    p.expire(at_ms(now), &mut Vec::new());
    for step in 0..1500 {
        let context = format!("seed {seed} step {step}");
        match prng.below(10) {
            0..=4 => {
                let mut keys: Vec<u32> = (0..prng.below(4)).map(|_| prng.below(6) as u32).collect();
                keys.sort_unstable();
                keys.dedup();
                let exponent = prng.below(24);
                let deadline = now + prng.below(1 << exponent);
                let watches: usize = model.waiters.iter().map(|w| w.1.len()).sum();
                let full = model.waiters.len() == 40 || watches + keys.len() > 90;
                match p.register(keys.clone(), ms(deadline), deadline) {
                    Ok(token) => model.waiters.push((token, keys, deadline)),
                    Err(Refused(data)) => assert!(full && data == deadline, "{context}"),
                }
                assert_eq!(p.len(), model.waiters.len(), "{context}");
            }
            5 => {
                let key = prng.below(6) as u32;
                let mut woken = Vec::new();
                p.wake(&key, &mut woken);
                assert_eq!(woken, model.woken(key), "{context}");
            }
            6..=7 if !model.waiters.is_empty() => {
                let at = prng.below(model.waiters.len() as u64) as usize;
                let (token, _, deadline) = model.waiters.remove(at);
                assert_eq!(p.cancel(token), Some(deadline), "{context}");
            }
            _ => {
                let exponent = prng.below(22);
                now += prng.below(1 << exponent);
                check_expiry(&mut p, &mut model, now, &context);
            }
        }
    }
}

fn check_expiry(p: &mut Purgatory<u32, u64>, model: &mut Model, now: u64, context: &str) {
    let earliest = model.waiters.iter().map(|w| w.2).min();
    assert!(p.next_deadline_ns() <= earliest.map(|t| ms(t.max(now))) || earliest.is_none(), "{context}");
    let mut out = Vec::new();
    p.expire(at_ms(now), &mut out);
    assert!(out.is_sorted_by_key(|(_, deadline)| deadline), "{context}");
    let mut got: Vec<_> = out.iter().map(|&(token, deadline)| (deadline, token)).collect();
    got.sort();
    assert_eq!(got, model.expire(now), "{context}");
}
