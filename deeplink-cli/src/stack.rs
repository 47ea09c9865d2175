//! The stack of the thread that `dl` runs on. A jq program may recurse as deeply as it likes, and the stack of the main thread
//! has a size that nobody knows, so that everything runs on a thread with a stack of known size.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::thread;

/// Bytes of the stack. Only those that are used take memory.
const SIZE: usize = 256 << 20;
/// Bytes that a program may use. The rest is for what it leaves behind, such as nested values, which are dropped recursively.
const FOR_PROGRAMS: usize = SIZE / 4;
/// The same on any other thread, whose stack may be small.
const FOR_PROGRAMS_ELSEWHERE: usize = 512 << 10;

thread_local! {
    static ROOM: Cell<usize> = const { Cell::new(FOR_PROGRAMS_ELSEWHERE) };
}

/// Runs this on a large stack, or on the current one if there is no memory for it.
pub(crate) fn on_large<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let on_thread = || {
        ROOM.set(FOR_PROGRAMS);
        work()
    };
    thread::scope(|scope| match thread::Builder::new().stack_size(SIZE).spawn_scoped(scope, on_thread) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        Err(_) => work(),
    })
}

/// How far the stack may grow from where it is now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    from: usize,
    room: usize,
}

impl Limit {
    /// The limit for what is called from here.
    pub(crate) fn from_here() -> Self {
        Self { from: address(), room: ROOM.get() }
    }

    /// Whether the stack has grown too far.
    pub(crate) fn is_exceeded(self) -> bool {
        self.from.abs_diff(address()) > self.room
    }
}

/// An address on the stack, close to its end.
fn address() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(&local).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(levels: usize, limit: Limit) -> bool {
        let frame = std::hint::black_box([0_u8; 1 << 10]);
        if levels == 0 { limit.is_exceeded() } else { deep(levels - 1, limit) || frame[0] == 1 }
    }

    #[test]
    fn growth_is_noticed() {
        let reaches = |levels| deep(levels, Limit::from_here());
        assert!(!reaches(10) && reaches(600));
        assert!(!on_large(|| deep(1_000, Limit::from_here())), "there is more room");
        assert!(on_large(|| deep(70_000, Limit::from_here())), "but not without end");
    }
}
