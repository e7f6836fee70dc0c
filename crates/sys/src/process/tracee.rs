//! Another process, stopped for as long as a function runs.
//!
//! How it works: a thread of its own seizes every thread of the process (`PTRACE_SEIZE`),
//! interrupts them, waits until all are stopped, runs the function, and releases them. Not SIGSTOP:
//! this sends the process no signal, its parent learns nothing, and above all the kernel releases
//! what a tracer has stopped when that tracer ends, whatever ended it. So no process is needed that
//! would watch over the one that stops.
//!
//! ```text
//!   seize all > interrupt all > wait for all > (new threads: again) > work > release all
//!        `--------- the calling process is killed: the kernel releases all ---------'
//! ```
//!
//! What it promises: when `while_stopped` has returned, no thread is stopped by it any more, also
//! after an error or a panic: what could not be released by a call is released by the end of the
//! tracing thread. A signal that arrived meanwhile is delivered on release. A process that was
//! stopped by a signal stays stopped by it.
//!
//! What is missing on purpose: reading and writing memory (/proc/PID/mem does it). System calls
//! that a signal would interrupt may be interrupted here as well: `epoll_wait` returns EINTR, as
//! after SIGCONT or under any debugger.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Between two questions whether a thread has stopped.
const PAUSE_NS: u64 = 20_000;
/// A process that starts threads without end is given up after as many rounds.
const ROUNDS: usize = 64;

/// Runs `work` while every thread of process `pid` is stopped; its result, and for how long the
/// process was stopped. Errors: it cannot be traced (EPERM: no right, or another tracer), a thread
/// did not stop within `limit` (TimedOut, with the thread's state), the process ended (ESRCH).
/// `work` was not run then.
pub fn while_stopped<T: Send>(
    pid: u32,
    limit: Duration,
    work: impl FnOnce() -> T + Send,
) -> io::Result<(T, Duration)> {
    std::thread::scope(|scope| {
        let tracer = std::thread::Builder::new().name("dashcam-tracer".to_owned());
        let running = tracer.spawn_scoped(scope, move || {
            let begin = Instant::now();
            let mut stopped = Stopped::new(pid);
            stopped.stop_all(begin + limit)?;
            let result = work();
            drop(stopped);
            Ok((result, begin.elapsed()))
        })?;
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The threads of a process that the calling thread has seized.
struct Stopped {
    pid: u32,
    /// By number; the state of each.
    threads: BTreeMap<i32, State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Interrupted, and not seen stopped yet.
    Interrupted,
    /// Stopped; this signal was about to be delivered, 0 for none.
    Stopped(i32),
}

impl Stopped {
    fn new(pid: u32) -> Stopped {
        Stopped { pid, threads: BTreeMap::new() }
    }

    /// Stops all threads, also those that are started meanwhile.
    fn stop_all(&mut self, until: Instant) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let before = self.threads.len();
            for tid in threads_of(self.pid)? {
                self.seize(tid)?;
            }
            if self.threads.is_empty() {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            // All that there were have stopped, and there is no other: nothing can start one.
            if self.threads.len() == before && self.all_stopped() {
                return Ok(());
            }
            self.wait_for_all(until)?;
        }
        Err(timed_out(format!("process {} starts threads faster than they are stopped", self.pid)))
    }

    fn all_stopped(&self) -> bool {
        self.threads.values().all(|state| matches!(state, State::Stopped(_)))
    }

    fn seize(&mut self, tid: i32) -> io::Result<()> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        match seize(tid).and_then(|()| interrupt(tid)) {
            Ok(()) => drop(self.threads.insert(tid, State::Interrupted)),
            // It has ended, or is about to: it runs no more code of the program.
            Err(error) if has_ended(self.pid, tid, &error) => (),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn wait_for_all(&mut self, until: Instant) -> io::Result<()> {
        loop {
            let running = self.threads.iter().filter(|(_, state)| **state == State::Interrupted);
            let running: Vec<i32> = running.map(|(tid, _)| *tid).collect();
            let Some(first) = running.first() else { return Ok(()) };
            for tid in &running {
                match wait(*tid) {
                    Waited::Running => (),
                    Waited::Stopped(signal) => {
                        self.threads.insert(*tid, State::Stopped(signal));
                    }
                    Waited::Gone => drop(self.threads.remove(tid)),
                }
            }
            if Instant::now() > until {
                let state = state_of(self.pid, *first)
                    .map_or_else(String::new, |s| format!(" (state {s})"));
                return Err(timed_out(format!("thread {first}{state} of process {}", self.pid)));
            }
            crate::thread::pause(PAUSE_NS);
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for (tid, state) in &self.threads {
            // The others are released by the end of this thread.
            if let State::Stopped(signal) = state {
                release(*tid, *signal);
            }
        }
    }
}

fn timed_out(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn threads_of(pid: u32) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}

/// Whether a thread that cannot be seized has ended: it is gone, or a zombie (EPERM).
fn has_ended(pid: u32, tid: i32, error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
        || matches!(state_of(pid, tid), None | Some('Z' | 'X'))
}

/// A thread's state, as /proc has it. None: it is gone.
fn state_of(pid: u32, tid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

fn seize(tid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_SEIZE takes no address; without options (0) nothing else changes.
    checked(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0usize, 0usize) })
}

fn interrupt(tid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_INTERRUPT takes neither address nor data.
    checked(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0usize, 0usize) })
}

/// Lets a stopped thread run on, with the signal that it was about to get.
fn release(tid: i32, signal: i32) {
    // SAFETY: PTRACE_DETACH takes a signal's number as data, and no address. It fails when the
    // thread has been killed meanwhile, which leaves nothing to release.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0usize, signal as usize) };
}

fn checked(result: libc::c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

enum Waited {
    Running,
    Stopped(i32),
    Gone,
}

fn wait(tid: i32) -> Waited {
    let mut status = 0;
    // SAFETY: waits for a thread that is traced by this one; `status` is ours.
    let found = unsafe { libc::waitpid(tid, &mut status, libc::__WALL | libc::WNOHANG) };
    match found {
        0 => Waited::Running,
        _ if found == tid && libc::WIFSTOPPED(status) => Waited::Stopped(pending_signal(status)),
        _ => Waited::Gone,
    }
}

/// The signal that a stopped thread was about to get. A stop by `interrupt` and a stop of the whole
/// process by a signal have an event's number above the signal's, and none to deliver.
fn pending_signal(status: i32) -> i32 {
    match status >> 16 {
        0 => libc::WSTOPSIG(status),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_by_interrupt_delivers_no_signal_and_an_arriving_signal_is_delivered() {
        let by_interrupt = (libc::PTRACE_EVENT_STOP << 16) | (libc::SIGTRAP << 8) | 0x7f;
        assert_eq!(pending_signal(by_interrupt), 0);
        assert_eq!(pending_signal((libc::SIGUSR1 << 8) | 0x7f), libc::SIGUSR1);
    }
}
