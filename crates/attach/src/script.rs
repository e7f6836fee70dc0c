//! The script that starts the recorder, laid down where the process can read it.
//!
//! How it works: a folder of a random name in the process's own file system (`/tmp` as it sees it),
//! owned by its user, with mode 0700. In it lie the script, and later the answer. The interpreter
//! is given a short text that runs the script; both catch everything.
//!
//! ```text
//!   /tmp/dashcam-attach-<random>/   script.py     read by the interpreter
//!                                   taken/        made by the thread that runs it: it runs once
//!                                   answer.json   whether the recorder started, and its figures
//! ```
//!
//! What it promises: no other user can read or replace the script. The process's user owns what is
//! above the folder, and may put links there while root works in it: each folder is opened from the
//! one above it, no link is followed, and from then on the open folder is used (`Folder`). The
//! folder is removed when it is dropped; that of a command that was killed, by a later one. What is
//! missing on purpose: an exception that the program's own signal handler raises while the text
//! runs (some 0.1 ms) ends there; only KeyboardInterrupt is passed on.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{fchown, DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::refusal::{refused, Refusal};
use crate::target::Target;

/// The begin of the names of our folders.
const NAME: &str = "dashcam-attach-";
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;
/// Folders for temporary files, tried in this order behind the process's own TMPDIR.
const FOLDERS: [&str; 4] = ["/tmp", "/dev/shm", "/var/tmp", "/run"];
/// Longest path of a folder for temporary files.
const MAX_FOLDER: usize = 48;

/// A folder whose script was taken so long ago is nobody's any more: its command was killed.
const DEAD_AFTER: Duration = Duration::from_secs(300);

/// What the script is given.
pub struct Arguments<'a> {
    /// The folder with the package, as the process sees it.
    pub package: &'a Path,
    /// Settings: name, value.
    pub settings: &'a [(String, String)],
    /// Python processes that it starts are to be recorded, too.
    pub tree: bool,
}

/// A folder that stays the one that was opened, whatever happens to its name, also when the process
/// that it was reached through has ended.
struct Folder(fs::File);

impl Folder {
    /// The root of a process.
    fn root(target: &Target) -> io::Result<Folder> {
        // The link in /proc is the kernel's, and is followed.
        Folder::open(&target.folder.join("root"), 0)
    }

    /// A folder in it.
    fn below(&self, name: &Path) -> io::Result<Folder> {
        Folder::open(&self.path(name), libc::O_NOFOLLOW)
    }

    fn open(path: &Path, flags: i32) -> io::Result<Folder> {
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY | flags);
        options.open(path).map(Folder)
    }

    /// A path of what is in it, for this process.
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name)
    }
}

/// A script in the file system of a process.
pub struct Script {
    /// Its folder as the process sees it.
    inside: String,
    /// What that is in, its name there, and the folder itself.
    place: Folder,
    name: String,
    folder: Folder,
}

impl Script {
    /// Lays it down.
    pub fn lay(target: &Target, arguments: &Arguments<'_>) -> Result<Script, Refusal> {
        let own = target.variable("TMPDIR").filter(|folder| is_plain(folder));
        let mut tried = Vec::new();
        for folder in own.into_iter().chain(FOLDERS) {
            match Script::lay_in(target, folder, arguments) {
                Ok(script) => return Ok(script),
                Err(error) => tried.push(format!("{folder}: {error}")),
            }
        }
        let remedy = "the process needs a folder for temporary files: set TMPDIR, or mount one";
        Err(refused(
            "folders for temporary files",
            tried.join(", "),
            "one that its user can write to",
            remedy,
        ))
    }

    fn lay_in(target: &Target, folder: &str, arguments: &Arguments<'_>) -> io::Result<Script> {
        let place = Path::new(folder).components().try_fold(
            Folder::root(target)?,
            |above, part| match part {
                Component::RootDir => Ok(above),
                Component::Normal(name) => above.below(name.as_ref()),
                _ => Err(io::Error::other("is no plain path")),
            },
        )?;
        tidy(&place.path(""));
        let name = format!("{NAME}{:012x}", sys::random::number() >> 16);
        fs::DirBuilder::new().mode(0o700).create(place.path(&name))?;
        let made = place.below(name.as_ref());
        let script = match made {
            Ok(made) => Script { inside: format!("{folder}/{name}"), place, name, folder: made },
            Err(error) => {
                let _ = fs::remove_dir(place.path(&name));
                return Err(error);
            }
        };
        // Somebody may have put another folder of ours in its place, to be given it.
        if fs::read_dir(script.folder.path(""))?.next().is_some() {
            return Err(io::Error::other("the new folder was replaced"));
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o400);
        let mut file = options.open(script.folder.path("script.py"))?;
        file.write_all(script.source(target, arguments).as_bytes())?;
        let user = target.user();
        if user != sys::local::own_uid() {
            let group = target.groups.first().copied();
            fchown(&file, Some(user), group)?;
            // O_PATH is not enough to change its owner.
            let folder = fs::File::open(script.folder.path("."))?;
            fchown(&folder, Some(user), group)?;
        }
        Ok(script)
    }

    fn source(&self, target: &Target, arguments: &Arguments<'_>) -> String {
        let quote =
            |(name, value): &(String, String)| format!("{}: {}", quoted(name), quoted(value));
        let settings: Vec<String> = arguments.settings.iter().map(quote).collect();
        format!(
            "ARGUMENTS = ({}, {}, {}, {{{}}}, {})\n{}",
            quoted(&self.inside),
            target.own_pid,
            quoted(&arguments.package.to_string_lossy()),
            settings.join(", "),
            if arguments.tree { "True" } else { "False" },
            include_str!("script.py"),
        )
    }

    /// The script's path as the process sees it.
    pub fn path(&self) -> String {
        format!("{}/script.py", self.inside)
    }

    /// The text that runs it: whatever happens, it ends without an exception.
    pub fn text(&self) -> String {
        text_that_runs(&self.path())
    }

    /// Whether a thread of the process has begun to run it.
    pub fn is_taken(&self) -> bool {
        self.folder.path("taken").exists()
    }

    /// Keeps it from being run: a thread that comes to it from now on does nothing. False: one has
    /// taken it already. Where the folder cannot be reached any more, the process has ended.
    pub fn close(&self) -> bool {
        let closed = fs::create_dir(self.folder.path("taken"));
        !closed.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
    }

    /// Its answer, once there is one. Errors: it is no JSON object.
    pub fn answer(&self) -> io::Result<Option<Value>> {
        // The folder belongs to the other user: neither a link nor a pipe is followed.
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = match options.open(self.folder.path("answer.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("the answer is no file"));
        }
        let mut text = Vec::new();
        file.take(MAX_ANSWER).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }
}

fn text_that_runs(path: &str) -> String {
    format!(
        "try:exec(\"with open('{path}') as f:exec(f.read(),{{}})\",{{}})\n\
         except KeyboardInterrupt:__import__('_thread').interrupt_main()\n\
         except BaseException:0\n"
    )
}

/// Removes the folders of commands that were killed. One that was not taken yet stays: its text, or
/// the path of its script, may still be in the process.
fn tidy(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        if named && is_dead(&entry.path()) {
            // Another user's cannot be removed, and is left.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_dead(folder: &Path) -> bool {
    let taken = fs::symlink_metadata(folder.join("taken")).and_then(|found| found.modified());
    let age = taken.ok().and_then(|taken| taken.elapsed().ok());
    age.is_some_and(|age| age > DEAD_AFTER)
}

impl Drop for Script {
    fn drop(&mut self) {
        // What is left when this fails is a folder in the process's own place for such.
        if self.name.starts_with(NAME) {
            let _ = fs::remove_dir_all(self.place.path(&self.name));
        }
    }
}

/// Whether a path can be put between quotes, and leaves room in the text.
fn is_plain(folder: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    folder.starts_with('/') && folder.len() <= MAX_FOLDER && folder.bytes().all(plain)
}

/// A text as Python's source has it, in ASCII.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            ' '..='~' if c != '"' && c != '\\' => out.push(c),
            _ => out += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::TEXT_BYTES;

    #[test]
    fn any_text_is_a_string_of_python_in_ascii() {
        assert_eq!(
            quoted("a \"b\"\\\n\u{e9}"),
            "\"a \\U00000022b\\U00000022\\U0000005c\\U0000000a\\U000000e9\""
        );
    }

    #[test]
    fn only_folders_that_need_no_quoting_and_leave_room_are_used() {
        assert!(is_plain("/tmp") && is_plain("/srv/app_1/tmp.d"));
        assert!(!is_plain("tmp") && !is_plain("/a'b") && !is_plain("/a b") && !is_plain("/\u{e9}"));
        assert!(!is_plain(&format!("/{}", "x".repeat(MAX_FOLDER))));
    }

    #[test]
    fn folders_of_killed_commands_are_removed_once_their_script_was_taken() {
        let place = testkit::Folder::new("script-tidy");
        let folder = |name: &str, taken: bool, age: Duration| {
            let path = place.path().join(name);
            fs::create_dir(&path).expect("a folder");
            if taken {
                fs::create_dir(path.join("taken")).expect("a folder");
                let at = std::time::SystemTime::now() - age;
                let taken = fs::File::open(path.join("taken")).expect("a folder");
                taken.set_modified(at).expect("ours");
            }
        };
        let hour = Duration::from_secs(3600);
        folder("dashcam-attach-0", true, hour);
        folder("dashcam-attach-1", true, Duration::ZERO);
        folder("dashcam-attach-2", false, hour);
        folder("another", true, hour);
        tidy(place.path());
        let left = fs::read_dir(place.path()).expect("a folder").flatten();
        let mut left: Vec<_> =
            left.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        left.sort();
        assert_eq!(left, ["another", "dashcam-attach-1", "dashcam-attach-2"]);
    }

    #[test]
    fn a_folder_is_reached_by_no_link_and_stays_the_one_that_was_opened() {
        let place = testkit::Folder::new("script-links");
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("own")).expect("a folder");
        std::os::unix::fs::symlink("own", path("link")).expect("a link");
        let above = Folder::open(place.path(), 0).expect("a folder");
        assert!(above.below("link".as_ref()).is_err());
        let own = above.below("own".as_ref()).expect("a folder");
        // Another one has its name now.
        fs::rename(path("own"), path("moved")).expect("ours");
        std::os::unix::fs::symlink("/nonexistent", path("own")).expect("a link");
        fs::write(own.path("script.py"), "x").expect("a file");
        assert!(path("moved").join("script.py").is_file());
        fs::remove_dir_all(above.path("own")).expect("the link alone");
        assert!(path("moved").is_dir() && !path("own").is_symlink());
    }

    #[test]
    fn the_text_fits_into_the_ring_from_the_longest_folder() {
        let path = format!("/{}/{NAME}0123456789ab/script.py", "x".repeat(MAX_FOLDER - 1));
        assert!((text_that_runs(&path).len() as u64) < TEXT_BYTES);
    }
}
