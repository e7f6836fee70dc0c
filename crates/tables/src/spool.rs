//! Rows by thread or request, of a capture that is read in parts and has all of them in each part.
//!
//! How it works: the rows of a key are bytes in a buffer of its own: a tag and a value for each
//! column, numbers in as few bytes as they need, texts by their number. Full buffers go to a file
//! without a name, and only where they lie there is kept.
//!
//! What it promises: rows come back by key, those of one key in the order in which they came.
//! Memory is bounded but for 12 bytes for each buffer that was written, and one for each key.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::rc::Rc;

use analysis::temporary;

use crate::cell::Cell;
use crate::halt::Halt;

/// Bytes of rows in memory.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of different texts that are kept; further ones are written out each time.
const MOST_TEXT: usize = 8 << 20;

/// A value that outlives its capture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(Rc<str>),
}

impl Value {
    pub(crate) fn cell(&self) -> Cell<'_> {
        match self {
            Value::Null => Cell::Null,
            Value::Int(v) => Cell::Int(*v),
            Value::Float(v) => Cell::Float(*v),
            Value::Bool(v) => Cell::Bool(*v),
            Value::Text(v) => Cell::Text(v),
        }
    }
}

#[derive(Default)]
struct Run {
    /// Where its full buffers lie in the file, and their bytes.
    places: Vec<(u64, u32)>,
    bytes: Vec<u8>,
}

/// The rows.
#[derive(Default)]
pub(crate) struct Spool {
    runs: BTreeMap<u64, Run>,
    texts: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u64>,
    text_bytes: usize,
    in_memory: usize,
    file: Option<File>,
    end: u64,
    columns: usize,
}

const NULL: u8 = 0;
const INT: u8 = 1;
const FLOAT: u8 = 2;
const FALSE: u8 = 3;
const TRUE: u8 = 4;
const TEXT: u8 = 5;
const NEW_TEXT: u8 = 6;

impl Spool {
    /// Adds a row; all have as many cells.
    pub(crate) fn push(&mut self, key: u64, row: &[Cell<'_>]) -> Result<(), Halt> {
        self.columns = row.len();
        let mut bytes = std::mem::take(&mut self.runs.entry(key).or_default().bytes);
        let before = bytes.len();
        row.iter().for_each(|cell| self.encode(*cell, &mut bytes));
        self.in_memory += bytes.len() - before;
        self.runs.entry(key).or_default().bytes = bytes;
        match self.in_memory > MOST_BYTES {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    fn encode(&mut self, cell: Cell<'_>, out: &mut Vec<u8>) {
        match cell {
            Cell::Null => out.push(NULL),
            Cell::Int(v) => {
                out.push(INT);
                number(((v << 1) ^ (v >> 63)) as u64, out);
            }
            Cell::Float(v) => {
                out.push(FLOAT);
                out.extend(v.to_le_bytes());
            }
            Cell::Bool(v) => out.push(if v { TRUE } else { FALSE }),
            Cell::Text(text) => match self.number_of(text) {
                Some(known) => {
                    out.push(TEXT);
                    number(known, out);
                }
                None => {
                    out.push(NEW_TEXT);
                    number(text.len() as u64, out);
                    out.extend(text.as_bytes());
                }
            },
        }
    }

    /// The number of a text; None: there are too many.
    fn number_of(&mut self, text: &str) -> Option<u64> {
        if let Some(known) = self.numbers.get(text) {
            return Some(*known);
        }
        if self.text_bytes + text.len() > MOST_TEXT {
            return None;
        }
        self.text_bytes += text.len() + size_of::<(Rc<str>, Rc<str>, u64)>();
        let (text, number): (Rc<str>, u64) = (text.into(), self.texts.len() as u64);
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        Some(number)
    }

    fn write_out(&mut self) -> Result<(), Halt> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(temporary::without_name()?),
        };
        file.seek(SeekFrom::Start(self.end))?;
        for run in self.runs.values_mut().filter(|run| !run.bytes.is_empty()) {
            file.write_all(&run.bytes)?;
            run.places.push((self.end, run.bytes.len() as u32));
            self.end += run.bytes.len() as u64;
            run.bytes = Vec::new();
        }
        self.in_memory = 0;
        Ok(())
    }

    /// Calls `each` with every row, by key.
    pub(crate) fn each(
        self,
        each: &mut dyn FnMut(u64, Vec<Value>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let Spool { runs, texts, mut file, columns, .. } = self;
        let mut bytes = Vec::new();
        for (key, run) in runs {
            for (at, length) in run.places {
                let Some(file) = &mut file else { break };
                bytes.resize(length as usize, 0);
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(&mut bytes)?;
                rows(&bytes, columns, &texts, &mut |row| each(key, row))?;
            }
            rows(&run.bytes, columns, &texts, &mut |row| each(key, row))?;
        }
        Ok(())
    }
}

/// Calls `each` with the rows in `bytes`.
fn rows(
    mut bytes: &[u8],
    columns: usize,
    texts: &[Rc<str>],
    each: &mut dyn FnMut(Vec<Value>) -> Result<(), Halt>,
) -> Result<(), Halt> {
    while !bytes.is_empty() {
        let mut row = Vec::with_capacity(columns);
        for _ in 0..columns {
            let value = value(&mut bytes, texts);
            row.push(value.ok_or("the file of rows is not what was written: a defect")?);
        }
        each(row)?;
    }
    Ok(())
}

fn value(bytes: &mut &[u8], texts: &[Rc<str>]) -> Option<Value> {
    let tag = taken(bytes, 1)?[0];
    Some(match tag {
        INT => {
            let v = read_number(bytes)?;
            Value::Int((v >> 1) as i64 ^ -((v & 1) as i64))
        }
        FLOAT => Value::Float(f64::from_le_bytes(taken(bytes, 8)?.try_into().ok()?)),
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        TEXT => Value::Text(texts.get(read_number(bytes)? as usize)?.clone()),
        NEW_TEXT => {
            let length = read_number(bytes)? as usize;
            Value::Text(std::str::from_utf8(taken(bytes, length)?).ok()?.into())
        }
        _ => Value::Null,
    })
}

fn taken<'b>(bytes: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

/// Seven bits a byte, the lowest first; the last byte is below 128.
fn number(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let (mut out, mut shift) = (0, 0);
    loop {
        let byte = taken(bytes, 1)?[0];
        out |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(out);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_by_key_from_memory_and_from_the_file() {
        let mut spool = Spool::default();
        let long = "x".repeat(3_000);
        let count = 40_000_u64;
        for at in 0..count {
            let text = format!("{at} {long}");
            let number = (at as i64 - 7).wrapping_mul(i64::MAX / 3);
            let row = [
                Cell::Int(number),
                Cell::Text(if at % 2 == 0 { "same" } else { &text }),
                if at % 3 == 0 { Cell::Null } else { Cell::Bool(at % 5 == 0) },
                Cell::Float(at as f64 / 7.0),
            ];
            spool.push(at % 3, &row).expect("a file");
            assert!(spool.in_memory <= MOST_BYTES && spool.text_bytes <= MOST_TEXT);
        }
        assert!(spool.file.is_some());
        let (mut next, mut key_before) = (0, 0);
        let mut check = |key: u64, row: Vec<Value>| {
            if key != key_before {
                (next, key_before) = (key, key);
            }
            let text = format!("{next} {long}");
            assert_eq!(row[0], Value::Int((next as i64 - 7).wrapping_mul(i64::MAX / 3)));
            assert_eq!(row[1], Value::Text(if next % 2 == 0 { "same" } else { &text }.into()));
            let truth = if next % 3 == 0 { Value::Null } else { Value::Bool(next % 5 == 0) };
            assert_eq!(row[2..], [truth, Value::Float(next as f64 / 7.0)]);
            next += 3;
            Ok(())
        };
        spool.each(&mut check).expect("readable");
        assert!((count..count + 3).contains(&next) && key_before == 2, "{next}");
    }
}
