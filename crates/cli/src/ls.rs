//! `dashcam ls`: the captures in a folder, the newest first, each with its reason and its verdict.
//!
//! How it works: the files are those of the folder; reason and verdict are from the lists of
//! captures beside them (`*.captures.log`), so no capture is read, however many there are.
//!
//! What it promises: a file that no list has is shown without them. A line each in a pipe, where a
//! reason is cut; at a terminal a file's verdict and reason are on lines of their own, cut at its
//! width.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use serde_json::{json, Value};

use crate::output::columns::{bytes_text, columns, cut, local, plain};
use crate::output::exit_code::{NOTHING, UNREADABLE};
use crate::output::terminal;
use crate::read::{captures_in, no_capture_in};

/// Characters of a reason in a pipe, whose column is as wide as the longest. `--json` has all.
const REASON_MAX: usize = 40;

/// What the lists have of a file.
#[derive(Default)]
struct Listed {
    reason: String,
    verdict: String,
}

/// Lists the captures in a folder.
pub fn ls(folder: &Path, as_json: bool) -> ExitCode {
    if let Err(error) = std::fs::read_dir(folder) {
        eprintln!(
            "dashcam: {}: {error}; wanted a folder with captures in it: dashcam ls FOLDER",
            folder.display()
        );
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
        match terminal::terminal() {
            Some(screen) => print!("{}", page(&rows, screen.columns)),
            None => print!("{}", table(&rows)),
        }
    }
    match rows.is_empty() {
        true => {
            eprintln!("dashcam: {}", no_capture_in(folder));
            ExitCode::from(NOTHING)
        }
        false => ExitCode::SUCCESS,
    }
}

/// A field of a row; `-` if it is empty.
fn field(row: &Value, key: &str) -> String {
    match row[key].as_str() {
        None | Some("") => "-".to_owned(),
        Some(text) => plain(text),
    }
}

fn saved(row: &Value) -> String {
    local(row["saved_epoch_ns"].as_u64().unwrap_or(0))
}

fn size(row: &Value) -> String {
    bytes_text(row["bytes"].as_u64().unwrap_or(0))
}

/// For a terminal.
fn page(rows: &[Value], width: usize) -> String {
    let mut out = String::new();
    for row in rows {
        out += &format!("{}  {}  {}\n", field(row, "file"), size(row), saved(row));
        for (label, key) in [("verdict", "verdict"), ("saved for", "reason")] {
            let text = field(row, key);
            if text != "-" {
                out += &cut(&format!("    {label:9}  {text}"), width);
                out.push('\n');
            }
        }
    }
    out
}

/// For a pipe.
fn table(rows: &[Value]) -> String {
    let cells = rows.iter().map(|row| {
        let reason = cut(&field(row, "reason"), REASON_MAX);
        vec![saved(row), size(row), field(row, "file"), reason, field(row, "verdict")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_pipe_a_long_reason_is_cut() {
        let reason = "slow: a request was still running after 300 ms: GET /price/<sku>";
        let row = json!({"file": "a.dashcam", "bytes": 3, "reason": reason, "verdict": "cpu"});
        let line = table(&[row]).lines().nth(1).map(str::to_owned).unwrap_or_default();
        assert!(
            line.ends_with("  a.dashcam  slow: a request was still running after…  cpu"),
            "{line}"
        );
    }

    #[test]
    fn at_a_terminal_no_line_is_longer_than_it() {
        let row = json!({"file": "a-1.dashcam", "bytes": 65_536, "saved_epoch_ns": 0,
            "reason": "slow: a request took 1.01 s: GET /", "verdict": "sleep at a.py:1 f()"});
        let bare = json!({"file": "b.dashcam", "bytes": 3, "reason": "", "verdict": ""});
        let text = page(&[row, bare], 40);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("a-1.dashcam  64 KiB  1970-01-01 "), "{text}");
        assert_eq!(lines[1], "    verdict    sleep at a.py:1 f()");
        assert_eq!(lines[2], "    saved for  slow: a request took 1.0…");
        assert!(lines.len() == 4 && lines[3].starts_with("b.dashcam  3 B  "), "{text}");
    }
}
