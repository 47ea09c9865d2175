//! The id of a request, by which a caller, a proxy and the log refer to the same one.

use std::cell::RefCell;

use deeplink_core::secret::Random;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

/// The header of the id, in requests and responses.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a caller's id.
const LONGEST: usize = 128;

/// The caller's id, if it is valid (1 to 128 of `A-Z a-z 0-9 . _ -`), else a new one: 16 random hex digits.
pub(crate) fn of(headers: &HeaderMap) -> HeaderValue {
    match headers.get(&HEADER) {
        Some(given) if is_sane(given.as_bytes()) => given.clone(),
        _ => new(),
    }
}

fn new() -> HeaderValue {
    thread_local! {
        /// Seeded once for each thread: asking the operating system each time would be a twentieth of a redirect's
        /// cost.
        static RANDOM: RefCell<Random> = RefCell::new(Random::system());
    }
    let digits = hex::encode(RANDOM.with_borrow_mut(Random::bytes::<8>));
    // Hex digits are always a valid header value.
    HeaderValue::try_from(digits).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

fn is_sane(name: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST).contains(&name.len()) && name.iter().all(allowed)
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
}
