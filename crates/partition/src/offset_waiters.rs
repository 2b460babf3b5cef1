use std::collections::VecDeque;
use std::task::{Context, Waker};

use base::Offset;

use crate::pending::KeptToken;

/// Who waits for an offset, woken in the order of the offsets. Bounded by the appends in flight, each of which holds memory
/// that was admitted before.
#[derive(Debug, Default)]
pub(crate) struct OffsetWaiters {
    /// By offset, then by id. Appends wait in the order of their offsets, so that mostly the end is added to and the front
    /// taken from.
    waiting: VecDeque<(Place, Waiter)>,
    next_id: u64,
}

/// Whom to tell.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A task, which looks again.
    Task(Waker),
    /// Whoever looks after appends without a task of their own.
    Token(KeptToken),
}

/// A place among the waiters, kept by the one who waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    offset: Offset,
    id: u64,
}

impl OffsetWaiters {
    /// Registers the task of `context` for the moment at which `offset` is reached, or renews its registration.
    pub(crate) fn register(&mut self, place: &mut Option<Place>, offset: Offset, context: &Context<'_>) {
        if let Some(at) = place.and_then(|place| self.find(place)) {
            if let Waiter::Task(waker) = &mut self.waiting[at].1 {
                waker.clone_from(context.waker());
            }
            return;
        }
        *place = Some(self.join(offset, Waiter::Task(context.waker().clone())));
    }

    /// Has the keeper of tokens told when `offset` is reached, once.
    pub(crate) fn register_token(&mut self, offset: Offset, token: KeptToken) {
        self.join(offset, Waiter::Token(token));
    }

    fn join(&mut self, offset: Offset, waiter: Waiter) -> Place {
        self.next_id += 1;
        let place = Place { offset, id: self.next_id };
        let at = match self.waiting.back() {
            Some((last, _)) if *last > place => self.waiting.partition_point(|(other, _)| *other < place),
            _ => self.waiting.len(),
        };
        self.waiting.insert(at, (place, waiter));
        place
    }

    fn find(&self, place: Place) -> Option<usize> {
        self.waiting.binary_search_by_key(&place, |(other, _)| *other).ok()
    }

    /// Gives a place up.
    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(at) = self.find(place) {
            self.waiting.remove(at);
        }
    }

    /// Everything below `end` is reached: wakes the tasks that waited for it, and appends the tokens to `tokens`.
    pub(crate) fn reached(&mut self, end: Offset, tokens: &mut Vec<KeptToken>) {
        while let Some((place, _)) = self.waiting.front()
            && place.offset <= end
            && let Some((_, waiter)) = self.waiting.pop_front()
        {
            tell(waiter, tokens);
        }
    }

    /// Wakes everybody, to look at what else changed.
    pub(crate) fn wake_all(&mut self, tokens: &mut Vec<KeptToken>) {
        for (_, waiter) in std::mem::take(&mut self.waiting) {
            tell(waiter, tokens);
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

fn tell(waiter: Waiter, tokens: &mut Vec<KeptToken>) {
    match waiter {
        Waiter::Task(waker) => waker.wake(),
        Waiter::Token(token) => tokens.push(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_up_to_the_offset_and_forgets_who_left() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let context = Context::from_waker(&waker);
        let mut waiters = OffsetWaiters::default();
        let mut tokens = Vec::new();
        let mut places = [None; 4];
        for (i, place) in places.iter_mut().enumerate() {
            waiters.register(place, 10 * i as Offset, &context);
            waiters.register(place, 10 * i as Offset, &context);
        }
        assert_eq!(waiters.len(), 4);
        waiters.reached(10, &mut tokens);
        assert_eq!((waiters.len(), count.0.load(Ordering::Relaxed)), (2, 2));
        waiters.remove(places[2].expect("registered"));
        waiters.reached(25, &mut tokens);
        assert_eq!((waiters.len(), count.0.load(Ordering::Relaxed)), (1, 2));
        waiters.wake_all(&mut tokens);
        assert_eq!((waiters.len(), count.0.load(Ordering::Relaxed)), (0, 3));
        assert!(tokens.is_empty());
    }

    #[test]
    fn tokens_come_in_the_order_of_the_offsets_whatever_order_they_joined_in() {
        let token = |part| KeptToken { slot: 7, generation: 1, part };
        let mut waiters = OffsetWaiters::default();
        for part in [3, 1, 4, 1, 5, 9, 2, 6] {
            waiters.register_token(part.into(), token(part));
        }
        let mut told = Vec::new();
        waiters.reached(4, &mut told);
        assert_eq!(told, [1, 1, 2, 3, 4].map(token));
        waiters.wake_all(&mut told);
        assert_eq!(told[5..], [5, 6, 9].map(token));
    }
}
