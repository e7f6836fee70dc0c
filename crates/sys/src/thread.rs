//! Threads of ours and of the host: ids, names, and starting one that the host never notices.

use std::io;
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
