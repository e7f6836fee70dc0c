//! The path of a blocked call, and names for calls that are of no kind of wait.

use super::nr;
use crate::fds;
use crate::mem::Reader;
use crate::task::TaskCall;

/// Bytes of a path that are read; longer ones are cut.
const LONGEST: usize = 512;
/// A string is read this many bytes at a time; no such part reaches into another page.
const READ_BYTES: usize = 64;

/// The path that a blocked call looks up or changes: "/srv/data/7.json", relative to the working
/// directory as the program gave it, below a directory's descriptor with that one's path in front.
/// None for other calls, and when it cannot be read. Allocates.
pub fn path(call: &TaskCall, mem: &Reader) -> Option<String> {
    let TaskCall::Syscall { nr, args, .. } = call else { return None };
    let (folder, at) = place_of_path(*nr)?;
    let path = text(args[at], mem)?;
    let below = folder.map(|at| args[at] as i32).filter(|fd| *fd >= 0 && !path.starts_with('/'));
    let folder = below.and_then(fds::describe).map(|info| info.text);
    match folder {
        Some(folder) if path.is_empty() => Some(folder),
        Some(folder) => Some(format!("{folder}/{path}")),
        None => Some(path).filter(|path| !path.is_empty()),
    }
}

/// Whether a call looks up or changes a name on a disk.
pub(super) fn has_path(nr: i64) -> bool {
    place_of_path(nr).is_some()
}

/// Which arguments are the directory's descriptor, if the call takes one, and the path.
fn place_of_path(nr: i64) -> Option<(Option<usize>, usize)> {
    match nr {
        libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlinkat
        | libc::SYS_unlinkat
        | libc::SYS_renameat2
        | libc::SYS_mkdirat
        | libc::SYS_linkat
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_utimensat
        | nr::RENAMEAT => Some((Some(0), 1)),
        libc::SYS_symlinkat => Some((Some(1), 2)),
        nr::SYMLINK => Some((None, 1)),
        libc::SYS_truncate | libc::SYS_statfs | libc::SYS_chdir => Some((None, 0)),
        nr::OPEN | nr::CREAT | nr::STAT | nr::LSTAT | nr::ACCESS | nr::READLINK => Some((None, 0)),
        nr::UNLINK | nr::RENAME | nr::MKDIR | nr::RMDIR | nr::LINK | nr::CHMOD | nr::CHOWN => {
            Some((None, 0))
        }
        _ => None,
    }
}

/// A string of the program's, to its zero.
fn text(at: u64, mem: &Reader) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST {
        let from = (at as usize).checked_add(bytes.len())?;
        let mut part = [0u8; READ_BYTES];
        let part = &mut part[..READ_BYTES - from % READ_BYTES];
        mem.read(from, part).ok()?;
        let end = part.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() {
            break;
        }
    }
    bytes.truncate(LONGEST);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The name of a call that threads block in and that is of no kind: "semop". None for others.
pub fn name(nr: i64) -> Option<&'static str> {
    Some(match nr {
        nr::PAUSE => "pause",
        libc::SYS_rt_sigtimedwait => "sigtimedwait",
        libc::SYS_rt_sigsuspend => "sigsuspend",
        libc::SYS_semop => "semop",
        libc::SYS_semtimedop => "semtimedop",
        libc::SYS_msgrcv => "msgrcv",
        libc::SYS_msgsnd => "msgsnd",
        libc::SYS_mq_timedreceive => "mq_receive",
        libc::SYS_mq_timedsend => "mq_send",
        libc::SYS_io_getevents => "io_getevents",
        libc::SYS_io_uring_enter => "io_uring_enter",
        libc::SYS_getrandom => "getrandom",
        libc::SYS_ptrace => "ptrace",
        libc::SYS_mount => "mount",
        libc::SYS_umount2 => "umount",
        libc::SYS_unshare => "unshare",
        libc::SYS_setns => "setns",
        libc::SYS_membarrier => "membarrier",
        libc::SYS_execve => "execve",
        libc::SYS_clone | libc::SYS_clone3 => "clone",
        libc::SYS_close => "close",
        libc::SYS_shutdown => "shutdown",
        libc::SYS_perf_event_open => "perf_event_open",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn call(nr: i64, args: [u64; 6]) -> TaskCall {
        TaskCall::Syscall { nr, args, sp: 0, pc: 0 }
    }

    #[test]
    fn the_path_of_a_call_is_read_from_its_arguments() {
        let mem = Reader::new().expect("a reader");
        let long = "/srv/".to_owned() + &"x".repeat(3000);
        let cwd = libc::AT_FDCWD as u64;
        for given in ["/srv/data/7.json", "data/7.json", &"y".repeat(200), &long] {
            let text = CString::new(given).expect("no zero");
            let at = text.as_ptr() as u64;
            let cut = Some(given[..given.len().min(LONGEST)].to_owned());
            assert_eq!(path(&call(libc::SYS_openat, [cwd, at, 0, 0, 0, 0]), &mem), cut);
            assert_eq!(path(&call(libc::SYS_truncate, [at, 0, 0, 0, 0, 0]), &mem), cut);
            assert_eq!(path(&call(libc::SYS_fsync, [at, 0, 0, 0, 0, 0]), &mem), None);
        }
        assert_eq!(path(&call(libc::SYS_openat, [cwd, 8, 0, 0, 0, 0]), &mem), None);
        assert_eq!(path(&call(libc::SYS_openat, [cwd, u64::MAX, 0, 0, 0, 0]), &mem), None);
    }

    #[test]
    fn a_relative_path_follows_that_of_its_directory() {
        use std::os::fd::AsRawFd;
        let mem = Reader::new().expect("a reader");
        let folder = std::env::temp_dir().canonicalize().expect("a folder");
        let open = std::fs::File::open(&folder).expect("readable");
        let (fd, folder) = (open.as_raw_fd() as u64, folder.display().to_string());
        for (given, wanted) in
            [("a/b", format!("{folder}/a/b")), ("/a", "/a".to_owned()), ("", folder.clone())]
        {
            let text = CString::new(given).expect("no zero");
            let args = [fd, text.as_ptr() as u64, 0, 0, 0, 0];
            assert_eq!(path(&call(libc::SYS_statx, args), &mem), Some(wanted));
        }
    }
}
