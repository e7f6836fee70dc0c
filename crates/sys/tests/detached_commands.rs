//! A detached command: nothing of the host comes with it, and the host never meets it.
#![allow(clippy::expect_used)]

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sys::detached::{self, Detached, Limits, Running};
use testkit::wait_for;

static CHILD_SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: libc::c_int) {
    CHILD_SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// What a shell with this text writes to its stdout.
struct Shell {
    running: Running,
    output: sys::ours::Fd,
    written: String,
}

const LIMITS: Limits = Limits { cpu_s: 7, address_bytes: 1 << 30, clock_s: 60 };

fn command(text: &str) -> Detached<'static> {
    Detached {
        program: Path::new("/bin/sh"),
        arguments: vec!["-c".into(), text.into()],
        environment: vec![
            ("PATH".into(), OsString::from("/usr/bin:/bin")),
            ("DASHCAM_ENABLED".into(), OsString::from("off")),
        ],
        stdin: None,
        stdout: None,
        stderr: None,
        third: None,
        limits: Some(LIMITS),
    }
}

impl Shell {
    fn start(text: &str) -> Shell {
        let (output, end) = detached::pipe().expect("a pipe");
        let running = detached::start(Detached { stdout: Some(end), ..command(text) });
        Shell { running: running.expect("starts"), output, written: String::new() }
    }

    /// All that it writes, up to its end.
    fn output(&mut self) -> &str {
        wait_for("the end of the command's output", || self.is_at_end().then_some(()));
        &self.written
    }

    fn is_at_end(&mut self) -> bool {
        let mut part = [0; 4096];
        let fd = self.output.as_raw_fd();
        // SAFETY: `part` is ours and writable; the descriptor is open.
        let read = unsafe { libc::read(fd, part.as_mut_ptr().cast(), part.len()) };
        let read = usize::try_from(read).unwrap_or(usize::MAX);
        match part.get(..read) {
            Some(new) => self.written += &String::from_utf8_lossy(new),
            None => assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::WouldBlock),
        }
        read == 0
    }
}

/// What `waitpid(-1)` of the host finds.
fn any_child() -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    let found = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found)
}

fn has_no_child() -> bool {
    any_child().is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
}

#[test]
fn the_host_has_no_child_and_no_signal_of_it() {
    // SAFETY: the handler touches one atomic.
    unsafe { libc::signal(libc::SIGCHLD, count as *const () as usize) };
    let mut shell = Shell::start("echo begun; echo ended");
    assert!(has_no_child(), "while it runs: {:?}", any_child());
    assert_eq!(shell.output(), "begun\nended\n");
    assert!(shell.running.reap() && has_no_child());
    // A process that is nobody's leaves nothing: init has waited for it.
    let process = format!("/proc/{}/stat", shell.running.pid());
    let is_zombie = || std::fs::read_to_string(&process).is_ok_and(|stat| stat.contains(") Z "));
    wait_for("no zombie", || (!is_zombie()).then_some(()));
    assert_eq!(CHILD_SIGNALS.load(Ordering::Relaxed), 0);
}

#[test]
fn nothing_of_the_host_comes_with_it() {
    // Inheritable, as a server's socket is that was passed to it.
    let open = std::fs::File::open("/etc/passwd").expect("there");
    // SAFETY: clears a flag of a descriptor of ours; SIG_IGN is a valid disposition.
    unsafe {
        libc::fcntl(open.as_raw_fd(), libc::F_SETFD, 0);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    std::env::set_var("SECRET_OF_THE_HOST", "1");
    // The shell itself reads its mask: while it starts another program it blocks all signals.
    let mut shell = Shell::start(
        "ls -l /proc/$$/fd; env; while read -r name value; do case $name in SigIgn:|SigBlk:) \
         printf '%s\\t%s\\n' $name $value;; esac; done < /proc/$$/status; ulimit -t; ulimit -v; \
         cut -d' ' -f1,6,19 /proc/$$/stat; pwd",
    );
    let text = shell.output().to_owned();
    assert!(!text.contains("passwd") && !text.contains("SECRET_OF_THE_HOST"), "{text}");
    assert!(text.contains("SigIgn:\t0000000000000000"), "{text}");
    assert!(text.contains("SigBlk:\t0000000000000000"), "{text}");
    assert!(text.contains("\n7\n1048576\n"), "CPU in s, address space in KiB: {text}");
    let pid = shell.running.pid();
    assert!(text.contains(&format!("\n{pid} {pid} 19\n/\n")), "its session, nice: {text}");
}

#[test]
fn what_cannot_be_executed_is_an_error_and_leaves_nothing() {
    let missing = Detached { program: Path::new("/does/not/exist"), ..command("") };
    let error = detached::start(missing).expect_err("is not there");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let nul = Detached { arguments: vec![OsString::from("a\0b")], ..command("") };
    assert_eq!(detached::start(nul).expect_err("a NUL").kind(), io::ErrorKind::InvalidInput);
    assert!(has_no_child());
}

#[test]
fn without_limits_it_has_the_hosts_folder_and_priority_and_the_given_descriptors() {
    let (mut third, end) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let (mut output, out) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let stdin = detached::pipe_with(b"given\n").expect("a pipe");
    // No pipe of the shell's own: it would be among the descriptors for a moment.
    let text = "cat; pwd; ulimit -t; cut -d' ' -f19 /proc/$$/stat; ls /proc/$$/fd; echo over >&3";
    let _running = detached::start(Detached {
        stdin: Some(stdin),
        stdout: Some(out.into()),
        third: Some(end.into()),
        limits: None,
        ..command(text)
    })
    .expect("starts");
    let (mut said, mut over) = (String::new(), String::new());
    output.read_to_string(&mut said).expect("text");
    third.read_to_string(&mut over).expect("text");
    // SAFETY: asks for a number.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let folder = std::env::current_dir().expect("there is one");
    let limit = said.lines().nth(2).expect("a limit");
    assert_ne!(limit, "7");
    assert_eq!(said, format!("given\n{}\n{limit}\n{nice}\n0\n1\n2\n3\n", folder.display()));
    assert_eq!(over, "over\n");
}

/// As in a container whose init is the service.
#[test]
fn a_host_that_adopts_orphans_keeps_no_zombie() {
    let code = testkit::in_a_child(|| {
        // SAFETY: sets a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        let mut shell = Shell::start("echo done");
        assert_eq!(shell.output(), "done\n");
        wait_for("its end", || shell.running.reap().then_some(()));
        assert!(has_no_child());
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn the_time_on_the_clock_ends_it() {
    let limits = Some(Limits { clock_s: 1, ..LIMITS });
    let (mut reader, end) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let slow = Detached { limits, stdout: Some(end.into()), ..command("exec sleep 1000") };
    let _running = detached::start(slow).expect("starts");
    reader.set_read_timeout(Some(Duration::from_secs(200))).expect("set");
    assert_eq!(reader.read(&mut [0]).expect("its end"), 0);
}
