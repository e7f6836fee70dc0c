//! One alert for each cause and hour, over all processes that write into a folder.
//!
//! How it works: an alert is a file in `FOLDER/.alerts`, whose time is when it was sent. The file
//! is created only if it is not there, which one of several processes does. An old file is first
//! renamed, which also only one of them does.
//!
//! What it promises: of processes that alert at once one sends. A process that is killed while it
//! sends keeps the cause quiet for an hour.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const QUIET: Duration = Duration::from_secs(3600);

/// The right to send an alert.
pub struct Claim(PathBuf);

impl Claim {
    /// None: it was sent within the hour. Errors: the folder cannot be written to.
    pub fn take(folder: &Path, key: &str) -> io::Result<Option<Claim>> {
        Claim::take_at(folder, key, SystemTime::now())
    }

    fn take_at(folder: &Path, key: &str, now: SystemTime) -> io::Result<Option<Claim>> {
        let folder = folder.join(".alerts");
        fs::create_dir_all(&folder)?;
        let path = folder.join(key);
        if let Ok(sent) = fs::metadata(&path).and_then(|found| found.modified()) {
            if now.duration_since(sent).is_ok_and(|age| age >= QUIET) {
                let old = folder.join(format!(".{key}.{}", std::process::id()));
                // An error: another process was first.
                let _ = fs::rename(&path, &old).and_then(|()| fs::remove_file(&old));
            }
        }
        match fs::File::create_new(&path) {
            Ok(file) => file.set_modified(now).map(|()| Some(Claim(path))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// It could not be sent: the next one may.
    pub fn give_back(self) {
        // An error: then the cause stays quiet for the hour.
        let _ = fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_quiet_for_an_hour_unless_it_could_not_be_sent() {
        let folder = std::env::temp_dir().join(format!("dashcam-once-{}", std::process::id()));
        let now = SystemTime::now();
        let take = |key: &str, after_s: u64| {
            let at = now + Duration::from_secs(after_s);
            Claim::take_at(&folder, key, at).expect("a folder of ours")
        };
        take("a", 0).expect("the first").give_back();
        assert!(take("a", 1).is_some(), "it was not sent");
        assert!(take("a", 2).is_none() && take("a", 3500).is_none());
        assert!(take("b", 3).is_some(), "another cause");
        assert!(take("a", 3700).is_some());
        assert!(take("a", 3701).is_none());
        fs::remove_dir_all(&folder).expect("ours");
    }
}
