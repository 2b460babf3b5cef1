//! Memory of the tail that readers still hold after it was dropped from there. An answer is made of views of the tail, and a
//! client that does not read its answer holds them for as long as it is connected.

use reactor::Pinned;

/// Held pieces are looked through when there are so many, or twice as many as were left the last time.
const LOOK_AT_MIN: usize = 64;

/// What readers hold of one core's tail and the tail no longer has.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    held: Vec<Pinned>,
    bytes: usize,
    look_at: usize,
}

impl Pins {
    /// Adds memory that somebody has views of.
    pub fn add(&mut self, pinned: Pinned) {
        if self.held.len() >= self.look_at.max(LOOK_AT_MIN) {
            self.look();
        }
        self.bytes += pinned.bytes();
        self.held.push(pinned);
    }

    /// Whether more than `max` bytes are held.
    pub fn exceed(&mut self, max: usize) -> bool {
        if self.bytes > max {
            self.look();
        }
        self.bytes > max
    }

    /// Bytes that are held.
    pub fn bytes(&mut self) -> usize {
        self.look();
        self.bytes
    }

    fn look(&mut self) {
        self.held.retain(Pinned::is_held);
        self.bytes = self.held.iter().map(Pinned::bytes).sum();
        self.look_at = self.held.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::AppendBuf;

    #[test]
    fn what_readers_let_go_of_does_not_count() {
        let mut pins = Pins::default();
        let mut views = Vec::new();
        for _ in 0..200 {
            let mut buf = AppendBuf::with_capacity(4096);
            buf.extend_from_slice(b"x");
            views.push(buf.view(0..1));
            pins.add(buf.release().expect("a view is left"));
        }
        assert!(pins.exceed(199 * 4096) && !pins.exceed(200 * 4096));
        views.truncate(20);
        assert!(!pins.exceed(20 * 4096) && pins.exceed(19 * 4096));
        // Many that come and go take no memory here.
        for _ in 0..1_000 {
            let buf = AppendBuf::with_capacity(4096);
            let view = buf.view(0..0);
            pins.add(buf.release().expect("a view is left"));
            drop(view);
        }
        assert!(pins.held.len() <= LOOK_AT_MIN + 1, "{}", pins.held.len());
        assert!(AppendBuf::with_capacity(1).release().is_none(), "nobody has a view");
    }
}
