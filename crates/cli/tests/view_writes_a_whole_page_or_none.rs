//! `dashcam view`: where the page goes, what is printed, and that nothing remains when it fails.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{as_text, Folder};

fn view(capture: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    // There is a screen, but stdout is no terminal: no browser may be started.
    command.env("DISPLAY", ":99").env("PATH", "/nowhere");
    command.arg("view").arg(capture).args(more).output().expect("dashcam runs")
}

#[test]
fn beside_the_capture_and_its_path_on_stdout() {
    let folder = Folder::new("beside");
    let capture = folder.capture();
    let out = view(&capture, &[]);
    assert_eq!(out.status.code(), Some(0), "{}", as_text(&out.stderr));
    let page = folder.0.join("one.html");
    assert_eq!(as_text(&out.stdout).trim(), page.display().to_string());
    let html = fs::read_to_string(page).expect("the page");
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    assert!(html.contains("&lt;b&gt;billy&lt;/b&gt; - dashcam"));
    assert!(html.contains("No requests in this capture: nothing to judge."));
    assert_eq!(folder.files(), ["one.dashcam", "one.html"]);
}

#[test]
fn a_file_that_is_no_capture_is_refused_and_leaves_nothing() {
    let folder = Folder::new("refused");
    let wrong = folder.0.join("wrong.dashcam");
    fs::write(&wrong, "PK\u{3}\u{4} something else").expect("a file");
    let out = view(&wrong, &[]);
    assert_eq!(out.status.code(), Some(3));
    let stderr = as_text(&out.stderr);
    assert!(stderr.contains("wrong.dashcam: not a dashcam capture: begins with"), "{stderr}");
    assert_eq!(folder.files(), ["wrong.dashcam"]);
    let absent = view(&folder.0.join("absent.dashcam"), &[]);
    assert_eq!(absent.status.code(), Some(3));
    assert!(as_text(&absent.stderr).contains("absent.dashcam"));
}

#[test]
fn every_truncation_is_refused_or_gives_a_whole_page() {
    let folder = Folder::new("cut");
    let bytes = fs::read(folder.capture()).expect("the capture");
    let (cut, page) = (folder.0.join("cut.dashcam"), folder.0.join("cut.html"));
    for end in (0..bytes.len()).step_by(7) {
        fs::write(&cut, &bytes[..end]).expect("a file");
        let _ = fs::remove_file(&page);
        let code = view(&cut, &[]).status.code();
        let html = fs::read_to_string(&page).ok();
        match code {
            Some(0) => assert!(html.is_some_and(|h| h.trim_end().ends_with("</html>"))),
            other => assert_eq!((other, html), (Some(3), None), "cut at {end}"),
        }
    }
}

#[test]
fn an_unwritable_target_is_reported_and_the_capture_is_not_overwritten() {
    let folder = Folder::new("place");
    let capture = folder.capture();
    let before = fs::read(&capture).expect("the capture");
    let itself = view(&capture, &["-o", &capture.display().to_string()]);
    assert_eq!(itself.status.code(), Some(2));
    assert!(as_text(&itself.stderr).contains("is the capture itself"));
    let onto_folder = view(&capture, &["-o", &folder.0.display().to_string()]);
    assert_eq!(onto_folder.status.code(), Some(2));
    assert!(as_text(&onto_folder.stderr).contains("it is a folder, wanted a file"));
    let nowhere = folder.0.join("no/such/page.html").display().to_string();
    assert_eq!(view(&capture, &["-o", &nowhere]).status.code(), Some(2));
    assert_eq!(fs::read(&capture).expect("the capture"), before);
    assert_eq!(folder.files(), ["one.dashcam"]);
    assert_eq!(view(&capture, &["--slow", "nonsense"]).status.code(), Some(2));
}
