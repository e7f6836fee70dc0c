//! Processes of one service that save captures into one folder at the same time keep its bound
//! together: never more than `keep` and one a process, in the end exactly `keep`; nobody fails,
//! nothing is left behind.
#![allow(clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROCESSES: usize = 3;
const EACH: usize = 20;
const KEEP: usize = 3;
/// Far above what it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const FOLDER: &str = "DASHCAM_TEST_FOLDER";

/// Runs as a child of its own, several times at once.
#[test]
fn one_of_them() {
    let Some(out) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let config = dashcam::Config::new().service("shared").memory("1MiB").out(out.display());
    let config = config.keep(KEEP).switches(false).control("off").at_exit("never");
    dashcam::start(config).expect("starts");
    let begin = Instant::now();
    while !out.join("go").exists() {
        assert!(begin.elapsed() < LIMIT, "nobody says go");
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..EACH {
        dashcam::snap("one of many").expect("written");
    }
    let status = dashcam::status_json();
    dashcam::before_exit();
    println!("STATUS {status}");
}

fn start(out: &Path) -> Child {
    let mut own = Command::new(std::env::current_exe().expect("a program"));
    let own = own.args(["--exact", "one_of_them", "--nocapture"]).env(FOLDER, out);
    own.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
}

fn names(out: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(out).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn captures(out: &Path) -> Vec<String> {
    names(out).into_iter().filter(|name| name.ends_with(".dashcam")).collect()
}

fn loss(status: &str, name: &str) -> usize {
    let (_, behind) = status.split_once(&format!("\"{name}\":")).expect(name);
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn they_keep_its_bound_together() {
    let out = std::env::temp_dir().join(format!("dashcam-shared-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).expect("a folder");
    let mut children: Vec<Child> = (0..PROCESSES).map(|_| start(&out)).collect();
    std::fs::write(out.join("go"), "").expect("written");
    let (begin, mut most) = (Instant::now(), 0);
    while children.iter_mut().any(|child| child.try_wait().expect("ours").is_none()) {
        most = most.max(captures(&out).len());
        if begin.elapsed() > LIMIT {
            children.iter_mut().for_each(|child| child.kill().expect("ours"));
        }
    }
    assert!((KEEP..=KEEP + PROCESSES).contains(&most), "{most} captures at once");

    let mut removed = 0;
    for child in children {
        let said = child.wait_with_output().expect("ours");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success(), "{text}{errors}");
        assert_eq!(errors.lines().count(), EACH, "{errors}");
        assert!(errors.lines().all(|line| line.starts_with("dashcam: captured ")), "{errors}");
        let (_, status) = text.split_once("STATUS ").expect("told at the end");
        assert_eq!((loss(status, "captures_failed"), loss(status, "captures_unlisted")), (0, 0));
        removed += loss(status, "captures_removed");
    }
    let left = captures(&out);
    assert_eq!(left.len(), KEEP, "{left:?}");
    assert_eq!(removed, PROCESSES * EACH - KEEP, "each is removed once, by one of them");
    for name in &left {
        let capture = capture::read::Capture::open(&out.join(name)).expect("a capture");
        assert!(capture.damage.is_empty(), "{:?}", capture.damage);
    }
    let others: Vec<String> = names(&out).into_iter().filter(|name| !left.contains(name)).collect();
    assert_eq!(others, ["go", "shared.captures.log"]);
    let log = std::fs::read_to_string(out.join("shared.captures.log")).expect("readable");
    assert_eq!(log.lines().count(), PROCESSES * EACH);
    assert!(log.lines().all(|line| line.split('\t').count() == 6), "{log}");
    testkit::remove(&out);
}
