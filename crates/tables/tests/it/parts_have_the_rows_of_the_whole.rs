//! The tables of a capture that is read in parts have the rows of the capture in memory, in the
//! same order.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use capture::read::{Capture, Parts, Wanted};
use golden::{large, store};
use tables::{Divided, Halt, InParts, Kind, Limit, Source, Table};

struct All<'b> {
    parts: Parts<Cursor<&'b [u8]>>,
    capture: Capture,
}

impl InParts for All<'_> {
    fn each(
        &mut self,
        wanted: Wanted,
        each: &mut dyn FnMut(&mut Capture) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        self.parts.again_for(wanted)?;
        while self.parts.next(&mut self.capture)? {
            each(&mut self.capture)?;
        }
        Ok(())
    }

    fn last(&mut self) -> &mut Capture {
        &mut self.capture
    }
}

fn limit() -> Limit {
    Box::new(|_| 1_300_000)
}

type Rows = BTreeMap<&'static str, Vec<String>>;

/// A row as text, `column=value`, so that a difference can be read.
fn text(table: &Table, batch: &RecordBatch, out: &mut Vec<String>) {
    for row in 0..batch.num_rows() {
        let mut line = String::new();
        for (column, values) in table.columns.iter().zip(batch.columns()) {
            let value = match column.kind {
                _ if values.is_null(row) => "NULL".to_owned(),
                Kind::Int => values.as_primitive::<Int64Type>().value(row).to_string(),
                Kind::Float => values.as_primitive::<Float64Type>().value(row).to_string(),
                Kind::Bool => values.as_boolean().value(row).to_string(),
                Kind::Text => values.as_string::<i32>().value(row).to_owned(),
                Kind::Utc => {
                    values.as_primitive::<TimestampMicrosecondType>().value(row).to_string()
                }
            };
            line += &format!("{}={value} ", column.name);
        }
        out.push(line);
    }
}

fn in_whole(bytes: &[u8]) -> Rows {
    let capture = Capture::parse(bytes).expect("a capture");
    let source = Source::new(capture, "a.dashcam".to_owned(), limit());
    rows(&mut |table, each| table.write(&source, each))
}

/// The rows, and how many parts there were.
fn in_parts(bytes: &[u8], words: usize) -> (Rows, usize) {
    let (parts, capture) = Parts::parse(bytes, words).expect("a capture");
    let (count, own_stacks) = (parts.count(), parts.own_stacks());
    let wanted = |capture: &Capture| diagnosis::wanted(capture, limit());
    let judged = Capture::parse_judged(bytes, &wanted, usize::MAX).expect("a capture");
    let judged = Source::new(judged, "a.dashcam".to_owned(), limit());
    let mut all = All { parts, capture };
    let file = "a.dashcam".to_owned();
    let mut divided =
        Divided::new(&mut all, file, limit(), (judged, own_stacks)).expect("readable");
    (rows(&mut |table, each| divided.write(table, each)), count)
}

type Each<'e> = dyn FnMut(RecordBatch) -> Result<(), Halt> + 'e;

fn rows(write: &mut dyn FnMut(&Table, &mut Each<'_>) -> Result<(), Halt>) -> Rows {
    let of = |table: &'static Table| {
        let mut out = Vec::new();
        let mut each = |batch: RecordBatch| {
            text(table, &batch, &mut out);
            Ok(())
        };
        write(table, &mut each).expect("rows");
        (table.name, out)
    };
    tables::all().iter().map(of).collect()
}

/// Columns that may differ: of a time that a border of parts divided, the request in its middle; of
/// a request whose thread has no switch records, estimates.
fn without(name: &str, rows: &[String], is_exact: bool) -> Vec<String> {
    let left_out: &[&str] = match name {
        "requests" if !is_exact => &["run_ns=", "ready_ns=", "wait_ns=", "unknown_ns="],
        "states" | "waits" => &["request_id="],
        "gil" => &["waiter_request_id=", "holder_request_id=", "holder_stack_id=", "holder_place="],
        _ => return rows.to_vec(),
    };
    let kept = |cell: &&str| !left_out.iter().any(|column| cell.starts_with(column));
    let line = |row: &String| row.split_inclusive(' ').filter(kept).collect();
    rows.iter().map(line).collect()
}

fn same(capture: &str, name: &str, whole: &[String], parts: &[String]) {
    let is_exact = capture == LARGE;
    let (whole, parts) = (&without(name, whole, is_exact), &without(name, parts, is_exact));
    let differs = whole.iter().zip(parts).position(|(a, b)| a != b);
    let at = differs.or((whole.len() != parts.len()).then_some(whole.len().min(parts.len())));
    if let Some(at) = at {
        let around =
            |rows: &[String]| rows[at.saturating_sub(1)..rows.len().min(at + 2)].join("\n");
        let (of, all) = (whole.len(), parts.len());
        let (whole, parts) = (around(whole), around(parts));
        panic!("{capture} {name}, row {at} of {of} and {all}:\n{whole}\n\n{parts}");
    }
}

/// The capture with switch records of every thread.
const LARGE: &str = "large";

#[test]
fn every_table_of_a_busy_service_is_the_same() {
    let (bytes, _) = large::write(Vec::new(), 1).expect("written");
    let whole = in_whole(&bytes);
    let (parts, count) = in_parts(&bytes, 1 << 14);
    assert!(count > 4, "{count}");
    for (name, rows) in &whole {
        same(LARGE, name, rows, &parts[name]);
    }
    for name in ["spans", "attributes", "states", "waits", "samples", "switches", "causes"] {
        assert!(!whole[name].is_empty(), "{name}");
    }
}

/// Tables in which a border of parts may leave a mark: it divides a time whose parts were sampled
/// at different stacks.
const CUT: [&str; 3] = ["states", "waits", "gil"];
/// Tables with ids of stacks.
const STACKS: [&str; 6] = ["stacks", "frames", "samples", "awaits", "switches", "pieces"];

#[test]
fn the_tables_of_golden_captures_are_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let entries = store::entries(&folder, "*").expect("golden captures");
    let mut divided = 0;
    for entry in entries.iter().step_by(14) {
        let bytes = entry.capture().expect("a capture");
        let Ok(capture) = Capture::parse(&bytes) else { continue };
        let is_divided = Parts::parse(&bytes, 1 << 12).is_ok_and(|(parts, _)| parts.count() > 1);
        if !is_divided {
            continue;
        }
        // Native stacks have ids in the order in which they are read.
        let has_native = capture.codes.iter().any(|code| code.native);
        let left_out = |name: &str| CUT.contains(&name) || has_native && STACKS.contains(&name);
        let whole = in_whole(&bytes);
        let (parts, _) = in_parts(&bytes, 1 << 12);
        divided += 1;
        for (name, rows) in whole.iter().filter(|(name, _)| !left_out(name)) {
            same(&entry.name, name, rows, &parts[name]);
        }
    }
    assert!(divided > 5, "{divided}");
}
