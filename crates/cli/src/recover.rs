//! `dashcam recover`: a capture from the black box of a process that was killed.
//!
//! How it works: boxes are files `SERVICE-PID-MS.box` in the folders `dashcam-UID` of the shared
//! memory. Without a file the command lists the boxes that this user may read. With a file it
//! checks the box, copies its whole blocks into a capture and prints the capture's path.
//!
//! What it promises: the box is never changed, and the capture is there whole or not at all. If the
//! process still runs, its later records may be missing, which is reported. Missing on purpose:
//! removing boxes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::region::BlackBox;
use format::region::MAX_BYTES;
use serde_json::{json, Value};

use crate::output;
use crate::output::columns::{columns, plain, utc};
use crate::output::exit_code::{NOTHING, UNREADABLE, USAGE};

/// A process that seems to begin later than its box by at most this may have written it: the clock
/// of the day may have been set meanwhile.
const SLACK_MS: u64 = 10_000;

/// Where each user's recorders have their folder, `dashcam-UID`.
pub(crate) fn shared_memory() -> PathBuf {
    let given = std::env::var_os("DASHCAM_SHM").filter(|folder| !folder.is_empty());
    given.map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from)
}

/// Makes a capture of the box `file`: at `to`, or in this folder, named after the box.
pub fn recover(file: &Path, to: Option<&Path>) -> ExitCode {
    let region = match open(file) {
        Ok(region) => region,
        Err(error) => {
            eprintln!(
                "dashcam: {}: {error}; wanted a black box (FILE.box): `dashcam recover` lists \
                 those that are there",
                file.display()
            );
            return ExitCode::from(UNREADABLE);
        }
    };
    let started_ms = file.file_name().and_then(|name| parse(name.to_str()?)).map(|box_| box_.2);
    if is_in_use(region.pid(), started_ms.unwrap_or(u64::MAX), file) {
        eprintln!(
            "dashcam: process {} is still running; what it writes meanwhile may be missing",
            region.pid()
        );
    }
    let stem = file.file_stem().unwrap_or(file.as_os_str());
    let path = to.map_or_else(|| PathBuf::from(stem).with_extension("dashcam"), Path::to_owned);
    match write(&region, file, &path) {
        Ok(blocks) => {
            println!("{}", path.display());
            eprintln!(
                "dashcam: {blocks} blocks recovered, up to {} UTC; now: dashcam why {}",
                utc(region.reaches_epoch_ns()),
                path.display()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "dashcam: cannot write {}: {error}; choose another place with -o; no partial file \
                 is left, and the box is as it was",
                path.display()
            );
            ExitCode::from(USAGE)
        }
    }
}

fn open(file: &Path) -> Result<BlackBox, String> {
    let found = fs::metadata(file).map_err(|e| e.to_string())?;
    if !found.is_file() {
        return Err(if found.is_dir() { "is a folder" } else { "is no file" }.to_owned());
    }
    if found.len() > MAX_BYTES as u64 {
        return Err(format!("is {} bytes long, more than any box", found.len()));
    }
    let bytes = fs::read(file).map_err(|e| e.to_string())?;
    BlackBox::parse(&bytes).map_err(|e| e.to_string())
}

fn write(region: &BlackBox, file: &Path, path: &Path) -> io::Result<u64> {
    if output::same(file, path) {
        return Err(io::Error::other("it is the box itself, wanted another name"));
    }
    output::write(path, |out| region.write_capture(out))
}

/// A box in shared memory.
struct Found {
    path: PathBuf,
    /// From its name, `SERVICE-PID-MS.box`.
    service: String,
    pid: u32,
    started_ms: u64,
    /// Owner of the file.
    uid: u32,
    /// Whether its process still writes to it.
    runs: bool,
}

/// Lists the boxes that this user may read, the newest first; for root those of all users.
pub fn list(as_json: bool) -> ExitCode {
    let mut found = boxes(&shared_memory());
    found.sort_by(|a, b| (b.started_ms, &b.path).cmp(&(a.started_ms, &a.path)));
    if as_json {
        let rows: Vec<Value> = found.iter().map(to_json).collect();
        println!("{:#}", json!({"schema": 1, "boxes": rows}));
    } else if !found.is_empty() {
        let head = ["SERVICE", "PID", "SINCE (UTC)", "USER", "PROCESS", "BOX"];
        print!("{}", columns(&head, found.iter().map(row)));
    }
    if found.is_empty() {
        eprintln!(
            "dashcam: no black box that this user may read in {}/dashcam-*: boxes of processes \
             that end in order are removed, and of killed ones the newest two are kept",
            shared_memory().display()
        );
        return ExitCode::from(NOTHING);
    }
    ExitCode::SUCCESS
}

fn row(found: &Found) -> Vec<String> {
    vec![
        plain(&found.service),
        found.pid.to_string(),
        utc(found.started_ms.saturating_mul(1_000_000)),
        user(found.uid).unwrap_or_else(|| found.uid.to_string()),
        if found.runs { "still runs" } else { "ended" }.to_owned(),
        plain(&found.path.display().to_string()),
    ]
}

fn to_json(found: &Found) -> Value {
    json!({
        "box": found.path.display().to_string(),
        "service": found.service,
        "pid": found.pid,
        "since_epoch_ns": found.started_ms.saturating_mul(1_000_000),
        "uid": found.uid,
        "user": user(found.uid),
        "runs": found.runs,
    })
}

fn boxes(shared: &Path) -> Vec<Found> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders =
        entries(shared).filter(|f| f.file_name().to_string_lossy().starts_with("dashcam-"));
    let files = folders.flat_map(|folder| entries(&folder.path()).collect::<Vec<_>>());
    files.filter_map(|file| one(file.path())).collect()
}

fn one(path: PathBuf) -> Option<Found> {
    let (service, pid, started_ms) = parse(path.file_name()?.to_str()?)?;
    let service = service.to_owned();
    let uid = fs::symlink_metadata(&path).ok()?.uid();
    let runs = is_in_use(pid, started_ms, &path);
    Some(Found { path, service, pid, started_ms, uid, runs })
}

/// The service, the process and the start, Unix ms, in a box's name: `SERVICE-PID-MS.box`.
fn parse(name: &str) -> Option<(&str, u32, u64)> {
    let (rest, started_ms) = name.strip_suffix(".box")?.rsplit_once('-')?;
    let (service, pid) = rest.rsplit_once('-')?;
    Some((service, pid.parse().ok()?, started_ms.parse().ok()?))
}

/// Whether its process holds it, perhaps in another container, or process `pid` has the file
/// mapped: another process may have the number of a dead one. If its maps cannot be read: whether
/// there is such a process that is older than the box.
fn is_in_use(pid: u32, started_ms: u64, file: &Path) -> bool {
    if sys::held::is_held(file) {
        return true;
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok();
    is_mapped(maps.as_deref(), sys::processes::began_epoch_ns(pid), started_ms, file)
}

/// `maps`: None if they cannot be read; `began_ns`: of the process, None if there is none.
fn is_mapped(maps: Option<&str>, began_ns: Option<u64>, started_ms: u64, file: &Path) -> bool {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    match maps {
        Some(maps) => maps.lines().any(|line| line.ends_with(&*file.to_string_lossy())),
        None => began_ns.is_some_and(|ns| ns / 1_000_000 <= started_ms.saturating_add(SLACK_MS)),
    }
}

/// The name of a user of this host.
fn user(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let named = users.lines().find(|line| line.split(':').nth(2) == Some(&uid.to_string()))?;
    Some(plain(named.split(':').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_began_behind_a_box_has_only_the_number_of_the_one_that_wrote_it() {
        let file = Path::new("/dev/shm/dashcam-0/shop-7-1795256043000.box");
        let (started_ms, hidden) = (1_795_256_043_000, None);
        let began = |ms: u64| Some(ms * 1_000_000);
        assert!(is_mapped(hidden, began(started_ms - 86_400_000), started_ms, file));
        assert!(is_mapped(hidden, began(started_ms + SLACK_MS), started_ms, file));
        assert!(!is_mapped(hidden, began(started_ms + SLACK_MS + 1), started_ms, file));
        assert!(!is_mapped(hidden, None, started_ms, file));
        // What the maps say is exact.
        let maps = format!("1000-2000 rw-s 0 0:1 7 {}\n", file.display());
        assert!(is_mapped(Some(&maps), began(started_ms + 86_400_000), started_ms, file));
        assert!(!is_mapped(Some(""), began(started_ms), started_ms, file));
    }

    #[test]
    fn a_box_is_known_by_its_name_and_its_process_by_its_memory() {
        let folder = std::env::temp_dir().join(format!("dashcam-boxes-{}", std::process::id()));
        let of_user = folder.join("dashcam-1000");
        fs::create_dir_all(&of_user).expect("a folder");
        // A process of this number runs, and does not map the box.
        let name = format!("a-shop-{}-1795256043000.box", std::process::id());
        for name in [name.as_str(), "odd.box", "shop-1-2.txt", "shop-x-2.box"] {
            fs::write(of_user.join(name), "x").expect("written");
        }
        fs::create_dir_all(folder.join("other")).expect("a folder");
        fs::write(folder.join("other/shop-1-2.box"), "x").expect("written");
        let found = boxes(&folder);
        fs::remove_dir_all(&folder).expect("removed");
        let [found] = found.as_slice() else { panic!("{} boxes", found.len()) };
        assert_eq!(
            (found.service.as_str(), found.pid, found.runs),
            ("a-shop", std::process::id(), false)
        );
        assert_eq!(row(found)[2], "2026-11-21 10:14:03");
        assert_eq!(to_json(found)["since_epoch_ns"], 1_795_256_043_000_000_000u64);
    }
}
