//! The budget for HTTP/2 requests in progress, of which one address has an eighth.
//!
//! A header that is in the client's compression table costs it one byte to send and some 200 to hold, so bytes received do not
//! bound the memory of request heads. Over HTTP/1 they do.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a request in progress without its headers.
const REQUEST_BYTES: usize = 8 << 10;
/// Bytes of one header line.
const HEADER_BYTES: usize = 200;

/// The estimated size of a request with this many headers, in bytes.
pub(super) fn size(headers: usize) -> usize {
    REQUEST_BYTES + HEADER_BYTES * headers
}

/// Bytes of request heads.
#[derive(Debug, Default)]
pub(super) struct Heads(AtomicUsize);

impl Heads {
    /// Counts bytes, unless there would then be more than `most`. `false`: not counted.
    pub(super) fn take(&self, bytes: usize, most: usize) -> bool {
        let add = |had: usize| Some(had + bytes).filter(|has| *has <= most);
        self.0.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }
}
