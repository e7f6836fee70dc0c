//! The process that holds the lock of a file.
//!
//! How it works: the kernel lists all file locks of the host in /proc/locks, by device and inode of
//! the file and by the process that took them; the name of that process is in its /proc/PID/comm.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | /proc/locks | process, by device and inode | any kernel; processes of the own pid namespace |
//! | /proc/PID/comm, cmdline | name; of an interpreter the script, too | hidden by hidepid |
//!
//! What it promises: nothing blocks; at most `MOST_BYTES` of the list are read, and it is read once
//! in `BETWEEN` at most: that takes 20 us and some 0.3 us a lock. What it does not: an answer for
//! open file description locks (the kernel keeps no process for them), and for file systems that
//! show another device to their users than to the kernel (btrfs, overlayfs on some kernels).

use std::cell::RefCell;
use std::io::Read;
use std::time::{Duration, Instant};

/// Between two reads of the list.
const BETWEEN: Duration = Duration::from_millis(50);
/// Of the list; about 2,000 locks.
const MOST_BYTES: u64 = 128 * 1024;

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// Its name: `spooler`, `python sorter.py`; "" where it does not show.
    pub name: String,
}

/// A file as the list names it: device (major, minor), inode.
type File = (u32, u32, u64);

#[derive(Default)]
struct Asked {
    at: Option<Instant>,
    list: String,
}

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::default();
}

/// The holder of a lock of the file behind `fd`, of the sort that the system call `nr` waits for:
/// `flock`'s, or those of `fcntl` and `lockf`. None: the kernel shows none. Cost: see above, and a
/// read of comm.
pub fn holder(fd: i32, nr: i64) -> Option<Holder> {
    let (file, flock) = (file_of(fd)?, nr == libc::SYS_flock);
    let pid = ASKED.with_borrow_mut(|asked| {
        let now = Instant::now();
        if asked.at.is_none_or(|at| now.duration_since(at) >= BETWEEN) {
            asked.at = Some(now);
            asked.list.clear();
            let list = std::fs::File::open("/proc/locks").ok()?;
            list.take(MOST_BYTES).read_to_string(&mut asked.list).ok()?;
            // A line that was cut could name another file.
            asked.list.truncate(asked.list.rfind('\n').unwrap_or(0));
        }
        holder_in(&asked.list, file, flock)
    })?;
    Some(Holder { pid, name: crate::processes::name(pid) })
}

fn file_of(fd: i32) -> Option<File> {
    let stat = crate::fds::stat(fd)?;
    Some((libc::major(stat.st_dev), libc::minor(stat.st_dev), stat.st_ino))
}

/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF` has it; `1: -> FLOCK ...` waits for it.
fn holder_in(list: &str, file: File, flock: bool) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let sort = words.next()?;
        if sort != if flock { "FLOCK" } else { "POSIX" } {
            return None;
        }
        let pid = words.nth(2)?.parse().ok().filter(|pid| *pid > 0)?;
        let mut parts = words.next()?.split(':');
        let major = u32::from_str_radix(parts.next()?, 16).ok()?;
        let minor = u32::from_str_radix(parts.next()?, 16).ok()?;
        let inode = parts.next()?.parse().ok()?;
        ((major, minor, inode) == file).then_some(pid)
    })
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    const LIST: &str = "1: POSIX  ADVISORY  WRITE 12 fe:01:77 0 EOF\n\
                        2: FLOCK  ADVISORY  WRITE 4711 fe:01:77 0 EOF\n\
                        2: -> FLOCK  ADVISORY  WRITE 4712 fe:01:77 0 EOF\n\
                        3: OFDLCK ADVISORY  WRITE -1 fe:01:78 0 EOF\n\
                        4: FLOCK  ADVISORY  WRITE 0 00:2f:79 0 EOF\n\
                        5: LEASE  ACTIVE    READ\n6:\n\n7: FLOCK x y z";

    #[test]
    fn the_list_has_holders_and_no_waiters() {
        assert_eq!(holder_in(LIST, (0xfe, 1, 77), true), Some(4711));
        assert_eq!(holder_in(LIST, (0xfe, 1, 77), false), Some(12));
        assert_eq!(holder_in(LIST, (0xfe, 1, 78), false), None);
        // Of another pid namespace.
        assert_eq!(holder_in(LIST, (0, 0x2f, 79), true), None);
    }

    #[test]
    fn a_lock_of_our_own_is_ours() {
        let name = format!("dashcam-locked-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = std::fs::File::create(&path).expect("a temporary file");
        assert_eq!(holder(file.as_raw_fd(), libc::SYS_flock), None);
        // SAFETY: a lock on a descriptor of ours.
        assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
        std::thread::sleep(2 * BETWEEN);
        let found = holder(file.as_raw_fd(), libc::SYS_flock);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(found.map(|holder| holder.pid), Some(std::process::id()));
        assert_eq!(holder(-1, libc::SYS_flock), None);
    }
}
