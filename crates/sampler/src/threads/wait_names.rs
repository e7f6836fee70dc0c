//! What a wait is recorded as, and what is waited for, in words: from the system call.

use format::wait::{WaitKind, CHILD, HELD_BY};
use sys::calls::{self, Wait, OUTSIDE_CALL, RUNNING};
use sys::fds::{FdInfo, FdKind};
use sys::task::TaskCall;

/// The path of a file whose lock is waited for, and its holder:
/// `PATH, held by process 4711 (name)`.
pub(crate) fn locked_file(call: &TaskCall, fd: i32) -> Option<String> {
    let path = sys::fds::describe(fd)?.text;
    let TaskCall::Syscall { nr, .. } = call else { return Some(path) };
    Some(match sys::file_locks::holder(fd, *nr) {
        Some(holder) if holder.pid == std::process::id() => format!("{path}{HELD_BY}this process"),
        Some(holder) if holder.name.is_empty() => {
            format!("{path}{HELD_BY}process {}", holder.pid)
        }
        Some(holder) => format!("{path}{HELD_BY}process {} ({})", holder.pid, holder.name),
        None => path,
    })
}

/// The child that is waited for, by its name: where any will do, the only one of the thread's.
pub(crate) fn child(call: &TaskCall, tid: u32) -> Option<String> {
    let only = || match sys::processes::children(tid)[..] {
        [pid] => Some(pid),
        _ => None,
    };
    let name = sys::processes::name(calls::child_waited_for(call).or_else(only)?);
    (!name.is_empty()).then(|| format!("{CHILD}{name}"))
}

/// The target of a send: for UDP and Unix sockets the address in the call, if it has one. Other
/// sockets ignore an address in the call.
pub(crate) fn receiver(info: &FdInfo, named: Option<String>) -> String {
    match (info.kind, named) {
        (FdKind::UdpSocket, Some(to)) => format!("udp {to}"),
        (FdKind::UnixSocket, Some(to)) => format!("unix {to}"),
        _ => info.text.clone(),
    }
}

/// The word for it in records.
pub(crate) fn wait_kind(wait: &Wait) -> WaitKind {
    use sys::calls::WaitKind as Seen;
    match wait.kind {
        Seen::Sleep => WaitKind::Sleep,
        Seen::Futex => WaitKind::Futex,
        Seen::SocketRead => WaitKind::SocketRead,
        Seen::SocketWrite => WaitKind::SocketWrite,
        Seen::Connect => WaitKind::Connect,
        Seen::Accept => WaitKind::Accept,
        Seen::Poll => WaitKind::Poll,
        Seen::FileRead => WaitKind::FileRead,
        Seen::FileWrite => WaitKind::FileWrite,
        Seen::FileSync => WaitKind::FileSync,
        Seen::FileOpen => WaitKind::FileOpen,
        Seen::PipeRead => WaitKind::PipeRead,
        Seen::PipeWrite => WaitKind::PipeWrite,
        Seen::TtyWrite => WaitKind::TtyWrite,
        Seen::FileLock => WaitKind::FileLock,
        Seen::ChildWait => WaitKind::ChildWait,
        Seen::Yield => WaitKind::Yield,
        Seen::Memory => WaitKind::Memory,
        Seen::Other(RUNNING) => WaitKind::Running,
        Seen::Other(OUTSIDE_CALL) => WaitKind::Fault,
        Seen::Other(_) => WaitKind::Other,
    }
}
