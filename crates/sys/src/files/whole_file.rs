//! A file that exists whole or not at all.
//!
//! How it works: the bytes go into a file without a name in the folder of the target (`O_TMPFILE`,
//! Linux 3.11); `keep` gives it one and renames it over the target, `keep_new` gives it a name that
//! no file has. A process that is killed before leaves nothing behind, not even a file to clean up.
//! On file systems without such files (NFS, some overlays), and in processes without /proc, through
//! which the file gets its name, a named file beside the target is used, `.NAME.PID.RANDOM.part`.
//! It is removed when `WholeFile` is dropped; only a kill leaves it. The name is random, since
//! process ids are not unique: two containers may have the same one, and one folder.

use std::ffi::{CString, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file being written. Dropped without `keep`, it never existed.
pub struct WholeFile {
    file: File,
    target: PathBuf,
    beside: PathBuf,
    named: bool,
}

impl WholeFile {
    /// Begins a file that will be `target`. Nothing is there yet. Errors are those of opening a
    /// file in the target's folder; a target that is there and is no regular file is refused, since
    /// the rename would put a file in place of a device, a pipe or a socket.
    pub fn create(target: &Path) -> io::Result<WholeFile> {
        WholeFile::create_with(target, 0o666)
    }

    /// As `create`, with this mode, from which the umask takes.
    pub fn create_with(target: &Path, mode: u32) -> io::Result<WholeFile> {
        // Through a link to what it points at, as plain writing would go.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if let Some(found) = not_a_file(&target) {
            let wrong = format!("it is {found}, wanted a file or a new name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        }
        let mut folder = target.parent().unwrap_or(Path::new(".")).to_owned();
        if folder.as_os_str().is_empty() {
            folder = PathBuf::from(".");
        }
        let mut options = OpenOptions::new();
        let unnamed = options.write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(&folder);
        let beside = beside(&target, &folder);
        match unnamed {
            Ok(file) if fs::symlink_metadata(in_proc(&file)).is_ok() => {
                Ok(WholeFile { file, target, beside, named: false })
            }
            _ => WholeFile::named(target, beside, mode),
        }
    }

    fn named(target: PathBuf, beside: PathBuf, mode: u32) -> io::Result<WholeFile> {
        // Never an existing file, nor through a link that another process put there.
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(&beside)?;
        Ok(WholeFile { file, target, beside, named: true })
    }

    /// Gives the file its name; what had it before is replaced.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.flush()?;
        if !self.named {
            link(&self.file, &self.beside)?;
            self.named = true;
        }
        fs::rename(&self.beside, &self.target)?;
        self.named = false;
        Ok(())
    }

    /// Gives the file this name, in the folder it was created in. Its time is this moment, not that
    /// of its last byte: sorted by time, files are in the order in which they appeared. Error
    /// `AlreadyExists`: something has that name, and keeps it; try another.
    pub fn keep_new(&mut self, name: &Path) -> io::Result<()> {
        self.file.flush()?;
        // Where that cannot be set, the other is nearly as good.
        let _ = self.file.set_modified(std::time::SystemTime::now());
        if !self.named {
            return link(&self.file, name);
        }
        rename_new(&self.beside, name)?;
        self.named = false;
        Ok(())
    }
}

/// Renames, if nothing has the new name.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rename(from, to, libc::RENAME_NOREPLACE) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => (),
        done => return done,
    }
    // NFS and some file systems of users know no such renaming, but links.
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Neither: a process that takes the name between these two lines loses it.
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.named {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// What is at `path`, in words, if that is something else than a regular file or nothing.
fn not_a_file(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// A name beside the target that no other process uses.
pub(crate) fn beside(target: &Path, folder: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.{:016x}.part", std::process::id(), crate::random::number()));
    folder.join(name)
}

fn in_proc(file: &File) -> String {
    // The process's own folder has the host's descriptors (`ours`).
    let owner = if crate::ours::is_apart() { "thread-self" } else { "self" };
    format!("/proc/{owner}/fd/{}", file.as_raw_fd())
}

pub(crate) fn link(file: &File, name: &Path) -> io::Result<()> {
    let from = CString::new(in_proc(file))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    let (at, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both texts are C strings that live until the call is over.
    match unsafe { libc::linkat(at, from.as_ptr(), at, to.as_ptr(), follow) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// renameat2(2), by number: older C libraries (glibc 2.17) have no function for it.
pub(crate) fn rename(from: &Path, to: &Path, flags: libc::c_uint) -> io::Result<()> {
    let from = CString::new(from.as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    let at = libc::AT_FDCWD;
    // SAFETY: both texts are C strings that live until the call is over.
    let renamed =
        unsafe { libc::syscall(libc::SYS_renameat2, at, from.as_ptr(), at, to.as_ptr(), flags) };
    match renamed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("dashcam-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let target = folder.join("out");
        for named in [false, true] {
            let begin = || match named {
                false => WholeFile::create(&target),
                true => WholeFile::named(target.clone(), beside(&target, &folder), 0o666),
            };
            fs::write(&target, "old").expect("written");
            let mut half = begin().expect("created");
            half.write_all(b"ha").expect("written");
            assert_eq!(fs::read_to_string(&target).expect("read"), "old");
            drop(half);
            assert_eq!(names(&folder), ["out"], "named {named}");
            let mut whole = begin().expect("created");
            whole.write_all(b"whole").expect("written");
            whole.keep().expect("kept");
            assert_eq!(fs::read_to_string(&target).expect("read"), "whole");
            assert_eq!(names(&folder), ["out"], "named {named}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn an_existing_file_keeps_its_name() {
        let folder = std::env::temp_dir().join(format!("dashcam-new-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (first, second) = (folder.join("1"), folder.join("2"));
        for named in [false, true] {
            // Two processes with one number, which both found the name free.
            let begin = |text: &str| {
                let mut file = match named {
                    false => WholeFile::create(&first).expect("created"),
                    true => {
                        let beside = beside(&first, &folder);
                        WholeFile::named(first.clone(), beside, 0o666).expect("created")
                    }
                };
                file.write_all(text.as_bytes()).expect("written");
                file
            };
            let (mut one, mut other) = (begin("one"), begin("other"));
            one.keep_new(&first).expect("free");
            let refused = other.keep_new(&first).expect_err("taken");
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "named {named}");
            other.keep_new(&second).expect("free");
            drop((one, other));
            assert_eq!(names(&folder), ["1", "2"], "named {named}");
            let read = |path| fs::read_to_string(path).expect("read");
            assert_eq!((read(&first), read(&second)), ("one".into(), "other".into()));
            for path in [&first, &second] {
                fs::remove_file(path).expect("ours");
            }
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn what_is_no_file_is_refused_and_stays_what_it_is() {
        let folder = std::env::temp_dir().join(format!("dashcam-no-file-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let link = folder.join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        let places = [(&folder, "a folder"), (&socket, "a socket"), (&link, "a device")];
        for (place, found) in places {
            let error = WholeFile::create(place).err().expect("refused");
            assert_eq!(error.to_string(), format!("it is {found}, wanted a file or a new name"));
        }
        assert_eq!(names(&folder), ["link", "socket"]);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
