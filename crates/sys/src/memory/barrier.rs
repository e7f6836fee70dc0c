//! The asymmetric fence: one side pays nothing, the other a system call.
//!
//! How it works: two threads that each store one word and then load the other's need a full fence
//! on both sides, or both may miss the other's store. `membarrier(PRIVATE_EXPEDITED)` makes every
//! running thread of the process execute a fence, so the frequent side (`light`) needs only to keep
//! the compiler from reordering. Cost of `heavy`: 1-10 us, an interrupt to each CPU that runs a
//! thread of the process.

use std::sync::atomic::{compiler_fence, AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
const READY: u8 = 1;
const REFUSED: u8 = 2;

/// Whether the kernel accepted the registration. A forked child inherits it.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

const CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

/// Registers this process. False where the kernel (before 4.14) or a seccomp filter refuses: then
/// `heavy` must not be relied on. Async-signal-safe.
pub fn available() -> bool {
    match STATE.load(Ordering::Relaxed) {
        READY => true,
        REFUSED => false,
        _ => {
            let ready =
                membarrier(CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(CMD_PRIVATE_EXPEDITED);
            STATE.store(if ready { READY } else { REFUSED }, Ordering::Relaxed);
            ready
        }
    }
}

/// The frequent side: its store before, its load after. No instruction.
#[inline(always)]
pub fn light() {
    compiler_fence(Ordering::SeqCst);
}

/// The rare side. False: refused, the other side may not have seen our store.
pub fn heavy() -> bool {
    available() && membarrier(CMD_PRIVATE_EXPEDITED)
}

fn membarrier(command: i32) -> bool {
    // SAFETY: membarrier takes two integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}
