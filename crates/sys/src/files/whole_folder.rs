//! A folder of files that exists whole or not at all.
//!
//! How it works: as `whole_file`, but many: the bytes go into files without names (`O_TMPFILE`)
//! beside the target; `keep` gives them names in a folder of its own, `.NAME.PID.RANDOM.part`, and
//! renames that. A folder that was there is exchanged for the new one in one step and then removed.
//! A process that is killed before `keep` leaves nothing behind; one that is killed inside of it,
//! or on a file system without such files, may leave the `.part`, never half a target.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::whole_file::{beside, link, rename};

/// A folder being written. Dropped without `keep`, it never existed.
pub struct WholeFolder {
    target: PathBuf,
    /// The folder that the target is in.
    around: PathBuf,
    part: PathBuf,
    /// Name of each file, and the file while it has none on disk.
    files: Vec<(String, Option<File>)>,
}

impl WholeFolder {
    /// Begins a folder that will be `target`. Nothing is there yet.
    pub fn create(target: &Path) -> WholeFolder {
        // Through a link to what it points at.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut around = target.parent().unwrap_or(Path::new(".")).to_owned();
        if around.as_os_str().is_empty() {
            around = PathBuf::from(".");
        }
        let part = beside(&target, &around);
        WholeFolder { target, around, part, files: Vec::new() }
    }

    /// One more file of the folder, to be written. Errors are those of opening it.
    pub fn file(&mut self, name: &str) -> io::Result<File> {
        let unnamed =
            OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(&self.around);
        if let Ok(file) = unnamed {
            self.files.push((name.to_owned(), Some(file.try_clone()?)));
            return Ok(file);
        }
        self.begin_part()?;
        self.files.push((name.to_owned(), None));
        File::create(self.part.join(name))
    }

    /// Gives the folder its name; what had it before is replaced.
    pub fn keep(mut self) -> io::Result<()> {
        self.begin_part()?;
        for (name, file) in std::mem::take(&mut self.files) {
            if let Some(file) = file {
                link(&file, &self.part.join(name))?;
            }
        }
        // Onto nothing or an empty folder; else both are exchanged, and the old one goes.
        match fs::rename(&self.part, &self.target) {
            Err(error) if self.target.is_dir() && is_full(&error) => {
                rename(&self.part, &self.target, libc::RENAME_EXCHANGE)?;
                fs::remove_dir_all(&self.part)
            }
            renamed => renamed,
        }
    }

    /// The folder under its first name.
    fn begin_part(&self) -> io::Result<()> {
        match self.files.iter().any(|(_, file)| file.is_none()) {
            true => Ok(()),
            false => fs::create_dir(&self.part),
        }
    }
}

impl Drop for WholeFolder {
    fn drop(&mut self) {
        if self.part.exists() {
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_is_there_whole_or_not_at_all() {
        let around = std::env::temp_dir().join(format!("dashcam-folder-{}", std::process::id()));
        fs::create_dir_all(&around).expect("a folder");
        let target = around.join("out");
        for round in ["first", "second"] {
            let mut half = WholeFolder::create(&target);
            half.file("a").expect("a file").write_all(b"ha").expect("written");
            let before = names(&around);
            drop(half);
            assert_eq!(names(&around), before, "{round}");
            let mut whole = WholeFolder::create(&target);
            for name in ["a", "b"] {
                let mut file = whole.file(&format!("{name}-{round}")).expect("a file");
                file.write_all(round.as_bytes()).expect("written");
            }
            whole.keep().expect("kept");
            assert_eq!(names(&around), ["out"], "{round}");
            assert_eq!(names(&target), [format!("a-{round}"), format!("b-{round}")]);
            let text = fs::read_to_string(target.join(format!("b-{round}"))).expect("read");
            assert_eq!(text, round);
        }
        fs::remove_dir_all(&around).expect("removed");
    }
}
