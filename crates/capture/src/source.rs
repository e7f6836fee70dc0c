//! Lines of source around the places that a verdict names: the chunk `SRCE`.
//!
//! How it works: `dashcam judge` reads them on the host, where the files are, and appends the chunk
//! behind the end mark. A capture that leaves its host takes them along. Readers of earlier
//! versions stop at the end mark.
//!
//! What it promises: the bytes of the recorder do not change, so an append that is cut off costs
//! these lines and nothing else. Any bytes give bounded lists. Missing on purpose: reading the
//! source files, which is the business of the one that judges.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use format::chunk::SOURCE;
use serde_json::{json, Value};

use crate::write::checksum;

/// Places in a chunk.
pub const PLACES_MAX: usize = 32;
/// Lines of a place.
pub const LINES_MAX: usize = 5;
/// Characters of a line.
pub const CHARS_MAX: usize = 240;

/// The source around one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLines {
    /// The file, as frames name it.
    pub file: String,
    /// The line of the place.
    pub line: u32,
    /// The line that `lines` begins with.
    pub first: u32,
    /// The lines, without their ends.
    pub lines: Vec<String>,
    /// The file was written since the process began: these need not be the lines that ran.
    pub changed: bool,
}

impl SourceLines {
    /// The line of the place.
    pub fn own_line(&self) -> Option<&str> {
        let at = self.line.checked_sub(self.first)?;
        self.lines.get(at as usize).map(String::as_str)
    }

    fn from_json(value: &Value) -> Option<SourceLines> {
        let number = |key: &str| value[key].as_u64().and_then(|n| u32::try_from(n).ok());
        let lines = value["lines"].as_array()?.iter().take(LINES_MAX);
        let cut = |line: &str| line.chars().take(CHARS_MAX).collect();
        Some(SourceLines {
            file: value["file"].as_str()?.to_owned(),
            line: number("line")?,
            first: number("first")?,
            lines: lines.map(|line| line.as_str().map(cut)).collect::<Option<_>>()?,
            changed: value["changed"].as_bool()?,
        })
    }
}

/// Appends the chunk to a capture. Its time of writing stays: the newest capture of a folder is the
/// one that was recorded last.
pub fn append(capture: &Path, places: &[SourceLines]) -> io::Result<()> {
    let payload = payload(places);
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut bytes = SOURCE.to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(checksum(SOURCE, &payload).to_le_bytes());
    bytes.extend(payload);
    let mut file = OpenOptions::new().append(true).open(capture)?;
    let saved = file.metadata()?.modified()?;
    file.write_all(&bytes)?;
    file.set_modified(saved)
}

fn payload(places: &[SourceLines]) -> Vec<u8> {
    let row = |s: &SourceLines| {
        json!({
            "file": s.file, "line": s.line, "first": s.first, "lines": s.lines, "changed": s.changed,
        })
    };
    let rows: Vec<Value> = places.iter().take(PLACES_MAX).map(row).collect();
    json!({ "places": rows }).to_string().into_bytes()
}

/// The places of a chunk's payload; without those that are of another form.
pub(crate) fn parse(payload: &[u8]) -> Vec<SourceLines> {
    let all: Value = serde_json::from_slice(payload).unwrap_or_default();
    let rows = all["places"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().take(PLACES_MAX).filter_map(SourceLines::from_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32) -> SourceLines {
        SourceLines {
            file: "/srv/app.py".into(),
            line,
            first: line - 1,
            lines: vec!["with lock:".into(), "    time.sleep(1)\u{1b}[31m".into()],
            changed: true,
        }
    }

    #[test]
    fn places_are_taken_back_and_another_form_is_none() {
        let places = [place(7), place(9)];
        assert_eq!(parse(&payload(&places)), places);
        assert_eq!(places[0].own_line(), Some("    time.sleep(1)\u{1b}[31m"));
        assert!(parse(b"{").is_empty() && parse(b"{\"places\":[{\"file\":3}]}").is_empty());
    }

    #[test]
    fn lists_and_lines_are_bounded_whatever_the_bytes_are() {
        let lines = vec!["x".repeat(CHARS_MAX + 1); LINES_MAX + 1];
        let row = json!({"file": "f", "line": 1, "first": 1, "changed": false, "lines": lines});
        let rows = vec![row; PLACES_MAX + 1];
        let found = parse(json!({ "places": rows }).to_string().as_bytes());
        assert_eq!(found.len(), PLACES_MAX);
        assert!(found.iter().all(|place| place.lines.len() == LINES_MAX));
        assert!(found.iter().flat_map(|p| &p.lines).all(|line| line.len() == CHARS_MAX));
    }

    #[test]
    fn a_line_that_the_place_does_not_have_is_none() {
        let odd = SourceLines { first: 90, ..place(7) };
        assert_eq!(odd.own_line(), None);
        assert_eq!(SourceLines { first: 1, ..place(7) }.own_line(), None);
    }
}
