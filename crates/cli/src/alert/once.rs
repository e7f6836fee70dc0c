//! One alert for each cause and hour, over all processes that write into a folder.
//!
//! How it works: an alert is a file in `FOLDER/.alerts`, whose time is when it was sent. Processes
//! take turns to look at it and to set its time.
//!
//! What it promises: of processes that alert at once one sends. A process that is killed while it
//! sends keeps the cause quiet for an hour.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const QUIET: Duration = Duration::from_secs(3600);
/// Another process that was stopped in its turn is not waited for any longer.
const LONGEST_TURN: Duration = Duration::from_secs(10);

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
        let _turn = turn(&folder.join(".turn"))?;
        let path = folder.join(key);
        if let Ok(sent) = fs::metadata(&path).and_then(|found| found.modified()) {
            // A time in the future: the clock was set since.
            if now.duration_since(sent).is_ok_and(|age| age < QUIET) {
                return Ok(None);
            }
        }
        fs::File::create(&path)?.set_modified(now)?;
        Ok(Some(Claim(path)))
    }

    /// It could not be sent: the next one may.
    pub fn give_back(self) {
        // An error: then the cause stays quiet for the hour.
        let _ = fs::remove_file(self.0);
    }
}

/// Waits for the turn: others have it for as long as it takes to look at a file.
fn turn(path: &Path) -> io::Result<OwnedFd> {
    let until = Instant::now() + LONGEST_TURN;
    loop {
        match sys::turn::take(path)? {
            Some(turn) => return Ok(turn),
            None if Instant::now() > until => return Err(io::ErrorKind::TimedOut.into()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
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

    #[test]
    fn of_many_that_find_an_old_alert_one_sends() {
        let folder = testkit::Folder::new("once-many");
        let now = SystemTime::now();
        for round in 0..20 {
            let at = now + Duration::from_secs(round * 4000);
            let all = std::thread::scope(|scope| {
                let take = || Claim::take_at(folder.path(), "a", at).expect("a folder of ours");
                let all: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
                all.into_iter().filter_map(|one| one.join().expect("no panic")).count()
            });
            assert_eq!(all, 1, "round {round}");
        }
    }
}
