//! The processes below a process.
//!
//! How it works: the parent of each process is in /proc/PID/stat. What it promises: parents come
//! before their children. What is missing on purpose: processes whose parent has ended, which
//! belong to another one now.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The processes below `pid`, each behind its parent.
pub fn descendants(proc: &Path, pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(number) = number else { continue };
        if let Some(parent) = parent(&entry.path()) {
            children.entry(parent).or_default().push(number);
        }
    }
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        // A process is nobody's child twice, so this ends.
        found.extend(children.remove(&found[at]).into_iter().flatten());
        at += 1;
    }
    found.remove(0);
    found
}

/// Whether a process has a CPython mapped, by the names of its files, and works for the service;
/// false if it is not known. `multiprocessing`'s resource tracker only waits for the end of the
/// others.
pub fn is_python(proc: &Path, pid: u32) -> bool {
    let folder = proc.join(pid.to_string());
    let words = fs::read(folder.join("cmdline")).unwrap_or_default();
    let tracker = b"multiprocessing.resource_tracker";
    if words.windows(tracker.len()).any(|part| part == tracker) {
        return false;
    }
    let maps = fs::read(folder.join("maps")).unwrap_or_default();
    let found = sys::mapped::files(&maps).any(|line| {
        let name = line.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        line.executable && (name.starts_with(b"python") || name.starts_with(b"libpython"))
    });
    found
}

fn parent(folder: &Path) -> Option<u32> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use testkit::Folder;

    use super::*;

    #[test]
    fn a_process_with_a_python_works_for_the_service_unless_it_tracks_resources() {
        let proc = Folder::new("tree-python");
        let lay = |pid: u32, words: &str, file: &str| {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("cmdline"), words).expect("a file");
            let maps = format!("1000-2000 r-xp 00000000 08:01 9   {file}\n");
            fs::write(folder.join("maps"), maps).expect("a file");
        };
        let tracks = "python\0-c\0from multiprocessing.resource_tracker import main;main(5)\0";
        lay(1, "gunicorn: worker\0", "/usr/bin/python3.11");
        lay(
            2,
            "python\0-c\0from multiprocessing.spawn import x\0",
            "/opt/lib/libpython3.13.so.1.0",
        );
        lay(3, tracks, "/usr/bin/python3.11");
        lay(4, "sh\0-c\0python\0", "/usr/bin/dash");
        assert_eq!(
            [1, 2, 3, 4, 5].map(|pid| is_python(proc.path(), pid)),
            [true, true, false, false, false]
        );
    }

    #[test]
    fn parents_come_before_their_children_and_strangers_are_left_out() {
        let proc = Folder::new("tree");
        for (pid, parent) in [(1, 0), (10, 1), (12, 10), (11, 10), (20, 12), (30, 1)] {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir(&folder).expect("a folder");
            let stat = format!("{pid} (a) b) S {parent} 1 1");
            fs::write(folder.join("stat"), stat).expect("a file");
        }
        let found = descendants(proc.path(), 10);
        let place = |pid: u32| found.iter().position(|other| *other == pid);
        assert_eq!(found.len(), 3);
        assert!(place(12) < place(20) && place(11).is_some() && place(30).is_none());
        assert!(descendants(proc.path(), 30).is_empty());
    }
}
