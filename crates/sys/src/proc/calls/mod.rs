//! The meaning of a blocked system call: the kind of wait, its target, its time limit.
//!
//! How it works: the call's number and arguments come from /proc/self/task/TID/syscall (see
//! `task`). Arguments that are pointers (timeouts, descriptor sets, futex vectors) are followed
//! through the guarded reader, which cannot fault. The meaning of `read`, `write` and the like
//! depends on the descriptor's kind, from one `fstat`. Numbers are those of x86-64 or aarch64,
//! whichever this was compiled for.
//!
//! | call | kind | target |
//! | --- | --- | --- |
//! | nanosleep, clock_nanosleep; poll, select of nothing | Sleep | length |
//! | futex (wait, lock), futex_waitv, futex_wait | Futex | address, length |
//! | poll, select | Poll, or Connect | the first three descriptors, how many, length |
//! | epoll_wait | Poll | the instance (`crate::epoll` lists its members), length |
//! | read, write, recv, send, sendfile, splice | by what the descriptor is | descriptor |
//! | sendto, sendmsg, sendmmsg | SocketWrite | the address they name, if they do (`sent_to`) |
//! | connect, accept | Connect, Accept | descriptor; the address (`connect_target`) |
//! | fsync, flock, F_SETLKW | FileSync, FileLock | descriptor |
//! | open, stat, unlink, rename, ... | FileOpen | the path they name (`path`) |
//! | wait4, waitid, vfork | ChildWait | |
//! | sched_yield; mmap, munmap, madvise, brk, ... | Yield; Memory | |
//!
//! What it promises: never a panic, a fault or a blocked caller, whatever the arguments are; no
//! allocation; 0.1-1 us. What it does not: the thread may have gone on since its call was read, so
//! memory behind its pointers may be stale. A call without a row here is `Other` with its number,
//! some with a name (`name`).

mod names;
mod nr;
mod poll;
mod timeout;
mod wait;

use crate::fds::{self, Sort};
use crate::mem::Reader;
use crate::task::TaskCall;
pub use names::{name, path};
pub use poll::polls;
use timeout::{length, until, Timeout};
pub use wait::{Polled, Wait, WaitKind, NAMED, OUTSIDE_CALL, RUNNING};

/// What the thread that made `call` waits for. `mem` must read this process.
pub fn meaning(call: &TaskCall, mem: &Reader) -> Wait {
    let (nr, args) = match call {
        TaskCall::Running => return Wait::of(WaitKind::Other(RUNNING)),
        TaskCall::InKernel { .. } => return Wait::of(WaitKind::Other(OUTSIDE_CALL)),
        TaskCall::Syscall { nr, args, .. } => (*nr, args),
    };
    sleeping(nr, args, mem)
        .or_else(|| locking(nr, args, mem))
        .or_else(|| poll::meaning(nr, args, mem))
        .or_else(|| streaming(nr, args))
        .or_else(|| filing(nr, args))
        .or_else(|| others(nr, args, mem))
        .unwrap_or(Wait::of(WaitKind::Other(nr)))
}

/// Where a blocked `connect` wants to go: "127.0.0.1:5432". None for other calls and when its
/// argument cannot be read. Allocates.
pub fn connect_target(call: &TaskCall, mem: &Reader) -> Option<String> {
    match call {
        TaskCall::Syscall { nr: libc::SYS_connect, args, .. } => address(args[1], args[2], mem),
        _ => None,
    }
}

/// The address that a blocked `sendto`, `sendmsg` or `sendmmsg` names (of several messages the
/// first does). None for other calls, without an address, and when it cannot be read. Allocates.
pub fn sent_to(call: &TaskCall, mem: &Reader) -> Option<String> {
    let TaskCall::Syscall { nr, args, .. } = call else {
        return None;
    };
    match *nr {
        libc::SYS_sendto => address(args[4], args[5], mem),
        // struct msghdr begins with the address and its length (32 bits); struct mmsghdr with a
        // msghdr.
        libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            let mut head = [0u64; 2];
            for (word, at) in head.iter_mut().zip([0, 8]) {
                *word = mem.word((args[1] as usize).checked_add(at)?).ok()? as u64;
            }
            address(head[0], head[1] & u64::from(u32::MAX), mem)
        }
        _ => None,
    }
}

/// A `struct sockaddr` of the program's in words.
fn address(at: u64, length: u64, mem: &Reader) -> Option<String> {
    /// Longest address there is: a unix path.
    const LONGEST: usize = 110;
    let mut buf = [0u8; LONGEST];
    let bytes = buf.get_mut(..(length as usize).min(LONGEST))?;
    if at == 0 || bytes.len() < size_of::<libc::sa_family_t>() {
        return None;
    }
    mem.read(at as usize, bytes).ok()?;
    fds::in_words(bytes).text.filter(|text| !text.is_empty())
}

/// The one child process that a blocked call waits for. None for other calls, and for calls that
/// wait for any child.
pub fn child_waited_for(call: &TaskCall) -> Option<u32> {
    let TaskCall::Syscall { nr, args, .. } = call else {
        return None;
    };
    let pid = match *nr {
        libc::SYS_wait4 => args[0] as i32,
        libc::SYS_waitid if args[0] == u64::from(libc::P_PID) => args[1] as i32,
        _ => return None,
    };
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

fn sleeping(nr: i64, args: &[u64; 6], mem: &Reader) -> Option<Wait> {
    let timeout = match nr {
        libc::SYS_nanosleep => length(args[0], mem),
        libc::SYS_clock_nanosleep if args[1] & libc::TIMER_ABSTIME as u64 != 0 => {
            until(args[2], args[0] as i32, mem)
        }
        libc::SYS_clock_nanosleep => length(args[2], mem),
        _ => return None,
    };
    Some(Wait::of(WaitKind::Sleep).limited(timeout))
}

fn locking(nr: i64, args: &[u64; 6], mem: &Reader) -> Option<Wait> {
    let (futex, timeout) = match nr {
        libc::SYS_futex => (Some(args[0]), futex_timeout(args, mem)),
        libc::SYS_futex_waitv => {
            // struct futex_waitv: value, address, flags; 24 bytes.
            let first = (args[0] as usize).checked_add(8);
            let address = first.and_then(|at| mem.word(at).ok());
            (address.map(|a| a as u64), until(args[3], args[4] as i32, mem))
        }
        nr::FUTEX_WAIT => (Some(args[0]), until(args[4], args[5] as i32, mem)),
        _ => return None,
    };
    let wait = Wait { futex, ..Wait::of(WaitKind::Futex) };
    Some(wait.limited(timeout))
}

/// FUTEX_LOCK_PI2 (5.14), not in the libc crate.
const LOCK_PI2: i32 = 13;

fn futex_command(args: &[u64; 6]) -> i32 {
    args[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

/// Whether a call waits for a futex that other processes may wait for, too.
pub fn is_shared_futex(call: &TaskCall) -> bool {
    let TaskCall::Syscall { nr: libc::SYS_futex, args, .. } = call else { return false };
    args[1] as i32 & libc::FUTEX_PRIVATE_FLAG == 0
}

/// Whether a call waits for a lock whose word contains its owner's thread id: the kernel requires
/// that.
pub fn is_priority_inheriting(call: &TaskCall) -> bool {
    let TaskCall::Syscall { nr: libc::SYS_futex, args, .. } = call else { return false };
    matches!(futex_command(args), libc::FUTEX_LOCK_PI | LOCK_PI2)
}

fn futex_timeout(args: &[u64; 6], mem: &Reader) -> Timeout {
    let op = args[1] as i32;
    let command = futex_command(args);
    let clock = match op & libc::FUTEX_CLOCK_REALTIME {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    };
    match command {
        libc::FUTEX_WAIT => length(args[3], mem),
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAIT_REQUEUE_PI | LOCK_PI2 => {
            until(args[3], clock, mem)
        }
        libc::FUTEX_LOCK_PI => until(args[3], libc::CLOCK_REALTIME, mem),
        _ => Timeout::None,
    }
}

fn streaming(nr: i64, args: &[u64; 6]) -> Option<Wait> {
    let first = args[0] as i32;
    Some(match nr {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2 => reading(nr, first),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_sendfile => writing(nr, first),
        libc::SYS_splice | libc::SYS_copy_file_range => writing(nr, args[2] as i32),
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg => {
            Wait::on(WaitKind::SocketRead, first)
        }
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            Wait::on(WaitKind::SocketWrite, first)
        }
        libc::SYS_connect => Wait::on(WaitKind::Connect, first),
        libc::SYS_accept | libc::SYS_accept4 => Wait::on(WaitKind::Accept, first),
        _ => return None,
    })
}

fn reading(nr: i64, fd: i32) -> Wait {
    let kind = match fds::sort(fd) {
        Some(Sort::Socket) => WaitKind::SocketRead,
        Some(Sort::Pipe) => WaitKind::PipeRead,
        Some(Sort::File) => WaitKind::FileRead,
        // A terminal, eventfd, timerfd, device: there is no word for them here.
        _ => WaitKind::Other(nr),
    };
    Wait::on(kind, fd)
}

fn writing(nr: i64, fd: i32) -> Wait {
    let kind = match fds::sort(fd) {
        Some(Sort::Socket) => WaitKind::SocketWrite,
        Some(Sort::Pipe) => WaitKind::PipeWrite,
        Some(Sort::File) => WaitKind::FileWrite,
        Some(Sort::Tty) => WaitKind::TtyWrite,
        _ => WaitKind::Other(nr),
    };
    Wait::on(kind, fd)
}

fn filing(nr: i64, args: &[u64; 6]) -> Option<Wait> {
    let first = args[0] as i32;
    Some(match nr {
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range | libc::SYS_syncfs => {
            Wait::on(WaitKind::FileSync, first)
        }
        libc::SYS_sync | libc::SYS_msync => Wait::of(WaitKind::FileSync),
        libc::SYS_fallocate | libc::SYS_ftruncate => Wait::on(WaitKind::FileWrite, first),
        nr::GETDENTS | libc::SYS_getdents64 | libc::SYS_fstat | libc::SYS_fchmod => {
            Wait::on(WaitKind::FileOpen, first)
        }
        nr if names::has_path(nr) => Wait::of(WaitKind::FileOpen),
        libc::SYS_flock => Wait::on(WaitKind::FileLock, first),
        libc::SYS_fcntl if matches!(args[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) => {
            Wait::on(WaitKind::FileLock, first)
        }
        _ => return None,
    })
}

fn others(nr: i64, args: &[u64; 6], mem: &Reader) -> Option<Wait> {
    let timeout = match nr {
        libc::SYS_rt_sigtimedwait => length(args[2], mem),
        libc::SYS_semtimedop => length(args[3], mem),
        libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => {
            until(args[4], libc::CLOCK_REALTIME, mem)
        }
        _ => Timeout::None,
    };
    if timeout != Timeout::None {
        return Some(Wait::of(WaitKind::Other(nr)).limited(timeout));
    }
    let kind = match nr {
        libc::SYS_wait4 | libc::SYS_waitid | nr::VFORK => WaitKind::ChildWait,
        // The caller of a plain fork or thread start does not wait; that of a vfork does.
        libc::SYS_clone if args[0] & libc::CLONE_VFORK as u64 != 0 => WaitKind::ChildWait,
        libc::SYS_clone3 => {
            let flags = mem.word(args[0] as usize).ok()?;
            (flags & libc::CLONE_VFORK as usize != 0).then_some(WaitKind::ChildWait)?
        }
        libc::SYS_sched_yield => WaitKind::Yield,
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mremap | libc::SYS_mprotect => {
            WaitKind::Memory
        }
        libc::SYS_brk | libc::SYS_madvise | libc::SYS_mlock | libc::SYS_munlock => WaitKind::Memory,
        libc::SYS_ioctl | libc::SYS_close | libc::SYS_shutdown => {
            return Some(Wait::on(WaitKind::Other(nr), args[0] as i32));
        }
        _ => return None,
    };
    Some(Wait::of(kind))
}

#[cfg(test)]
mod tests;
