//! A recording that was stopped goes on under the name that the next start gives: in its captures
//! and in the name of its black box, by which `dashcam recover` knows it.
#![allow(clippy::expect_used, missing_docs)]

use std::path::PathBuf;

use dashcam::{start, status_json, stop, Config};
use testkit::Folder;

fn begin(service: &str, folder: &Folder) -> PathBuf {
    let config = Config::new().service(service).memory("1MiB").out(folder.path().display());
    assert!(start(config.control(false)).expect("starts"));
    let status = status_json();
    assert!(status.contains(&format!("\"service\":\"{service}\"")), "{status}");
    let path = status.split("\"box\":\"").nth(1).and_then(|rest| rest.split('"').next());
    path.expect("a box in a file").into()
}

#[test]
fn the_box_has_the_name_of_the_service_since_the_latest_start() {
    let folder = Folder::new("service-name");
    std::env::set_var("DASHCAM_SHM", folder.path());
    let before = begin("billy", &folder);
    stop();
    let after = begin("shop", &folder);
    let name = |path: &PathBuf| path.file_name().expect("named").to_string_lossy().into_owned();
    assert_eq!(name(&after), name(&before).replacen("billy", "shop", 1));
    assert!(after.exists() && !before.exists());
    stop();
    assert_eq!(begin("shop", &folder), after, "the same name, the same box");
    dashcam::before_exit();
    assert!(!after.exists(), "an orderly end removes it");
}
