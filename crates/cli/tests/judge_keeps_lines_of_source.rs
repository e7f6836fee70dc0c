//! `dashcam judge` keeps the lines of source around the verdict's places in the capture, if the
//! service's setting `source_lines` is on.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::path::{Path, PathBuf};

use capture::write::checksum;
use common::{as_text, dashcam, Folder};
use format::chunk::{HEADER_BYTES, MAGIC, META, NAMES};
use serde_json::Value;

/// The file that the golden capture's places are in.
const PROGRAM: &str = "/srv/zoo/tests/captures/programs/cheroot_sleep/program.py";

/// A golden capture of a program in `folder`, recorded with `source_lines` on or off.
fn capture(folder: &Folder, setting: bool) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let found = golden::store::entries(&all, "cheroot_sleep").expect("the golden captures");
    let entry = found.into_iter().find(|entry| entry.name == "cheroot_sleep").expect("there");
    let bytes = entry.capture().expect("unpacks");
    let settings = format!("\"settings\":{{\"source_lines\":{setting},");
    let program = same_length(&folder.0.join("program.py"));
    let (mut out, mut rest) = (MAGIC.to_vec(), &bytes[MAGIC.len()..]);
    while !rest.is_empty() {
        let tag: [u8; 4] = rest[..4].try_into().expect("4");
        let length = u32::from_le_bytes(rest[4..8].try_into().expect("4")) as usize;
        let payload = &rest[HEADER_BYTES..HEADER_BYTES + length];
        let payload = match tag {
            META => replaced(payload, "\"settings\":{", &settings),
            NAMES => replaced(payload, PROGRAM, &program),
            _ => payload.to_vec(),
        };
        out.extend(tag);
        out.extend((payload.len() as u32).to_le_bytes());
        out.extend(checksum(tag, &payload).to_le_bytes());
        out.extend(payload);
        rest = &rest[HEADER_BYTES + length..];
    }
    let path = folder.0.join(format!("{setting}.dashcam"));
    std::fs::write(&path, out).expect("written");
    path
}

/// The path, as long as the one that it replaces: the tables count in bytes.
fn same_length(path: &Path) -> String {
    let (folder, name) = (path.parent().expect("a folder"), path.file_name().expect("a name"));
    let (folder, name) = (folder.display().to_string(), name.to_string_lossy());
    let slashes = PROGRAM.len().checked_sub(folder.len() + name.len()).expect("a short folder");
    format!("{folder}{}{name}", "/".repeat(slashes))
}

fn replaced(payload: &[u8], from: &str, to: &str) -> Vec<u8> {
    let found = payload.windows(from.len()).position(|part| part == from.as_bytes());
    let at = found.unwrap_or_else(|| panic!("no {from} in the golden capture"));
    [&payload[..at], to.as_bytes(), &payload[at + from.len()..]].concat()
}

fn source(folder: &Folder, capture: &Path) -> Value {
    let why = dashcam(&folder.0, &["why", "--json"]).arg(capture).output().expect("dashcam runs");
    let mut verdict: Value = serde_json::from_slice(&why.stdout).expect("JSON");
    assert_eq!(verdict["causes"][0]["where"]["line"], 16);
    verdict["causes"][0]["where"]["source"].take()
}

fn judge(folder: &Folder, capture: &Path) {
    let judged = dashcam(&folder.0, &["judge"]).arg(capture).output().expect("dashcam runs");
    assert!(as_text(&judged.stderr).contains("sleep at program.py:16"), "{judged:?}");
}

#[test]
fn the_lines_stay_with_the_capture_when_the_file_is_gone() {
    let folder = Folder::new("source");
    let program = folder.0.join("program.py");
    let text: String = (1..=20).map(|n| format!("    line({n})\n")).collect();
    std::fs::write(&program, text).expect("written");
    let on = capture(&folder, true);
    assert_eq!(source(&folder, &on), Value::Null, "nobody has judged it");
    judge(&folder, &on);
    std::fs::remove_file(&program).expect("removed");
    let kept = source(&folder, &on);
    assert_eq!(kept["first"], 14);
    assert_eq!(kept["lines"].as_array().map(Vec::len), Some(5));
    assert_eq!(kept["lines"][2], "    line(16)");
    assert_eq!(kept["changed"], true, "the file is newer than the process of the golden capture");
    let bytes = std::fs::read(&on).expect("there");
    judge(&folder, &on);
    assert_eq!(std::fs::read(&on).expect("there"), bytes, "judged again, and not kept twice");
}

#[test]
fn source_lines_off_keeps_none() {
    let folder = Folder::new("no-source");
    let off = capture(&folder, false);
    std::fs::write(folder.0.join("program.py"), "line\n".repeat(20)).expect("written");
    let bytes = std::fs::read(&off).expect("there");
    judge(&folder, &off);
    assert_eq!(std::fs::read(&off).expect("there"), bytes);
    assert_eq!(source(&folder, &off), Value::Null);
}
