//! The process as /proc shows it: user, state, tracer, files, environment.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | /proc/PID/status | state, user, groups, tracer, number in its own namespace | everybody |
//! | /proc/PID/stat | when it began: its identity | everybody |
//! | /proc/PID/environ, cmdline, maps, root, exe, cwd | where it lives | the right to trace it |
//!
//! What it promises: no byte of the process is changed. The folder of /proc is an argument, so that
//! tests lay one out. What cannot be read is empty, and `preflight` says why.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::refusal::{refused, Kind, Refusal};

/// Most bytes of a file of /proc that are read; the list of mappings may be long.
const MAX_BYTES: u64 = 16 << 20;

/// What /proc says about a process.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Its number here.
    pub pid: u32,
    /// Its number as it sees itself.
    pub own_pid: u32,
    /// Its folder in /proc.
    pub folder: PathBuf,
    /// `S`, `R`, `T`, `Z`, ...
    pub state: char,
    /// Real, effective, saved user.
    pub users: [u32; 3],
    /// Effective group, then the further ones.
    pub groups: Vec<u32>,
    /// The process that traces it; 0 for none.
    pub tracer: u32,
    /// The owner of its folder in /proc: not its user if it is not dumpable.
    pub owner: u32,
    /// When it began, in ticks.
    pub began: u64,
    /// `NAME=value`.
    pub environment: Vec<(String, String)>,
    /// Words of its command line.
    pub words: Vec<String>,
}

impl Target {
    /// Reads it. A process that does not exist is a refusal of kind `Gone`.
    pub fn read(proc: &Path, pid: u32) -> Result<Target, Refusal> {
        let folder = proc.join(pid.to_string());
        let gone = |_| {
            let remedy =
                "`ps` lists the processes; numbers of a container are those it has outside";
            refused("process", "none of this number", "a running process", remedy)
                .of_kind(Kind::Gone)
        };
        let owner = fs::metadata(&folder).map_err(gone)?.uid();
        let status = fs::read_to_string(folder.join("status")).map_err(gone)?;
        let line = |name: &str| {
            let lines = status.lines().filter_map(|line| line.split_once(':'));
            lines.into_iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim())
        };
        let numbers = |name: &str| -> Vec<u32> {
            line(name).split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let users = numbers("Uid");
        let at = |list: &[u32], i: usize| list.get(i).copied().unwrap_or(u32::MAX);
        let mut groups = vec![at(&numbers("Gid"), 1)];
        groups.extend(numbers("Groups"));
        Ok(Target {
            pid,
            own_pid: numbers("NSpid").last().copied().unwrap_or(pid),
            state: line("State").chars().next().unwrap_or('?'),
            users: [at(&users, 0), at(&users, 1), at(&users, 2)],
            groups,
            tracer: numbers("TracerPid").first().copied().unwrap_or(0),
            owner,
            began: began(&folder).map_err(gone)?,
            environment: words_of(&folder.join("environ"))
                .iter()
                .filter_map(|word| word.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            words: words_of(&folder.join("cmdline")),
            folder,
        })
    }

    /// The effective user.
    pub fn user(&self) -> u32 {
        self.users[1]
    }

    /// The value of an environment variable, as the program got it.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let named = self.environment.iter().find(|(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Whether this is still the process that was read, and has not ended: numbers are reused, and
    /// a process that its parent did not wait for keeps its number.
    pub fn is_same(&self) -> bool {
        let stat = fs::read_to_string(self.folder.join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        let ended = matches!(state, None | Some('Z' | 'X'));
        !ended && began(&self.folder).is_ok_and(|now| now == self.began)
    }

    /// The place outside of a path that the process sees.
    pub fn outside(&self, inside: &Path) -> PathBuf {
        let below = inside.strip_prefix("/").unwrap_or(inside);
        self.folder.join("root").join(below)
    }

    /// The list of its mappings, as text.
    pub fn maps(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        fs::File::open(self.folder.join("maps"))?.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(text)
    }
}

/// The time at which it began: the 22nd field of `stat`, behind the name, which may hold anything.
fn began(folder: &Path) -> io::Result<u64> {
    let stat = fs::read_to_string(folder.join("stat"))?;
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let field = behind.split_whitespace().nth(19).and_then(|word| word.parse().ok());
    field.ok_or(io::Error::from(io::ErrorKind::InvalidData))
}

/// NUL-separated words; none if the file cannot be read.
fn words_of(path: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let text = std::ffi::OsString::from_vec(bytes).to_string_lossy().into_owned();
    text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether process `pid` sees the same file system as this one; true if it is not known.
pub fn shares_root(pid: u32) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (place(&Path::new("/proc").join(pid.to_string()).join("root")), place(Path::new("/"))) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use testkit::Folder;

    use super::*;

    #[test]
    fn a_process_that_ended_or_has_another_begin_is_not_the_same() {
        let proc = Folder::new("target-same");
        let folder = proc.path().join("7");
        fs::create_dir(&folder).expect("a folder");
        let lay = |state: char, began: u64| {
            let fields = "1 ".repeat(18);
            let stat = format!("7 (a) Z) {state} {fields}{began} 1 1\n");
            fs::write(folder.join("stat"), stat).expect("a file");
        };
        let target = Target { pid: 7, folder: folder.clone(), began: 99, ..Target::default() };
        for (state, began, same) in
            [('S', 99, true), ('R', 99, true), ('Z', 99, false), ('S', 98, false)]
        {
            lay(state, began);
            assert_eq!(target.is_same(), same, "{state} {began}");
        }
        fs::remove_dir_all(&folder).expect("ours");
        assert!(!target.is_same());
    }
}
