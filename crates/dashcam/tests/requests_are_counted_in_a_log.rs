//! All requests are counted by name, each once, in OUT/SERVICE.rollups.log.
#![allow(clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};

use serde_json::Value;

const THREADS: u64 = 4;
const EACH: u64 = 500;

fn folder(test: &str) -> PathBuf {
    let out = std::env::temp_dir().join(format!("dashcam-rollups-{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    out
}

fn start(out: &Path, rollups: &str) {
    let config = dashcam::Config::new().memory("4MiB").out(out.display()).control("off");
    let config = config.service("counted").labels("version=4.2").slow("slow>1ms");
    dashcam::start(config.rollups(rollups).at_exit("never")).expect("starts");
}

fn lines(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("counted.rollups.log")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The sum of a field over the requests of a name, in the lines of a process.
fn sum(lines: &[Value], pid: u32, name: &str, field: &str) -> u64 {
    let own = lines.iter().filter(|line| line["pid"] == pid);
    let requests = own.flat_map(|line| line["requests"].as_array().expect("a list"));
    let named = requests.filter(|row| row["name"] == name);
    named.map(|row| row[field].as_u64().expect("a number")).sum()
}

#[test]
fn every_request_of_every_thread_and_child_is_in_one_line() {
    let out = folder("all");
    start(&out, "on");
    let work = || (0..EACH).for_each(|_| drop(dashcam::request!("quick")));
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    dashcam::snap("in between").expect("written");
    {
        let _slow = dashcam::request!("slow");
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 2 {}
    }
    let child = testkit::start_child(|| {
        work();
        dashcam::before_exit();
        0
    });
    assert_eq!(testkit::wait_for_child(child), 0);
    work();
    dashcam::before_exit();
    drop(dashcam::request!("quick"));

    let lines = lines(&out);
    let _ = std::fs::remove_dir_all(&out);
    let (own, child) = (std::process::id(), child as u32);
    assert_eq!(sum(&lines, own, "quick", "total"), (THREADS + 1) * EACH);
    assert_eq!(sum(&lines, child, "quick", "total"), EACH, "and none of its parent's");
    assert_eq!(sum(&lines, child, "slow", "total"), 0);
    assert_eq!([sum(&lines, own, "slow", "total"), sum(&lines, own, "slow", "slow")], [1, 1]);
    let excess_ns = sum(&lines, own, "slow", "excess_ns");
    assert!((2_000_000..=sum(&lines, own, "slow", "sum_ns")).contains(&excess_ns), "{excess_ns}");
    for line in &lines {
        assert_eq!(
            (&line["service"], &line["labels"]["version"]),
            (&"counted".into(), &"4.2".into())
        );
        for row in line["requests"].as_array().expect("a list") {
            let buckets = row["histogram"].as_array().expect("a list");
            let counted: u64 = buckets.iter().map(|b| b[1].as_u64().expect("a number")).sum();
            assert_eq!(counted, row["total"].as_u64().expect("a number"));
        }
    }
    let last = |pid: u32| lines.iter().rfind(|l| l["pid"] == pid).expect("a line");
    assert_eq!((&last(own)["last"], &last(child)["last"]), (&true.into(), &true.into()));
}

#[test]
fn turned_off_or_without_requests_there_is_no_log() {
    let (off, none) = (folder("off"), folder("none"));
    start(&off, "off");
    drop(dashcam::request!("quick"));
    dashcam::stop();
    assert!(!off.exists());
    std::fs::create_dir_all(&none).expect("a folder");
    let child = testkit::start_child(|| {
        start(&none, "on");
        dashcam::event!("no request");
        dashcam::before_exit();
        0
    });
    assert_eq!(testkit::wait_for_child(child), 0);
    assert_eq!(std::fs::read_dir(&none).expect("the folder").count(), 0);
    let _ = std::fs::remove_dir_all(&none);
}

#[test]
fn counts_make_no_folder_and_wait_for_it() {
    let out = folder("later");
    start(&out, "on");
    (0..3).for_each(|_| drop(dashcam::request!("quick")));
    dashcam::stop();
    assert!(!out.exists());
    std::fs::create_dir_all(&out).expect("a folder");
    start(&out, "on");
    drop(dashcam::request!("quick"));
    dashcam::stop();
    let lines = lines(&out);
    let _ = std::fs::remove_dir_all(&out);
    assert_eq!(sum(&lines, std::process::id(), "quick", "total"), 4);
}

#[test]
fn requests_that_cannot_be_listed_are_counted_as_lost() {
    let out = folder("lost");
    std::fs::create_dir_all(out.join("counted.rollups.log")).expect("a folder in its place");
    start(&out, "on");
    (0..3).for_each(|_| drop(dashcam::request!("quick")));
    dashcam::stop();
    dashcam::start(dashcam::Config::new().memory("4MiB").control("off")).expect("starts");
    let status = dashcam::status_json();
    dashcam::stop();
    let _ = std::fs::remove_dir_all(&out);
    assert!(status.contains("\"requests_unlisted\":3"), "{status}");
}
