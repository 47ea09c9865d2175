//! The name of a request, by which a caller, a proxy and the log speak of the same one.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use deeplink_core::secret::Random;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

/// Where the name travels, in and out.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest name taken over from a caller.
const LONGEST: usize = 128;
/// Numbers that a thread takes at once, so that threads do not share a counter per request.
const BLOCK: u64 = 1 << 16;

/// The blocks given out so far. They start where only this process does, so that names of several nodes do not meet.
static BLOCKS: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(u64::from_le_bytes(Random::system().bytes())));

thread_local! {
    /// The next number of this thread's block, and the block's end.
    static NUMBERS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The name that the caller gave, if it is a sane one (1 to 128 of `A-Z a-z 0-9 . _ -`), else a new one: 16 hex
/// digits that no other request of this process has.
pub(crate) fn of(headers: &HeaderMap) -> HeaderValue {
    match headers.get(&HEADER) {
        Some(given) if is_sane(given.as_bytes()) => given.clone(),
        _ => new(),
    }
}

fn new() -> HeaderValue {
    // Hex digits always are a header value.
    HeaderValue::from_bytes(&hex16(scramble(next_number()))).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

fn is_sane(name: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST).contains(&name.len()) && name.iter().all(allowed)
}

fn next_number() -> u64 {
    NUMBERS.with(|numbers| {
        let (mut next, mut end) = numbers.get();
        if next == end {
            next = BLOCKS.fetch_add(1, Ordering::Relaxed).wrapping_mul(BLOCK);
            end = next.wrapping_add(BLOCK);
        }
        numbers.set((next.wrapping_add(1), end));
        next
    })
}

/// Spreads neighbouring numbers over all digits without making two equal (the finish of SplitMix64), so that names
/// neither look alike nor tell how many requests there were.
fn scramble(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn hex16(number: u64) -> [u8; 16] {
    let mut hex = [0; 16];
    for (index, byte) in number.to_be_bytes().into_iter().enumerate() {
        hex[2 * index] = b"0123456789abcdef"[usize::from(byte >> 4)];
        hex[2 * index + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    hex
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    fn named(given: &[u8]) -> HeaderValue {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(given).unwrap());
        of(&headers)
    }

    #[test]
    fn sane_names_are_kept_and_others_replaced() {
        let longest = "x".repeat(128);
        for kept in ["a", "Req-1.2_3", "0123456789abcdef", &longest] {
            assert_eq!(named(kept.as_bytes()), kept);
        }
        let too_long = "x".repeat(129);
        for replaced in ["", "a b", "a/b", "a\"b", "a,b", "a\tb", "é", &too_long] {
            let made = named(replaced.as_bytes());
            assert!(made.len() == 16 && is_sane(made.as_bytes()), "{replaced:?} became {made:?}");
        }
        assert!(is_sane(of(&HeaderMap::new()).as_bytes()));
    }

    #[test]
    fn new_names_are_all_different() {
        let draw = || (0..100_000).map(|_| new()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(draw)).collect();
        let names: HashSet<HeaderValue> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(names.len(), 400_000);
    }

    #[test]
    fn hex_is_what_the_standard_library_writes() {
        for number in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(hex16(number), format!("{number:016x}").as_bytes());
        }
    }
}
