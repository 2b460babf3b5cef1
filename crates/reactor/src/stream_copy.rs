//! A copy that leaves the processor's cache alone.
#![allow(unsafe_code)]

/// Bytes from which on a copy past the cache is the cheaper one: what it saves, reading the target before overwriting it,
/// grows with the length, what it costs, waiting for the last bytes to leave, does not. Measured into 128 MiB: 0.71 of the time
/// at 4 KiB, 0.57 at 16 KiB, half as long again at 1 KiB; into 8 MiB, which a large cache holds, the same from 16 KiB on.
const STREAM_BYTES_MIN: usize = 4 << 10;
/// Bytes the processor hands to memory at a time.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Copies `len` bytes to memory that this core will not read soon: it neither reads the target in, nor does the target drive
/// anything out of the cache. Short copies are ordinary ones.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
pub(crate) unsafe fn stream_copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= STREAM_BYTES_MIN {
        // SAFETY: the caller's promise.
        unsafe { past_the_cache(from, to, len) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// Streaming stores of whole lines; both ends of the target that are no whole lines are copied as usual.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`], and `len` is at least one line.
#[cfg(target_arch = "x86_64")]
unsafe fn past_the_cache(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let head = to.align_offset(LINE);
    let lines = (len - head) / LINE;
    // SAFETY: head + lines * LINE is at most len, so that all of it lies within what the caller promised, and the target of
    // every streaming store is aligned to a line. The stores are fenced before anything that follows.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (mut source, mut target) = (from.add(head).cast::<__m128i>(), to.add(head).cast::<__m128i>());
        for _ in 0..lines {
            let line = [
                _mm_loadu_si128(source),
                _mm_loadu_si128(source.add(1)),
                _mm_loadu_si128(source.add(2)),
                _mm_loadu_si128(source.add(3)),
            ];
            for (at, part) in line.into_iter().enumerate() {
                _mm_stream_si128(target.add(at), part);
            }
            (source, target) = (source.add(4), target.add(4));
        }
        let done = head + lines * LINE;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    #[test]
    fn a_copy_is_exact_at_every_length_and_alignment() {
        let mut prng = Prng::new(7);
        let source: Vec<u8> = (0..40_000).map(|_| prng.next_u64() as u8).collect();
        for round in 0..2_000 {
            let len = match round % 4 {
                0 => STREAM_BYTES_MIN - 70 + round / 4 % 140,
                _ => prng.below(20_000) as usize,
            };
            let (from, to) = (prng.below(200) as usize, prng.below(200) as usize);
            let mut target = vec![0xA5; len + 400];
            // SAFETY: both ranges lie within their vectors, which are two.
            unsafe { stream_copy(source.as_ptr().add(from), target.as_mut_ptr().add(to), len) };
            assert!(target[..to].iter().chain(&target[to + len..]).all(|byte| *byte == 0xA5), "{len} bytes to {to}");
            assert_eq!(target[to..to + len], source[from..from + len], "{len} bytes from {from} to {to}");
        }
    }
}
