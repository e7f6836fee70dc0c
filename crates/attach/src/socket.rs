//! The control socket of a process, as it is found from outside.
//!
//! How it works: a recorded process listens on a socket named after its own number, in one of three
//! folders of its user's (`sys::local`), in its own file system. What it promises: a socket of
//! another process of the same number (another namespace) is not taken for it.

use std::path::PathBuf;

use crate::target::Target;

/// The path of its socket, if it listens.
pub fn of(target: &Target) -> Option<PathBuf> {
    let runtime = target.variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folders = sys::local::folders_of(target.user(), runtime);
    let paths = folders.iter().flat_map(|folder| sys::local::sockets(&target.outside(folder)));
    let own = paths.filter(|(pid, _)| *pid == target.own_pid).map(|(_, path)| path);
    own.into_iter().find(|path| listens(path, target.pid))
}

/// Whether the process of this number listens there.
fn listens(path: &std::path::Path, pid: u32) -> bool {
    let peer = sys::local::connect(path).and_then(|stream| sys::local::peer(&stream));
    peer.is_ok_and(|(found, _)| found == pid)
}
