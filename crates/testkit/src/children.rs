//! Forked children, and loops that end with their test.
//!
//! A child that hangs is reported, together with the system call it waits in, and killed. A loop
//! that runs until a flag is set also ends when an assertion fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Far longer than a child takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(200);

/// Sets a flag when it is dropped, also by a panic. In a `thread::scope` this lets the scope's
/// threads end, so that the failure is reported.
pub struct SetsAtEnd<'f>(pub &'f AtomicBool);

impl Drop for SetsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `body` in a forked child and returns its exit code: 101 after a panic, minus the signal if
/// one ended it. Fails the test when the child does not end.
pub fn in_a_child(body: impl FnOnce() -> i32) -> i32 {
    child(body).1
}

/// As `in_a_child`, and returns the child's process id before the code.
pub fn child(body: impl FnOnce() -> i32) -> (i32, i32) {
    let pid = start_child(body);
    (pid, wait_for_child(pid))
}

/// Starts such a child; call `wait_for_child` for it.
pub fn start_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body` and leaves by _exit, so nothing of the test harness runs twice.
    // `body` may allocate: glibc makes its allocator usable in the child.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // The harness would keep the panic's message in memory that is lost with this process.
        std::panic::set_hook(Box::new(|why| {
            say(&format!("in child {}: {why}", std::process::id()))
        }));
        let body = std::panic::AssertUnwindSafe(body);
        let code = std::panic::catch_unwind(body).unwrap_or(101);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(code) };
    }
    assert!(pid > 0, "fork: {}", std::io::Error::last_os_error());
    pid
}

/// The exit code of a child, minus the signal that ended it. Fails the test when the child does not
/// end.
pub fn wait_for_child(pid: i32) -> i32 {
    wait_at_most(pid, LIMIT).unwrap_or_else(|waits_in| panic!("{waits_in}"))
}

/// As `wait_for_child`. Err: the child was killed; the text says what it waited in, and is also
/// written to stderr at once.
pub fn wait_at_most(pid: i32, limit: Duration) -> Result<i32, String> {
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of ours; `status` is ours.
        let waited = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
        assert!(waited == 0 || waited == pid, "{}", std::io::Error::last_os_error());
        if waited == pid {
            return Ok(match libc::WIFEXITED(status) {
                true => libc::WEXITSTATUS(status),
                false => -libc::WTERMSIG(status),
            });
        }
        if begin.elapsed() > limit {
            let text = format!("child {pid} did not end within {limit:?}; {}", waits_in(pid));
            // SAFETY: a child of ours that was not waited for: the number is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above; it is dead now, or dies.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            say(&text);
            return Err(text);
        }
        // Short at first: many children end at once.
        let pause = begin.elapsed() / 8;
        std::thread::sleep(pause.clamp(Duration::from_micros(50), Duration::from_millis(20)));
    }
}

/// The system calls that a process's threads are in, and where their code lies.
fn waits_in(pid: i32) -> String {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let maps = read(format!("/proc/{pid}/maps"));
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut text = "its threads:".to_owned();
    for task in tasks {
        let of = |name: &str| read(format!("{}/{name}", task.path().display())).trim().to_owned();
        let call = of("syscall");
        // The number of the call, six arguments, stack pointer, and the address where the thread
        // continues.
        let at = call.split_whitespace().last().and_then(|word| {
            let at = u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()?;
            maps.lines().find(|line| {
                let ends = line.split_whitespace().next().and_then(|range| range.split_once('-'));
                let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
                ends.is_some_and(|(from, to)| (number(from)..number(to)).contains(&at))
            })
        });
        let (comm, wchan, stack) = (of("comm"), of("wchan"), of("stack").replace('\n', " "));
        let at = at.unwrap_or("?");
        text += &format!("\n  {comm}: wchan {wchan}; syscall {call}; in {at}; stack {stack}");
    }
    text
}

/// Writes to the real standard error, without its lock: another thread may have held the lock at a
/// fork.
fn say(text: &str) {
    let line = format!("{text}\n");
    // SAFETY: `line` is readable for its whole length; an error is ignored.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
