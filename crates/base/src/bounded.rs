use std::collections::VecDeque;

/// A queue with a named bound: a push past it hands the value back instead of growing.
#[derive(Debug)]
pub struct BoundedQueue<T> {
    items: VecDeque<T>,
    bound: usize,
}

/// The queue is full; the value comes back to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full<T>(pub T);

impl<T> BoundedQueue<T> {
    /// An empty queue that holds at most `bound` values.
    pub fn new(bound: usize) -> BoundedQueue<T> {
        assert!(bound > 0, "a queue of bound 0 can never hold anything");
        BoundedQueue { items: VecDeque::new(), bound }
    }

    /// Appends `value`, or hands it back when the queue is full.
    ///
    /// # Errors
    /// [`Full`] with the value.
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        if self.items.len() == self.bound {
            return Err(Full(value));
        }
        self.items.push_back(value);
        Ok(())
    }

    /// Takes the oldest value.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// Number of values held.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True when nothing is held.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_hands_the_value_back() {
        let mut queue = BoundedQueue::new(1);
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.push(2), Err(Full(2)));
        assert_eq!(queue.pop(), Some(1));
        assert!(queue.is_empty());
    }
}
