//! Threads of ours and of the host: ids, names, and starting one that the host never notices.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Kernel thread id of the caller. A syscall (0.1-0.2 us); callers cache it.
pub fn tid() -> u32 {
    // SAFETY: gettid takes no argument and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

thread_local! {
    static TID: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// `tid()`, asked of the kernel once a thread. A forked child must call `forget_tid` first.
#[inline]
pub fn cached_tid() -> u32 {
    match TID.get() {
        0 => {
            TID.set(tid());
            TID.get()
        }
        tid => tid,
    }
}

/// In a forked child: the calling thread has another id now.
pub fn forget_tid() {
    TID.set(0);
}

/// Whether a thread of this process with that id is alive. A syscall; async-signal-safe.
pub fn exists(tid: u32) -> bool {
    // SAFETY: signal 0 is never delivered; the call only checks that the thread is there.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) == 0 }
}

/// Sleeps about this long. Async-signal-safe; a signal ends it early.
pub fn pause(ns: u64) {
    let rest = libc::timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as _ };
    // SAFETY: the structure is whole; what is left after a signal is not asked for.
    unsafe { libc::nanosleep(&rest, std::ptr::null_mut()) };
}

/// The kernel's name of the calling thread: 15 bytes and a NUL. A syscall, 0.1-0.2 us;
/// async-signal-safe.
pub fn comm() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer given.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    name
}

/// Key of the threads that want to be told of their end, + 1; 0 none yet.
static END_KEY: AtomicU32 = AtomicU32::new(0);

/// Makes `ended` be called on every thread that called `arm_end`, when it ends: it returned, called
/// pthread_exit or was cancelled, and its thread-local destructors have run. Not called for threads
/// that are alive when the process exits. Once a process; false: no key is left.
pub fn on_end(ended: extern "C" fn(*mut libc::c_void)) -> bool {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `ended` has the right type and lives as long as this code is loaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } != 0 {
        return false;
    }
    END_KEY.store(key + 1, Ordering::Release);
    true
}

/// Asks for the call of `on_end` on the calling thread. May be called again from within that call.
/// Async-signal-safe with glibc and musl for the first 31 keys of a process; ours is made early.
#[inline]
pub fn arm_end() {
    let key = END_KEY.load(Ordering::Acquire);
    if key != 0 {
        // SAFETY: the key was made by `on_end` and is never deleted; the value only has to differ
        // from NULL, and is never dereferenced.
        unsafe { libc::pthread_setspecific(key - 1, std::ptr::dangling()) };
    }
}

/// Starts a thread that takes none of the host's signals, so no handler of the host runs on it and
/// no system call of the host is interrupted because of it.
///
/// `name` is cut to 15 bytes by the kernel. Errors: when the kernel refuses a new thread.
pub fn spawn_quiet(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let old = block_all_signals();
    let started =
        std::thread::Builder::new().name(name.to_owned()).stack_size(512 * 1024).spawn(body);
    restore_signals(&old);
    started
}

fn block_all_signals() -> libc::sigset_t {
    // SAFETY: both sets are plain memory we own; pthread_sigmask only changes the caller's mask.
    // The new thread inherits the full mask, so there is no window in which it could take a signal.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    }
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: `old` was filled by pthread_sigmask in block_all_signals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_threads_block_every_signal() {
        let mask = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let seen = mask.clone();
        let thread = super::spawn_quiet("quiet", move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let line = status.lines().find(|l| l.starts_with("SigBlk:")).unwrap_or("").to_owned();
            *seen.lock().expect("not poisoned") = line;
        });
        thread.expect("thread starts").join().expect("thread ends");
        let line = mask.lock().expect("not poisoned").clone();
        let bits = u64::from_str_radix(line.trim_start_matches("SigBlk:").trim(), 16).expect("hex");
        let term = 1u64 << (libc::SIGTERM - 1);
        let profile = 1u64 << (libc::SIGPROF - 1);
        assert_eq!(bits & (term | profile), term | profile, "{line}");
    }
}
