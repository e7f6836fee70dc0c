//! A command beside the host that the host never meets: no child of its own, no SIGCHLD, no zombie.
//!
//! How it works: a helper process starts the command and ends at once, so the command is passed on
//! to init. The helper itself has no signal for its end (`clone` with exit signal 0): `wait` and
//! `waitpid(-1)` of the host do not report it, and we wait for its number with `__WCLONE`. Both
//! share our memory until the command is executed, while the calling thread is suspended
//! (`CLONE_VM | CLONE_VFORK`): no page of the host is copied, however large it is, and no fork hook
//! runs.
//!
//! ```text
//!   calling thread --clone, no signal--> helper --clone--> setsid, limits, exec ...   (init's)
//!   suspended <--------------------------- ends <- resumes at exec
//! ```
//!
//! What it promises: the command has its own session, default signal handlers, an empty mask, the
//! given environment, and no descriptor but those given. With `limits` it has the lowest priority
//! and `/` as its folder, and its CPU time, address space and time on the clock are limited before
//! it is executed; the kernel ends it, so nobody has to watch.
//! What it does not: a host that is init of its container, or a subreaper, gets the command as its
//! child. `Running::reap` then waits for it, and for nothing else.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_char, c_int, c_void};

use crate::ours::Fd;

/// What a command may use at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// CPU time, s.
    pub cpu_s: u64,
    /// Address space, bytes.
    pub address_bytes: u64,
    /// Time on the clock, s.
    pub clock_s: u32,
}

/// A command.
#[derive(Debug)]
pub struct Detached<'a> {
    /// Its file.
    pub program: &'a Path,
    /// What follows its name.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// None: /dev/null.
    pub stdin: Option<OwnedFd>,
    /// None: /dev/null.
    pub stdout: Option<OwnedFd>,
    /// None: /dev/null.
    pub stderr: Option<OwnedFd>,
    /// Number 3; none if there is none.
    pub third: Option<OwnedFd>,
    /// What it may use. None: as much as the host, with the host's priority and folder.
    pub limits: Option<Limits>,
}

/// A command that was started.
#[derive(Debug)]
pub struct Running {
    pid: c_int,
    is_our_child: bool,
}

/// Bytes of each of the two stacks; no function below keeps much there.
const STACK: usize = 64 * 1024;
/// Without `close_range` (before Linux 5.9) descriptors up to this number are closed.
const LAST_FD: c_int = 65_536;
const LAST_SIGNAL: c_int = 64;
/// The number of the descriptor behind the streams.
const THIRD: RawFd = 3;
/// The lowest priority.
const NICEST: c_int = 19;
/// The exit code of shells for a command that cannot be executed; nobody reads it.
const NOT_EXECUTED: c_int = 127;
const SYS_CLOSE_RANGE: libc::c_long = 436;

/// What the helper and the command-to-be read, and where they answer. Written by one process at a
/// time: each starter is suspended until its child has ended or executed.
struct Shared {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    /// Numbers 0 to 3; the last may be -1.
    streams: [RawFd; 4],
    limits: Option<Limits>,
    stack: *mut c_void,
    pid: c_int,
    errno: c_int,
}

/// Starts the command. Errors: it cannot be executed, or the kernel refuses a process; nothing is
/// left of it then. Allocates, and waits until it is executed.
pub fn start(command: Detached<'_>) -> io::Result<Running> {
    let null = OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null")?);
    let stream = |fd: &Option<OwnedFd>| above_streams(fd.as_ref().unwrap_or(&null));
    let third = command.third.as_ref().map(above_streams).transpose()?;
    let streams = [stream(&command.stdin)?, stream(&command.stdout)?, stream(&command.stderr)?];
    let [stdin, stdout, stderr] = streams.each_ref().map(AsRawFd::as_raw_fd);
    let program = text(command.program.as_os_str())?;
    let arguments = command.arguments.iter().map(|word| text(word));
    let arguments: Vec<CString> =
        std::iter::once(Ok(program.clone())).chain(arguments).collect::<io::Result<_>>()?;
    let variable = |(name, value): &(OsString, OsString)| {
        text(OsStr::from_bytes(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
    };
    let environment: Vec<CString> =
        command.environment.iter().map(variable).collect::<io::Result<_>>()?;
    let (argument_list, variable_list) = (pointers(&arguments), pointers(&environment));
    let (mut helper_stack, mut stack) = (vec![0_u128; STACK / 16], vec![0_u128; STACK / 16]);
    let mut shared = Shared {
        program: program.as_ptr(),
        arguments: argument_list.as_ptr(),
        environment: variable_list.as_ptr(),
        streams: [stdin, stdout, stderr, third.as_ref().map_or(-1, AsRawFd::as_raw_fd)],
        limits: command.limits,
        stack: stack.as_mut_ptr_range().end.cast(),
        pid: 0,
        errno: 0,
    };
    run_helper(&mut shared, helper_stack.as_mut_ptr_range().end.cast())?;
    match shared.errno {
        0 => Ok(Running { pid: shared.pid, is_our_child: adopts() }),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

impl Running {
    /// Whether nothing is left to wait for. Never waits.
    pub fn reap(&mut self) -> bool {
        if self.is_our_child {
            let mut status = 0;
            // SAFETY: the number is of our own child, or of none; `status` is ours.
            let waited = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) };
            // An error: the host has waited for it.
            self.is_our_child = waited == 0;
        }
        !self.is_our_child
    }

    /// Its process id; of another process once it has ended.
    pub fn pid(&self) -> c_int {
        self.pid
    }
}

/// A pipe: its reading end, which never waits, and its writing end. Both close on exec.
pub fn pipe() -> io::Result<(Fd, OwnedFd)> {
    let (read, write) = ends()?;
    // SAFETY: sets a flag of a descriptor of ours.
    unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    Ok((read.into(), write))
}

fn ends() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers into `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new, so they have no other owner.
    let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((read, write))
}

/// The reading end of a pipe that holds these bytes and then ends. Errors: they are more than the
/// kernel keeps (4 KiB at least).
pub fn pipe_with(bytes: &[u8]) -> io::Result<OwnedFd> {
    let (read, write) = ends()?;
    // SAFETY: sets a flag of a descriptor of ours, and writes bytes that are readable. The reader
    // is open, so there is no SIGPIPE.
    let written = unsafe {
        libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
        libc::write(write.as_raw_fd(), bytes.as_ptr().cast(), bytes.len())
    };
    match usize::try_from(written) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(written) if written < bytes.len() => Err(io::ErrorKind::WriteZero.into()),
        Ok(_) => Ok(read),
    }
}

/// Whether orphans below this process become its children.
fn adopts() -> bool {
    let mut is_subreaper: c_int = 0;
    // SAFETY: the kernel writes one int into `is_subreaper`; getpid takes no memory.
    unsafe {
        libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut is_subreaper as *mut c_int);
        is_subreaper != 0 || libc::getpid() == 1
    }
}

fn text(word: &OsStr) -> io::Result<CString> {
    CString::new(word.as_bytes()).map_err(|_| {
        let why = format!("found a NUL in {word:?}, wanted text without");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// A copy with a number above those of the command, which it must survive being set.
fn above_streams(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicates an open descriptor of ours.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, THIRD + 1) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Runs the helper to its end. Signals are blocked meanwhile: a handler of the host's must not run
/// in a process that shares its memory.
fn run_helper(shared: &mut Shared, stack: *mut c_void) -> io::Result<()> {
    // SAFETY: the sets are ours. `stack` is the end of memory of ours, which nothing else uses.
    // `shared` and all it points to outlive the helper: this thread is suspended until it ends.
    // The thread's errno, which the helper shares, is read only behind that.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let no_signal = libc::CLONE_VM | libc::CLONE_VFORK;
        let helper = libc::clone(help, stack, no_signal, (&raw mut *shared).cast());
        let refused = io::Error::last_os_error();
        let mut status = 0;
        while helper > 0 && libc::waitpid(helper, &mut status, libc::__WCLONE) < 0 {
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break;
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        match helper {
            ..0 => Err(refused),
            _ => Ok(()),
        }
    }
}

/// The helper: starts the command, and waits for it only if it was not executed.
extern "C" fn help(shared: *mut c_void) -> c_int {
    let shared: *mut Shared = shared.cast();
    // SAFETY: `run_helper` passes a `Shared` that no other process touches meanwhile; its second
    // stack is used by nothing else. Only system calls and memory of ours are used: an allocation,
    // a lock or a signal handler here would change the host's memory from another process, and
    // without CLONE_VFORK both would use one stack.
    unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(become_command, (*shared).stack, flags, shared.cast());
        (*shared).pid = pid;
        if pid < 0 {
            (*shared).errno = *libc::__errno_location();
        } else if (*shared).errno != 0 {
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        libc::_exit(0)
    }
}

/// The command-to-be. Only system calls: the memory is the host's.
extern "C" fn become_command(shared: *mut c_void) -> c_int {
    let shared: *mut Shared = shared.cast();
    // SAFETY: as in `help`. Descriptors, signal handlers, limits and folder are this process's own
    // (no CLONE_FILES, CLONE_SIGHAND, CLONE_FS). The lists end with NULL.
    unsafe {
        libc::setsid();
        // All zeroes is the kernel's default action; the C library's call would refuse 32 and 33.
        // The kernel refuses KILL and STOP.
        let default = [0_u64; 8];
        for signal in 1..=LAST_SIGNAL {
            let none = std::ptr::null_mut::<c_void>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, 8_usize);
        }
        if let Some(limits) = (*shared).limits {
            libc::setpriority(libc::PRIO_PROCESS, 0, NICEST);
            limit(libc::RLIMIT_CPU, limits.cpu_s);
            limit(libc::RLIMIT_AS, limits.address_bytes);
            limit(libc::RLIMIT_CORE, 0);
            libc::chdir(c"/".as_ptr());
            // Remains when the command is executed.
            libc::alarm(limits.clock_s);
        }
        for (number, fd) in (*shared).streams.iter().enumerate() {
            // An error: there is no third.
            libc::dup2(*fd, number as c_int);
        }
        let first = if (*shared).streams[THIRD as usize] < 0 { THIRD } else { THIRD + 1 };
        if libc::syscall(SYS_CLOSE_RANGE, first, c_int::MAX, 0) != 0 {
            for fd in first..LAST_FD {
                libc::close(fd);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::execve((*shared).program, (*shared).arguments, (*shared).environment);
        (*shared).errno = *libc::__errno_location();
        libc::_exit(NOT_EXECUTED)
    }
}

/// Lowers a soft limit.
///
/// # Safety
/// For a process of its own only.
unsafe fn limit(what: libc::__rlimit_resource_t, most: u64) {
    // SAFETY: all zeroes is a valid rlimit, which is ours.
    unsafe {
        let mut now: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(what, &mut now) == 0 {
            now.rlim_cur = now.rlim_cur.min(most);
            libc::setrlimit(what, &now);
        }
    }
}

/// Reads what is in a pipe of `pipe`. Errors: WouldBlock if there is nothing yet; EBADF if its
/// number is the host's now.
pub fn read(pipe: &Fd, bytes: &mut [u8]) -> io::Result<usize> {
    pipe.check()?;
    // SAFETY: `bytes` is ours and writable for its whole length; the descriptor is open.
    let read = unsafe { libc::read(pipe.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
