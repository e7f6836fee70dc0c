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

/// Whether a process has a CPython mapped, by the names of its files; false if it is not known.
pub fn is_python(proc: &Path, pid: u32) -> bool {
    let maps = fs::read(proc.join(pid.to_string()).join("maps")).unwrap_or_default();
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
