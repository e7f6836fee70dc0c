//! The folder of this user's sockets, and whether it is safe to use.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The effective user. A syscall.
pub fn own_uid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// Folders for sockets, in the order in which they are tried: `$XDG_RUNTIME_DIR/dashcam`,
/// `/run/user/UID/dashcam`, `/tmp/dashcam-UID`. A service and a shell may have different
/// environments, so a client searches all of them.
pub fn folders() -> Vec<PathBuf> {
    folders_of(own_uid(), crate::environment::value("XDG_RUNTIME_DIR").map(PathBuf::from))
}

/// The same for a process of another user, with its `XDG_RUNTIME_DIR`.
pub fn folders_of(uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let given = runtime.filter(|path| path.is_absolute()).map(|path| path.join("dashcam"));
    let usual = PathBuf::from(format!("/run/user/{uid}/dashcam"));
    let mut found = Vec::from_iter(given);
    if !found.contains(&usual) {
        found.push(usual);
    }
    found.push(PathBuf::from(format!("/tmp/dashcam-{uid}")));
    found
}

/// The first of `folders` that can be used, made if needed with mode 0700. A runtime directory that
/// does not exist or is another user's is skipped. Errors: the folder is a link, another user's, or
/// open to others, which is refused and not skipped; or it cannot be made.
pub fn folder() -> Result<PathBuf, String> {
    let candidates = folders();
    let last = candidates.len() - 1;
    for (i, path) in candidates.into_iter().enumerate() {
        // The last one is in /tmp, which is everybody's; the others are in a folder of this user.
        let ours = || {
            let parent = path.parent().and_then(|p| std::fs::metadata(p).ok());
            parent.is_some_and(|m| m.is_dir() && m.uid() == own_uid())
        };
        if i == last || ours() {
            return ready(&path).map(|()| path);
        }
    }
    Err("no folder to try".to_owned())
}

/// Makes the folder and checks it.
fn ready(path: &Path) -> Result<(), String> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => (),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => (),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    check(path)
}

/// Whether `path` itself (no link) is a folder of this user that no other user can enter.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let uid = own_uid();
    let found = std::fs::symlink_metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    let what = match found.file_type() {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a folder",
        _ => "a file",
    };
    if found.is_dir() && owner == uid && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "{}: found {what} of user {owner} with mode {mode:o}, wanted a folder of user {uid} with \
         mode 700; remove it, or set XDG_RUNTIME_DIR",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{symlink, PermissionsExt};

    use super::*;

    #[test]
    fn links_files_and_open_folders_are_refused_and_a_folder_of_ours_is_not() {
        let base = std::env::temp_dir().join(format!("dashcam-folder-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir(&base).expect("temp dir is writable");
        let good = base.join("good");
        ready(&good).expect("made");
        ready(&good).expect("there already");
        let link = base.join("link");
        symlink(&good, &link).expect("links");
        let refused = ready(&link).expect_err("a link, wherever it leads");
        assert!(refused.contains("found a symbolic link of user"), "{refused}");
        let file = base.join("file");
        std::fs::write(&file, "").expect("writes");
        assert!(ready(&file).expect_err("a file").contains("found a file of user"));
        std::fs::set_permissions(&good, std::fs::Permissions::from_mode(0o750)).expect("ours");
        let refused = ready(&good).expect_err("open to the group");
        assert!(refused.contains("with mode 750, wanted a folder"), "{refused}");
        let nowhere = base.join("none/dashcam");
        assert!(ready(&nowhere).expect_err("no parent").contains("No such file"));
        std::fs::remove_dir_all(&base).expect("ours");
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        if own_uid() != 0 {
            let refused = check(Path::new("/")).expect_err("root's");
            assert!(refused.contains("of user 0"), "{refused}");
            return;
        }
        let path = std::env::temp_dir().join(format!("dashcam-foreign-{}", std::process::id()));
        ready(&path).expect("made");
        std::os::unix::fs::chown(&path, Some(65534), None).expect("root may");
        let refused = ready(&path).expect_err("another's");
        std::fs::remove_dir(&path).expect("empty");
        assert!(refused.contains("found a folder of user 65534 with mode 700"), "{refused}");
    }
}
