//! `dashcam ls`: the captures in a folder, the newest first, each with its reason and its verdict.
//!
//! How it works: the files are those of the folder; reason and verdict are from the lists of
//! captures beside them (`*.captures.log`), so no capture is read, however many there are.
//!
//! What it promises: a file that no list has is shown without them.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use serde_json::{json, Value};

use crate::columns::{columns, local, plain};
use crate::exit_code::{NOTHING, UNREADABLE};
use crate::read::captures_in;

/// What the lists have of a file.
#[derive(Default)]
struct Listed {
    reason: String,
    verdict: String,
}

/// Lists the captures in a folder.
pub fn ls(folder: &Path, as_json: bool) -> ExitCode {
    if let Err(error) = std::fs::read_dir(folder) {
        eprintln!("dashcam: {}: {error}; wanted a folder with captures in it", folder.display());
        return ExitCode::from(UNREADABLE);
    }
    let mut files = captures_in(folder);
    files.sort_unstable();
    let listed = listed(folder);
    let row = |(saved, bytes, path): &(std::time::SystemTime, u64, std::path::PathBuf)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = listed.get(&name);
        let epoch_ns = saved.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        json!({
            "file": name, "bytes": bytes, "saved_epoch_ns": epoch_ns,
            "reason": found.map_or("", |l| &l.reason), "verdict": found.map_or("", |l| &l.verdict),
        })
    };
    let rows: Vec<Value> = files.iter().rev().map(row).collect();
    if as_json {
        println!("{:#}", json!({"schema": 1, "captures": rows}));
    } else if !rows.is_empty() {
        print!("{}", table(&rows));
    }
    match rows.is_empty() {
        true => {
            eprintln!("dashcam: no capture (*.dashcam) in {}", folder.display());
            ExitCode::from(NOTHING)
        }
        false => ExitCode::SUCCESS,
    }
}

fn table(rows: &[Value]) -> String {
    let text = |row: &Value, key: &str| match row[key].as_str() {
        None | Some("") => "-".to_owned(),
        Some(text) => plain(text),
    };
    let cells = rows.iter().map(|row| {
        vec![
            local(row["saved_epoch_ns"].as_u64().unwrap_or(0)),
            size(row["bytes"].as_u64().unwrap_or(0)),
            text(row, "file"),
            text(row, "reason"),
            text(row, "verdict"),
        ]
    });
    columns(&["SAVED", "SIZE", "FILE", "REASON", "VERDICT"], cells)
}

/// By the name of the file. The folder may have been moved since.
fn listed(folder: &Path) -> HashMap<String, Listed> {
    let is_list = |name: &str| name.ends_with(".captures.log") || name.ends_with(".captures.log.1");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let lists = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_list));
    let mut found: HashMap<String, Listed> = HashMap::new();
    for list in lists {
        let text = std::fs::read(list.path()).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            let mut fields = line.split('\t').skip(1);
            let (Some(path), Some(text)) = (fields.next(), fields.next()) else { continue };
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            let row = found.entry(name).or_default();
            match text.strip_prefix("verdict: ") {
                Some(verdict) => verdict.clone_into(&mut row.verdict),
                None => text.clone_into(&mut row.reason),
            }
        }
    }
    found
}

/// Bytes as a person reads them: most captures are far below a MiB.
fn size(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{} KiB", bytes / 1024),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}
