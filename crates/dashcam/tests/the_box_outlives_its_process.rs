//! kill -9, abort, a panic: at any moment, under load. What was recorded is in the box, whole.
//!
//! `DASHCAM_KILLS` sets how many (default 30; the live lane runs 500).
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capture::read::Capture;
use capture::region::BlackBox;
use dashcam::{Runtime, Value};

/// The key of the checked attribute: the second name of a new box is the first one interned.
const KEY: &str = "checked";

/// The process that is going to die: four threads record all the time, others come and go.
#[test]
fn victim() {
    let Ok(way) = std::env::var("DASHCAM_TEST_VICTIM") else { return };
    let given = [("service", "victim"), ("memory", "1MiB"), ("switches", "off")];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    dashcam::start_with_runtime(&given, Runtime::default()).expect("starts");
    let tables = dashcam::current().expect("recording").tables();
    let (name, key) = (tables.name("load"), tables.name(KEY));
    println!("{}\t{key}", dashcam::status_json());
    let work = move |n: u64| {
        for i in 0..n {
            dashcam::event(name, i, &[(key, Value::Int((i * 3 + 1) as i64))]);
        }
    };
    for _ in 0..3 {
        std::thread::spawn(move || work(u64::MAX));
    }
    std::thread::spawn(move || loop {
        let _ = std::thread::spawn(move || work(5)).join();
    });
    std::io::stdin().read_line(&mut String::new()).expect("the test has looked at the box");
    std::thread::sleep(Duration::from_millis(way.len() as u64 % 7));
    match way.as_str() {
        "abort" => std::process::abort(),
        "panic" => std::thread::spawn(|| {
            let _abort = AbortOnDrop;
            panic!("on purpose");
        })
        .join()
        .expect("never comes back"),
        _ => std::thread::sleep(Duration::from_secs(60)),
    }
}

struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Starts a victim and waits until it records: the process, its box, the id of the checked key.
fn start(way: &str, memory: &Path) -> (Child, PathBuf, u32) {
    let mut child = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", "victim", "--nocapture"])
        .env("DASHCAM_TEST_VICTIM", way)
        .env("DASHCAM_SHM", memory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let line = out.lines().map_while(Result::ok).find(|line| line.contains("\"box\":"));
    let line = line.expect("the victim tells its box");
    let text = line.split("\"box\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let key = line.rsplit('\t').next().and_then(|key| key.trim().parse().ok());
    let path = PathBuf::from(text.expect("a path"));
    // Elsewhere its number has to do.
    let has_own_table = line.contains("\"own_descriptors\":\"on\"");
    assert_eq!(sys::held::is_held(&path), has_own_table, "{line}");
    child.stdin.take().expect("piped").write_all(b"die\n").expect("it lives");
    (child, path, key.expect("an id"))
}

#[test]
fn deaths_lose_nothing_that_was_recorded() {
    let kills: usize = testkit::count("DASHCAM_KILLS", 30);
    // Of the boxes of killed processes only the newest two of a folder are kept.
    let memory = testkit::Folder::new("killed");
    let (mut word, mut most) = (0x9e37_79b9_7f4a_7c15u64, 0);
    for i in 0..kills {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        let way = match i % 10 {
            8 => "abort",
            9 => "panic",
            _ => "kill -9",
        };
        let (mut child, path, key) = start(way, memory.path());
        if way == "kill -9" {
            std::thread::sleep(Duration::from_micros(word % 12_000));
            child.kill().expect("ours");
        }
        child.wait().expect("ours");
        assert!(!sys::held::is_held(&path));
        let found = common::Box::read(&path);
        found.balance(key);
        most = most.max(found.written().0);
        if i % 25 == 0 {
            recovered(&path);
        }
        std::fs::remove_file(&path).expect("ours");
    }
    assert!(most > 1_000, "the victims recorded under load: {most} at most");
}

/// The capture that `dashcam recover` makes holds what the box holds.
fn recovered(path: &PathBuf) {
    let bytes = std::fs::read(path).expect("there");
    let region = BlackBox::parse(&bytes).expect("a box");
    let mut file = Vec::new();
    region.write_capture(&mut file).expect("memory");
    let capture = Capture::parse(&file).expect("a capture");
    assert_eq!(capture.damage, Vec::<String>::new());
    let in_box: u64 = common::Box::read(path).check(0).values().sum();
    assert_eq!(capture.coverage.iter().map(|c| c.read).sum::<u64>(), in_box);
    let newest = capture.events.iter().map(|e| e.t_ns).max().unwrap_or_default();
    assert!(capture.meta.to_ns >= newest, "it says how far it reaches");
}
