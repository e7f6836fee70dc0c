//! A file that is there whole or not at all.
//!
//! How it works: the bytes go into a file without a name in the folder of the target
//! (`O_TMPFILE`, Linux 3.11); `keep` gives it one and renames it over the target. A process that is
//! killed before leaves nothing behind, not even a file to clean up. File systems that have no such
//! files (NFS, some overlays) get a named one beside the target, `.NAME.PID.part`, which is removed
//! when `WholeFile` is dropped; only a kill leaves it.

use std::ffi::{CString, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file being written. Dropped without `keep`, it never was.
pub struct WholeFile {
    file: File,
    target: PathBuf,
    beside: PathBuf,
    named: bool,
}

impl WholeFile {
    /// Begins a file that will be `target`. Nothing is there yet. Errors are those of opening a
    /// file in the target's folder.
    pub fn create(target: &Path) -> io::Result<WholeFile> {
        // Through a link to what it points at, as plain writing would go.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut folder = target.parent().unwrap_or(Path::new(".")).to_owned();
        if folder.as_os_str().is_empty() {
            folder = PathBuf::from(".");
        }
        let unnamed = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(&folder);
        let beside = beside(&target, &folder);
        match unnamed {
            Ok(file) => Ok(WholeFile { file, target, beside, named: false }),
            Err(_) => WholeFile::named(target, beside),
        }
    }

    fn named(target: PathBuf, beside: PathBuf) -> io::Result<WholeFile> {
        let file = File::create(&beside)?;
        Ok(WholeFile { file, target, beside, named: true })
    }

    /// Gives the file its name; what had it before is replaced.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.flush()?;
        if !self.named {
            // One that a process with our number left.
            let _ = fs::remove_file(&self.beside);
            link(&self.file, &self.beside)?;
            self.named = true;
        }
        fs::rename(&self.beside, &self.target)?;
        self.named = false;
        Ok(())
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

fn beside(target: &Path, folder: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    folder.join(name)
}

fn link(file: &File, name: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    let (at, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both texts are C strings that live until the call is over.
    match unsafe { libc::linkat(at, from.as_ptr(), at, to.as_ptr(), follow) } {
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
                true => WholeFile::named(target.clone(), beside(&target, &folder)),
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
}
