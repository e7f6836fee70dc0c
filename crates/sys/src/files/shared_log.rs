//! A file of lines that several processes append to, and that does not grow for ever.
//!
//! How it works: a line is one write to the end of the file (`O_APPEND`), which the kernel does
//! under the file's own lock, so that lines do not mix. A process that finds the file full renames
//! it to `NAME.1`, replacing the one before. For that it takes the file's `flock`, without waiting,
//! and checks whether the name still is that file's: of several that find it full at once, one
//! renames it, once.
//!
//! A new file may be read by those who may read its folder (`readers`).
//!
//! What it promises: nothing waits, neither for a lock, nor for the reader of a pipe that was put
//! in the file's place. Only a regular file is written to, and no link is followed. Either file has
//! the limit and a line for each process at most; twice the limit while another process keeps the
//! lock. What it does not: a line that a full disk cut short stays so, and the next one follows it
//! (the error reports that); on NFS lines of two hosts may be written to the same place. A line of
//! a process that opened the file two limits ago is lost.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::readers;

/// Another process may fill the new file at once.
const TRIES: usize = 3;

/// Appends `line` and its end to the file at `path`, which is made if needed; a file of
/// `most_bytes` or more is renamed first. Allocates. Errors: it cannot be opened, written to, or
/// renamed, or is no regular file; nothing was appended then, or a part of the line.
pub fn append(path: &Path, line: &str, most_bytes: u64) -> io::Result<()> {
    for _ in 0..TRIES {
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        let fits = bytes < most_bytes || !put_away(&file, path)? && bytes < 2 * most_bytes;
        if fits {
            return put(&file, line);
        }
    }
    let why = format!("found it full and locked by another, wanted less than {most_bytes} bytes");
    Err(io::Error::new(io::ErrorKind::WouldBlock, why))
}

fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let mode = readers::file_mode(path.parent().unwrap_or(Path::new(".")));
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(mode).custom_flags(flags);
    let opened = options.open(path);
    let wrong = |found| {
        let text = format!("it is {found}, wanted a file or a new name");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    match opened {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(wrong("a pipe or a device")),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(wrong("a link")),
        Err(error) => Err(error),
    }
}

fn put(mut file: &File, line: &str) -> io::Result<()> {
    let line = [line.as_bytes(), b"\n"].concat();
    loop {
        match file.write(&line) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
            Ok(put) if put == line.len() => return Ok(()),
            Ok(put) => {
                let why = format!("wrote {put} bytes of a line of {}", line.len());
                return Err(io::Error::new(io::ErrorKind::WriteZero, why));
            }
        }
    }
}

/// Renames the file to `NAME.1`. True: it has that name, or had it already; false: another process
/// has the lock and is renaming it.
fn put_away(file: &File, path: &Path) -> io::Result<bool> {
    if flock(file, libc::LOCK_EX | libc::LOCK_NB).is_err() {
        return Ok(false);
    }
    let renamed = put_away_locked(file, path);
    // A child that was forked meanwhile has the file too, and would keep the lock.
    let _ = flock(file, libc::LOCK_UN);
    renamed.map(|()| true)
}

fn put_away_locked(file: &File, path: &Path) -> io::Result<()> {
    let own = file.metadata()?;
    let named = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        named => named?,
    };
    if (named.dev(), named.ino()) != (own.dev(), own.ino()) {
        return Ok(());
    }
    let mut old: OsString = path.into();
    old.push(".1");
    fs::rename(path, old)
}

fn flock(file: &File, how: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn folder(test: &str) -> PathBuf {
        let name = format!("dashcam-shared-log-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("readable")
    }

    #[test]
    fn a_full_file_is_put_away_in_place_of_the_one_before() {
        let folder = folder("full");
        let (path, old) = (folder.join("log"), folder.join("log.1"));
        for line in ["one", "two", "three"] {
            append(&path, line, 8).expect("written");
        }
        assert_eq!((read(&path), read(&old)), ("three\n".into(), "one\ntwo\n".into()));
        for line in ["four", "five"] {
            append(&path, line, 8).expect("written");
        }
        assert_eq!((read(&path), read(&old)), ("five\n".into(), "three\nfour\n".into()));
        fs::remove_dir_all(&folder).expect("ours");
    }

    /// Each line is there once, whole, in one of the two files: a file that has just replaced a
    /// full one is not renamed.
    #[test]
    fn lines_of_several_processes_are_whole_and_none_is_lost() {
        const EACH: usize = 400;
        let folder = folder("several");
        let (path, old) = (folder.join("log"), folder.join("log.1"));
        // Full once on the way, so that nothing is thrown away.
        let wanted = |process: usize, n: usize| format!("{process} {n} {}", "x".repeat(n % 50));
        let bytes: usize =
            (0..4).flat_map(|p| (0..EACH).map(move |n| wanted(p, n).len() + 1)).sum();
        let most = bytes as u64 * 3 / 5;
        let write = |process| {
            (0..EACH).for_each(|n| append(&path, &wanted(process, n), most).expect("written"));
            0
        };
        let children: Vec<i32> = (0..4).map(|p| testkit::start_child(|| write(p))).collect();
        for child in children {
            assert_eq!(testkit::wait_for_child(child), 0);
        }
        let (first, second) = (read(&old), read(&path));
        let mut found: Vec<&str> = first.lines().chain(second.lines()).collect();
        found.sort_unstable();
        let mut all: Vec<String> =
            (0..4).flat_map(|p| (0..EACH).map(move |n| wanted(p, n))).collect();
        all.sort_unstable();
        assert_eq!(found, all);
        assert!(first.len() as u64 >= most, "put away when it was full");
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn what_is_no_file_is_left_alone_and_nothing_waits() {
        let folder = folder("no-file");
        let (path, other) = (folder.join("log"), folder.join("other"));
        let refused = || append(&path, "line", 8).expect_err("refused").to_string();
        fs::write(&other, "mine").expect("written");
        symlink(&other, &path).expect("a link");
        assert_eq!(refused(), "it is a link, wanted a file or a new name");
        assert_eq!(read(&other), "mine");
        fs::remove_file(&path).expect("ours");
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: a C string that lives until the call is over.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        // Without a reader, and with one.
        refused();
        let flags = libc::O_NONBLOCK;
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).expect("opens");
        assert_eq!(refused(), "it is a pipe or a device, wanted a file or a new name");
        drop(reader);
        fs::remove_file(&path).expect("ours");
        fs::create_dir(&path).expect("a folder");
        refused();
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn one_that_cannot_be_put_away_does_not_grow() {
        let folder = folder("stuck");
        let (path, old) = (folder.join("log"), folder.join("log.1"));
        fs::create_dir(&old).expect("a folder");
        append(&path, "12345678", 8).expect("written");
        append(&path, "more", 8).expect_err("full, and its other name is a folder's");
        fs::remove_dir(&old).expect("ours");
        // While another has the lock, which may be one that is renaming it, twice as much.
        let other = File::open(&path).expect("opens");
        flock(&other, libc::LOCK_EX).expect("free");
        append(&path, "12345678", 8).expect("written");
        append(&path, "more", 8).expect_err("twice as much as it may have");
        assert_eq!(read(&path), "12345678\n12345678\n");
        drop(other);
        append(&path, "more", 8).expect("written");
        assert_eq!((read(&path), read(&old)), ("more\n".into(), "12345678\n12345678\n".into()));
        fs::remove_dir_all(&folder).expect("ours");
    }
}
