//! Threads of ours and of the host: ids, names, and starting a thread that the host never notices.

use std::ffi::c_void;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, Ordering};
use std::sync::Arc;

use crate::latch::Latch;

/// Kernel thread id of the caller. A syscall (0.1-0.2 us); callers cache it.
pub fn tid() -> u32 {
    // SAFETY: gettid takes no argument and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

thread_local! {
    static TID: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// `tid()`, read once a thread, most often without a system call. A forked child must call
/// `forget_tid` first. Async-signal-safe.
#[inline]
pub fn cached_tid() -> u32 {
    match TID.get() {
        0 => {
            TID.set(find_tid());
            TID.get()
        }
        tid => tid,
    }
}

/// Whether the C library's id of a thread agrees with the kernel's. Relaxed: nothing depends on it;
/// a thread that loads an old value asks the kernel, too.
static LIBRARY: AtomicU8 = AtomicU8::new(UNPROVEN);
const UNPROVEN: u8 = 0;
const AGREES: u8 = 1;
const DIFFERS: u8 = 2;

/// The C library keeps the id of each thread and has no portable call that returns it, except for
/// `pthread_getcpuclockid`: that computes the number of the thread's CPU clock, and the kernel
/// defines what the number means. It is used once both agreed on a thread that is not the first
/// one, whose id is the process's, too.
#[cold]
fn find_tid() -> u32 {
    let state = LIBRARY.load(Ordering::Relaxed);
    let cached = if state == DIFFERS { None } else { library_tid() };
    if let (AGREES, Some(cached)) = (state, cached) {
        return cached;
    }
    let tid = tid();
    if cached != Some(tid) {
        LIBRARY.store(DIFFERS, Ordering::Relaxed);
    } else if tid != std::process::id() {
        // Never back from `DIFFERS`, which another thread may have stored.
        let _ = LIBRARY.compare_exchange(UNPROVEN, AGREES, Ordering::Relaxed, Ordering::Relaxed);
    }
    tid
}

/// The caller's id by its CPU clock. glibc and musl make no system call and take no lock for it.
fn library_tid() -> Option<u32> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the caller's own handle is valid while it runs; `clock` is ours.
    let error = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
    tid_of_clock(error, clock)
}

/// The kernel's numbers of CPU clocks: the id inverted, above three bits: one thread's (4), the
/// time that it was scheduled (2).
fn tid_of_clock(error: i32, clock: i32) -> Option<u32> {
    (error == 0 && clock & 7 == 6).then_some(!(clock >> 3) as u32)
}

/// In a forked child: the calling thread has another id now, and is the only one.
pub fn forget_tid() {
    TID.set(0);
    crate::own_threads::forget();
}

/// The CPU that the caller runs on just now; 0 where it is not known. 2 ns; async-signal-safe.
pub fn cpu() -> usize {
    // SAFETY: sched_getcpu takes no argument; it reads what the kernel keeps for the thread.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

pub use crate::own_threads::exists;

/// Sleeps about this long, a second at most. Async-signal-safe; a signal ends it early. Where the
/// kernel refuses (a seccomp profile) another call does the same: Rust's own sleep panics there.
pub fn pause(ns: u64) {
    let ns = ns.min(999_999_999);
    let rest = libc::timespec { tv_sec: 0, tv_nsec: ns as _ };
    // SAFETY: the structure is whole; the time left after a signal is not requested.
    let slept = unsafe { libc::nanosleep(&rest, std::ptr::null_mut()) };
    if slept != 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        // SAFETY: no descriptors, so no memory is involved.
        unsafe { libc::poll(std::ptr::null_mut(), 0, (ns / 1_000_000 + 1) as libc::c_int) };
    }
}

/// As `pause`. No time is no pause: the kernel would make it its timer's slack, 50 us, and another
/// wakeup.
pub fn pause_for(time: std::time::Duration) {
    if !time.is_zero() {
        pause(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// The kernel's name of the calling thread: 15 bytes and a NUL. A syscall, 0.1-0.2 us;
/// async-signal-safe.
pub fn comm() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer given.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    name
}

/// Key of the threads whose end is reported, + 1; 0 none yet.
static END_KEY: AtomicU32 = AtomicU32::new(0);

/// Makes `ended` be called on every thread that called `arm_end`, when it ends: it returned, called
/// pthread_exit or was cancelled, and its thread-local destructors have run. Not called for threads
/// that are alive when the process exits. The first function counts; more calls change nothing.
/// False: no key is left.
pub fn on_end(ended: extern "C" fn(*mut libc::c_void)) -> bool {
    if END_KEY.load(Ordering::Acquire) != 0 {
        return true;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `ended` has the right type and lives as long as this code is loaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } != 0 {
        return false;
    }
    // One word says both that there is a key and which: a fork finds it made or not made.
    let first = END_KEY.compare_exchange(0, key + 1, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        // SAFETY: the key was made above, and no other code knows it.
        unsafe { libc::pthread_key_delete(key) };
    }
    true
}

/// Requests the call of `on_end` on the calling thread. May be called again from within that call.
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

/// Bytes of a stack of ours.
const STACK: usize = 512 * 1024;

/// A thread of ours. Dropped, it goes on by itself.
#[derive(Debug)]
pub struct Quiet {
    /// None: joined.
    id: Option<libc::pthread_t>,
    life: Arc<Life>,
}

/// What a thread reports to the one that started it.
#[derive(Debug)]
struct Life {
    is_named: Latch,
    is_over: AtomicBool,
}

impl Life {
    fn new() -> Life {
        Life { is_named: Latch::new(), is_over: AtomicBool::new(false) }
    }
}

impl Quiet {
    /// Whether its body is over; the thread itself may need a moment more.
    pub fn is_finished(&self) -> bool {
        // Acquire: pairs with the release behind the body.
        self.life.is_over.load(Ordering::Acquire)
    }

    /// Waits for its end.
    pub fn join(mut self) {
        if let Some(id) = self.id.take() {
            // SAFETY: the thread was made joinable, and no other code joins or detaches it.
            unsafe { libc::pthread_join(id, std::ptr::null_mut()) };
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_detach(id) };
        }
    }
}

type Body = Box<dyn FnOnce() + Send>;

struct Start {
    name: [u8; 16],
    /// The kernel gives a thread the table of descriptors of the one that starts it.
    table: u32,
    body: Body,
    life: Arc<Life>,
}

/// Starts a thread that takes none of the host's signals, so no handler of the host runs on it and
/// no system call of the host is interrupted because of it. A panic ends it, and nothing else.
///
/// Through the C library and not Rust's: in a Rust program a thread of Rust's library takes a lock
/// when it begins and when it ends. A child that was forked at such a moment never gets that lock,
/// so its own threads would not begin.
///
/// It has its name when this returns: the caller may fork right behind, and CPython counts the
/// threads that have no name of ours. The thread names itself, since a name from outside is written
/// to a file of /proc, which would be open in the host's table for a moment. Until then the caller
/// takes no signal, so no handler of the host can fork it while it waits; and in a child that
/// another thread forks, the caller does not exist.
///
/// `name` is cut to 15 bytes. Errors: when the kernel refuses a new thread; the text names the
/// limits that may be the reason.
pub fn spawn_quiet(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Quiet> {
    let mut short = [0; 16];
    short.iter_mut().take(15).zip(name.bytes()).for_each(|(to, from)| *to = from);
    let (life, table) = (Arc::new(Life::new()), crate::ours::heritage());
    let start = Start { name: short, table, body: Box::new(body), life: life.clone() };
    let start = Box::into_raw(Box::new(start));
    let old = block_all_signals();
    // SAFETY: `start` is whole, and `begin` takes it over.
    let made = unsafe { create(start.cast()) };
    if made.is_ok() {
        life.is_named.wait();
    }
    restore_signals(&old);
    made.map(|id| Quiet { id: Some(id), life }).inspect_err(|_| {
        // SAFETY: no thread began, so it is still ours.
        drop(unsafe { Box::from_raw(start) });
    })
}

/// A thread that calls `begin(start)`.
///
/// # Safety
/// `start` is what `begin` wants; it is taken over when there is no error.
unsafe fn create(start: *mut c_void) -> io::Result<libc::pthread_t> {
    let mut id: libc::pthread_t = 0;
    // SAFETY: the attributes are initialised before and destroyed after their use; `id` is ours.
    let error = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        match libc::pthread_attr_init(&mut attributes) {
            0 => {
                // An error: the stack is as large as the host's threads'.
                libc::pthread_attr_setstacksize(&mut attributes, STACK);
                let error = libc::pthread_create(&mut id, &attributes, begin, start);
                libc::pthread_attr_destroy(&mut attributes);
                error
            }
            error => error,
        }
    };
    match error {
        0 => Ok(id),
        libc::EAGAIN => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "no more threads may be started: the limit of the user's (RLIMIT_NPROC), of the \
             cgroup (pids.max) or of the machine is reached",
        )),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: from `Box::into_raw` in `spawn_quiet`, for this thread alone.
    let Start { name, table, body, life } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    crate::ours::inherit(table);
    // SAFETY: the name ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    let counted = crate::own_threads::enter(cached_tid());
    life.is_named.open();
    // A panic must not leave a function that C calls; its message is printed already.
    let _ = catch_unwind(AssertUnwindSafe(body));
    drop(counted);
    life.is_over.store(true, Ordering::Release);
    std::ptr::null_mut()
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Times that the calling thread gave its CPU away.
    fn sleeps() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.expect("a line").trim().parse().expect("a number")
    }

    #[test]
    fn a_pause_of_no_time_does_not_give_the_cpu_away() {
        let before = sleeps();
        (0..1000).for_each(|_| super::pause_for(Duration::ZERO));
        assert!(sleeps() - before < 500, "reading the count may sleep");
    }

    /// Each pause is at least as long as asked for. The count of sleeps says nothing here: a timer
    /// that ran out before the kernel took the thread off its CPU ends the pause without a switch.
    #[test]
    fn a_pause_lasts_as_long_as_asked_for() {
        let start = std::time::Instant::now();
        (0..10).for_each(|_| super::pause_for(Duration::from_micros(100)));
        assert!(start.elapsed() >= Duration::from_millis(1));
    }

    #[test]
    fn the_first_function_is_called_at_ends_and_a_second_takes_no_key() {
        static ENDS: AtomicU32 = AtomicU32::new(0);
        extern "C" fn first(_: *mut libc::c_void) {
            ENDS.fetch_add(1, Ordering::Relaxed);
        }
        extern "C" fn second(_: *mut libc::c_void) {
            ENDS.fetch_add(100, Ordering::Relaxed);
        }
        // There are 1024 keys.
        assert!(super::on_end(first) && (0..2000).all(|_| super::on_end(second)));
        std::thread::spawn(super::arm_end).join().expect("ends");
        assert_eq!(ENDS.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_thread_knows_its_id_as_the_kernel_does_also_behind_a_fork() {
        use super::{cached_tid, forget_tid, library_tid, tid, tid_of_clock};
        let agree = || (cached_tid() == tid() && library_tid() == Some(tid())).then_some(tid());
        for _ in 0..3 {
            let id = std::thread::spawn(agree).join().expect("ends");
            assert!(id.is_some_and(|id| id != std::process::id()));
        }
        assert_eq!(super::LIBRARY.load(Ordering::Relaxed), super::AGREES);
        // SAFETY: the child calls what a signal handler may call, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            forget_tid();
            let right = cached_tid() == std::process::id() && agree().is_some();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: our own child; `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        // A clock of a process, another clock of a thread, an error.
        let clock = |tid: i32, low: i32| !tid << 3 | low;
        assert_eq!(tid_of_clock(0, clock(4711, 6)), Some(4711));
        assert_eq!([clock(4711, 2), clock(4711, 4), 3].map(|c| tid_of_clock(0, c)), [None; 3]);
        assert_eq!(tid_of_clock(libc::ENOENT, clock(4711, 6)), None);
    }

    #[test]
    fn a_thread_has_its_name_is_over_when_its_body_is_and_survives_its_handle() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = super::spawn_quiet("a name that is far too long", move || {
            sender.send(super::comm()).expect("it is waited for");
            let _ = wait.recv();
        });
        let thread = thread.expect("starts");
        assert_eq!(&receiver.recv().expect("it runs"), b"a name that is \0");
        assert!(!thread.is_finished());
        drop(go);
        while !thread.is_finished() {
            super::pause(100_000);
        }
        thread.join();
        let (sender, receiver) = std::sync::mpsc::channel();
        drop(super::spawn_quiet("alone", move || sender.send(7).expect("waited for")));
        assert_eq!(receiver.recv(), Ok(7));
        let broken = super::spawn_quiet("broken", || {
            // As a panic ends it, without the message of one among the tests' output.
            std::panic::resume_unwind(Box::new("as it should"));
        });
        let broken = broken.expect("starts");
        broken.join();
    }

    #[test]
    fn a_thread_has_its_name_before_it_runs() {
        for _ in 0..50 {
            let thread = super::spawn_quiet("dashcam-named", || super::pause(1_000_000));
            let thread = thread.expect("starts");
            let tasks = std::fs::read_dir("/proc/self/task").expect("there").flatten();
            let name = |task: std::fs::DirEntry| std::fs::read(task.path().join("comm")).ok();
            let named = tasks.filter_map(name).any(|name| name == b"dashcam-named\n");
            assert!(named || thread.is_finished());
            thread.join();
        }
    }

    #[test]
    fn our_threads_block_every_signal() {
        let mask = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let seen = mask.clone();
        let thread = super::spawn_quiet("quiet", move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let line = status.lines().find(|l| l.starts_with("SigBlk:")).unwrap_or("").to_owned();
            *seen.lock().expect("not poisoned") = line;
        });
        thread.expect("thread starts").join();
        let line = mask.lock().expect("not poisoned").clone();
        let bits = u64::from_str_radix(line.trim_start_matches("SigBlk:").trim(), 16).expect("hex");
        let term = 1u64 << (libc::SIGTERM - 1);
        let profile = 1u64 << (libc::SIGPROF - 1);
        assert_eq!(bits & (term | profile), term | profile, "{line}");
    }
}
