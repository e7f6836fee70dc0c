//! Where black boxes lie, and what becomes of those whose process died.
//!
//! A box is a file `<service>-<pid>-<start ms>.box` in a folder of this user's in shared memory, so
//! that it outlives the process but not the machine's power. A process that ends in order removes
//! its own. Of those left by processes that died, the newest `DEAD_KEPT` are kept for
//! `dashcam recover`. `DASHCAM_SHM` names another file system in memory than /dev/shm; crates/cli
//! reads it too.
//!
//! Containers may share the folder, or have the one of before: process 1 finds a box of process 1.
//! So a process holds its box (`sys::held`) before that has its name, and one that nobody holds is
//! dead if it is older than the process of its number (docs/decisions/0057).

use std::fs::Metadata;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ring::{Place, Region};

use crate::recording::growth::Room;

/// Boxes of dead processes that are kept; each holds its memory until it goes.
const DEAD_KEPT: usize = 2;
/// The kernel reports the beginning of a process in ticks of 10 ms, and clocks are set.
const SLACK_MS: u64 = 100;
/// How a box's name ends until its process holds it.
const HIDDEN: &str = ".new";
/// It has that name for a moment only: one that is older is of a process that was killed meanwhile.
const HIDDEN_AT_MOST: Duration = Duration::from_secs(60);
/// Names that are tried for a new box.
const MOST_NAMES: usize = 100;

/// The folder, made if need be with mode 0700. Errors say why it cannot be used.
pub fn folder() -> Result<PathBuf, String> {
    // The owner of our own /proc entry is the effective user.
    let uid = std::fs::metadata("/proc/self").map(|m| m.uid()).unwrap_or(0);
    let given = sys::environment::value("DASHCAM_SHM").filter(|folder| !folder.is_empty());
    let memory = given.map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let path = memory.join(format!("dashcam-{uid}"));
    if let Err(error) = std::fs::DirBuilder::new().mode(0o700).create(&path) {
        if error.kind() != std::io::ErrorKind::AlreadyExists {
            return Err(format!("{}: {error}", path.display()));
        }
    }
    let found = std::fs::symlink_metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        let (owner, mode) = (found.uid(), found.mode() & 0o777);
        return Err(format!(
            "{}: found owner {owner} mode {mode:o}, wanted a folder of user {uid} with mode 700",
            path.display()
        ));
    }
    Ok(path)
}

/// The path of a new box of this process. A process of the same number, of another container, may
/// have begun in the same millisecond: the next one is free.
pub fn path(folder: &Path, service: &str) -> PathBuf {
    path_at(folder, service, sys::clock::epoch_ns() / 1_000_000)
}

/// The name of a box until its process holds it: nobody takes it for a dead one's.
pub fn hidden(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{HIDDEN}"))
}

/// Gives a new box its name, held if `is_apart`: whether this thread's descriptors are our own.
pub fn publish(region: &Region, wanted: &Path, service: &str, is_apart: bool) {
    let Place::File(hidden) = region.place() else { return };
    if is_apart {
        hold(hidden);
    }
    let mut path = wanted.to_owned();
    for _ in 0..MOST_NAMES {
        match std::fs::hard_link(hidden, &path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (),
            // Both names are those of one file, so moving leaves both. Without links it moves.
            _ => {
                if region.move_to(path).is_ok() {
                    let _ = std::fs::remove_file(hidden);
                }
                return;
            }
        }
        let Some(((_, started_ms), folder)) = parse(&path).zip(path.parent()) else { return };
        path = path_at(folder, service, started_ms + 1);
    }
}

fn path_at(folder: &Path, service: &str, mut started_ms: u64) -> PathBuf {
    loop {
        let path = folder.join(format!("{service}-{}-{started_ms}.box", std::process::id()));
        let is_free = |path: &Path| std::fs::symlink_metadata(path).is_err();
        if is_free(&path) && is_free(&hidden(&path)) {
            return path;
        }
        started_ms += 1;
    }
}

/// The box of a recording that goes on under another name of the service is called by that name. An
/// error: it keeps the old one, which is shown by `dashcam recover` alone.
pub fn rename(region: &Region, service: &str) {
    let Place::File(old) = region.place() else { return };
    let Some((pid, started_ms)) = parse(old) else { return };
    let new = old.with_file_name(format!("{service}-{pid}-{started_ms}.box"));
    if new != *old {
        let _ = region.move_to(new);
    }
}

/// Holds the box of this process until the last thread of ours ends. Only for a thread with a table
/// of descriptors of our own: no child has that, and it ends with our threads, so nobody closes the
/// descriptor. An error (a file system without locks): the number of the process has to do.
pub fn hold(path: &Path) {
    let _ = sys::held::hold(path).map(IntoRawFd::into_raw_fd);
}

/// What became of the process of a box.
#[derive(PartialEq)]
enum Owner {
    Lives,
    /// This process itself, before it became this program by exec.
    Before,
    Died,
}

fn owner(path: &Path, pid: u32, started_ms: u64) -> Owner {
    if sys::held::is_held(path) {
        return Owner::Lives;
    }
    let began_ns = sys::processes::began_epoch_ns(pid);
    if began_ns.is_none_or(|began_ns| began_ns / 1_000_000 > started_ms + SLACK_MS) {
        return Owner::Died;
    }
    if pid == std::process::id() {
        Owner::Before
    } else {
        Owner::Lives
    }
}

/// Removes boxes of dead processes beyond the newest few, and what this process left before an
/// exec.
pub fn tidy(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut dead: Vec<(u64, PathBuf)> = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(HIDDEN) {
            tidy_hidden(&path);
            continue;
        }
        let Some((pid, started_ms)) = parse(&path) else {
            continue;
        };
        match owner(&path, pid, started_ms) {
            Owner::Lives => (),
            Owner::Before => drop(std::fs::remove_file(&path)),
            Owner::Died => dead.push((started_ms, path)),
        }
    }
    dead.sort();
    let surplus = dead.len().saturating_sub(DEAD_KEPT);
    for (_, path) in &dead[..surplus] {
        let _ = std::fs::remove_file(path);
    }
}

fn tidy_hidden(path: &Path) {
    let since = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    let is_old = since.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > HIDDEN_AT_MOST));
    if is_old && !sys::held::is_held(path) {
        let _ = std::fs::remove_file(path);
    }
}

/// What there is for boxes: this one, and those in its folder. A stat for each.
pub(crate) fn room(region: &Region) -> Room {
    let (boxes, file_system) = match region.place() {
        Place::File(path) => {
            let folder = path.parent().unwrap_or(path);
            (taken(folder), sys::room::left_in(folder))
        }
        Place::Process(_) => (region.present_bytes() as u64, None),
    };
    let memory = sys::room::available_bytes();
    Room { boxes, memory, file_system: file_system.unwrap_or(u64::MAX) }
}

/// Bytes of memory that the boxes in a folder have.
fn taken(folder: &Path) -> u64 {
    all(folder).map(|found| found.blocks() * 512).sum()
}

/// When the boxes in a folder were last set to a time (`recording::share`), or made.
pub(crate) fn times(folder: &Path) -> impl Iterator<Item = SystemTime> {
    all(folder).filter_map(|found| found.modified().ok())
}

/// The boxes in a folder. One that is removed meanwhile is none.
fn all(folder: &Path) -> impl Iterator<Item = Metadata> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| parse(&entry.path()).is_some()).filter_map(|entry| entry.metadata().ok())
}

/// Process id and start time in a box's name.
fn parse(path: &Path) -> Option<(u32, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".box")?;
    let mut parts = name.rsplit('-');
    let started_ms = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, started_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a process of this number, in another container, that begins at the same moment would
    /// take it for its own of before.
    #[test]
    fn a_box_is_held_when_it_has_its_name() {
        let folder = testkit::Folder::new("boxes-held");
        let wanted = path_at(folder.path(), "billy", sys::clock::epoch_ns() / 1_000_000);
        let make = || {
            let place = Ok(hidden(&wanted));
            Region::create(place, format::region::MIN_BYTES, std::process::id()).expect("memory")
        };
        let names = || {
            let entries = std::fs::read_dir(folder.path()).expect("a folder").flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let first = make();
        tidy(folder.path());
        assert_eq!(names(), [hidden(&wanted)], "not this one's to remove");
        publish(&first, &wanted, "billy", true);
        tidy(folder.path());
        assert_eq!(names(), std::slice::from_ref(&wanted));
        assert!(sys::held::is_held(&wanted));
        // Its name was taken meanwhile.
        let second = make();
        publish(&second, &wanted, "billy", true);
        assert_eq!(names().len(), 2);
        assert!(matches!(second.place(), Place::File(path) if *path != wanted && path.exists()));
    }

    #[test]
    fn two_that_begin_in_one_millisecond_have_a_box_each() {
        let folder = testkit::Folder::new("boxes-names");
        let own = std::process::id();
        for ms in [7, 8, 9] {
            let path = path_at(folder.path(), "billy", 7);
            assert_eq!(path, folder.path().join(format!("billy-{own}-{ms}.box")));
            std::fs::File::create_new(&path).expect("a file");
        }
    }

    #[test]
    fn a_box_is_its_processs_and_not_that_of_every_process_of_this_number() {
        let folder = testkit::Folder::new("boxes-tidy");
        let now_ms = sys::clock::epoch_ns() / 1_000_000;
        let own = std::process::id();
        // No process has so high a number.
        let (gone, hour) = (u32::MAX - 7, 3_600_000);
        let path = |pid: u32, ago_ms: u64| {
            folder.path().join(format!("billy-{pid}-{}.box", now_ms.saturating_sub(ago_ms)))
        };
        let make = |path: PathBuf| {
            std::fs::File::create(&path).expect("a file");
            path
        };
        let before_exec = make(path(own, 0));
        let predecessor = make(path(own, hour));
        let dead = [4, 3, 2].map(|hours| make(path(gone, hours * hour)));
        let elsewhere = make(path(gone, 9 * hour));
        let held = sys::held::hold(&elsewhere).expect("nobody holds it");
        let alive = make(path(std::os::unix::process::parent_id(), 0));
        tidy(folder.path());
        let left = [&before_exec, &predecessor, &dead[0], &dead[1], &dead[2], &elsewhere, &alive];
        let left = left.map(|path| path.exists());
        // The newest two of the dead ones are kept: the predecessor, and the last of `dead`.
        assert_eq!(left, [false, true, false, false, true, true, true]);
        drop(held);
        tidy(folder.path());
        assert!(!elsewhere.exists());
    }

    #[test]
    fn boxes_count_with_the_memory_they_have_and_other_files_do_not() {
        // A file system on a disk may not have given a file its blocks yet.
        let folder = PathBuf::from(format!("/dev/shm/test-boxes-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of the test's own");
        assert_eq!(taken(&folder), 0);
        for name in ["billy-7-1.box", "a-b-8-2.box", "notes.txt"] {
            std::fs::write(folder.join(name), [1u8; 8192]).expect("written");
        }
        // As a box at its start: its size is not what it has.
        let sparse = std::fs::File::create(folder.join("c-9-3.box")).expect("made");
        sparse.set_len(64 << 20).expect("set");
        let sum = taken(&folder);
        assert!((16_384..64_000).contains(&sum), "{sum}");
        assert!(sys::room::left_in(&folder).is_none_or(|left| left > 0));
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(taken(&folder), 0);
    }
}
