//! Which users may read the files of a service: those that its folder is open to.
//!
//! How it works: a folder that is made here is its owner's alone. A new file has the rights that
//! its folder gives: users that may list and enter the folder may read the file, and also write to
//! it if the folder may be written to. The umask still takes from that.
//!
//! ```text
//!   folder  rwxr-x---  ->  file  rw-r-----
//! ```
//!
//! What it promises: the owner of a folder decides, by `chmod` or by an access list, whose group
//! bits the kernel keeps for its mask. A folder that everybody may write to, with the sticky bit,
//! as /tmp, is nobody's decision: a file there is its owner's alone. Missing on purpose: files that
//! are there already, and keep their rights.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

const LIST_AND_ENTER: u32 = 0o5;
const READ: u32 = 0o4;
const WRITE: u32 = 0o2;
/// The bits of the group and of others.
const CLASSES: [u32; 2] = [3, 0];

/// The mode with which a new file in this folder is to be opened.
pub fn file_mode(folder: &Path) -> u32 {
    // Without a name: the one that the process is in.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    fs::metadata(folder).map_or(0o600, |found| file_mode_in(found.mode()))
}

/// The same for a folder of this mode.
fn file_mode_in(folder: u32) -> u32 {
    if folder & libc::S_ISVTX != 0 && folder & WRITE != 0 {
        return 0o600;
    }
    let rights = |class: &u32| {
        let given = folder >> class;
        match given & LIST_AND_ENTER == LIST_AND_ENTER {
            true => (given & (READ | WRITE)) << class,
            false => 0,
        }
    };
    0o600 | CLASSES.iter().map(rights).sum::<u32>()
}

/// Makes a folder and what is missing above it, for this user alone. One that is there keeps its
/// mode. Errors: those of mkdir(2).
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_read_by_those_who_may_list_and_enter_its_folder() {
        let of = [
            (0o700, 0o600),
            (0o750, 0o640),
            (0o2770, 0o660),
            (0o755, 0o644),
            (0o777, 0o666),
            // Only list, or only enter.
            (0o741, 0o600),
            (0o705, 0o604),
            // Of nobody.
            (0o1777, 0o600),
            (0o1775, 0o664),
        ];
        for (folder, file) in of {
            assert_eq!(file_mode_in(folder), file, "{folder:o}: {:o}", file_mode_in(folder));
        }
    }

    #[test]
    fn new_folders_are_their_owners_and_others_keep_their_mode() {
        use std::os::unix::fs::PermissionsExt;
        let base = std::env::temp_dir().join(format!("dashcam-readers-{}", std::process::id()));
        fs::create_dir(&base).expect("a folder");
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).expect("ours");
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
        for _ in 0..2 {
            make_folder(&base.join("a/b")).expect("made, or there");
        }
        assert_eq!(
            (mode(&base), mode(&base.join("a")), mode(&base.join("a/b"))),
            (0o755, 0o700, 0o700)
        );
        assert_eq!((file_mode(&base), file_mode(&base.join("a"))), (0o644, 0o600));
        assert_eq!(file_mode(&base.join("none")), 0o600);
        fs::remove_dir_all(&base).expect("ours");
    }
}
