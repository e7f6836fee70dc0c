//! Where no file can be had for the box, the service runs on, records in its own memory, and
//! `status` says why.
#![allow(clippy::expect_used, missing_docs)]

use std::path::Path;
use std::process::Command;

use dashcam::Runtime;

/// Runs as a child of its own, since the limit and the recorder are the process's.
#[test]
fn limited() {
    if std::env::var_os("DASHCAM_TEST_LIMITED").is_none() {
        return;
    }
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: the structure is whole.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let out = std::env::temp_dir().join(format!("dashcam-limited-{}", std::process::id()));
    let out = out.display().to_string();
    let given = [("memory", "8MiB"), ("out", out.as_str())];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    assert!(dashcam::start_with_runtime(&given, Runtime::default()).expect("starts all the same"));
    let name = dashcam::current().expect("recording").tables().name("here");
    (0..1000).for_each(|i| dashcam::event(name, i, &[]));
    println!("{}", dashcam::status_json());
    // A megabyte is enough for this capture.
    println!("captured {}", dashcam::snap("test").expect("a small capture").display());
    dashcam::before_exit();
}

#[test]
fn a_file_size_limit_does_not_kill_the_service() {
    let out = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", "limited", "--nocapture"])
        .env("DASHCAM_TEST_LIMITED", "1")
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("\"box\":\"process memory\""), "{text}");
    assert!(text.contains("File too large"), "{text}");
    let path = text.lines().find_map(|line| line.strip_prefix("captured "));
    let path = Path::new(path.expect("a path"));
    assert!(path.is_file());
    testkit::remove(path.parent().expect("a folder"));
}
