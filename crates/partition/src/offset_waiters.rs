use std::collections::BTreeMap;
use std::task::{Context, Waker};

use base::Offset;

/// Tasks that wait for an offset, woken in the order of their offsets. Bounded by the appends in flight, each of which
/// holds memory that was admitted before.
#[derive(Debug, Default)]
pub(crate) struct OffsetWaiters {
    wakers: BTreeMap<(Offset, u64), Waker>,
    next_id: u64,
}

/// A place among the waiters, kept by the one who waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    offset: Offset,
    id: u64,
}

impl OffsetWaiters {
    /// Registers the task of `context` for the moment at which `offset` is reached, or renews its registration.
    pub(crate) fn register(&mut self, place: &mut Option<Place>, offset: Offset, context: &Context<'_>) {
        let at = *place.get_or_insert_with(|| {
            self.next_id += 1;
            Place { offset, id: self.next_id }
        });
        let waker = self.wakers.entry((at.offset, at.id)).or_insert_with(|| context.waker().clone());
        if !waker.will_wake(context.waker()) {
            waker.clone_from(context.waker());
        }
    }

    /// Gives a place up.
    pub(crate) fn remove(&mut self, place: Place) {
        self.wakers.remove(&(place.offset, place.id));
    }

    /// Everything below `end` is reached: wakes those who waited for it.
    pub(crate) fn reached(&mut self, end: Offset) {
        while let Some(entry) = self.wakers.first_entry()
            && entry.key().0 <= end
        {
            entry.remove().wake();
        }
    }

    /// Wakes everybody, to look at what else changed.
    pub(crate) fn wake_all(&mut self) {
        for (_, waker) in std::mem::take(&mut self.wakers) {
            waker.wake();
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
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
        let mut places = [None; 4];
        for (i, place) in places.iter_mut().enumerate() {
            waiters.register(place, 10 * i as Offset, &context);
            waiters.register(place, 10 * i as Offset, &context);
        }
        assert_eq!(waiters.len(), 4);
        waiters.reached(10);
        assert_eq!((waiters.len(), count.0.load(Ordering::Relaxed)), (2, 2));
        waiters.remove(places[2].expect("registered"));
        waiters.reached(25);
        assert_eq!((waiters.len(), count.0.load(Ordering::Relaxed)), (1, 2));
        waiters.wake_all();
        assert_eq!((waiters.len(), count.0.load(Ordering::Relaxed)), (0, 3));
    }
}
