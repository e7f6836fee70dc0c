//! Splits the file into chunks and checks them.
//!
//! How it works: first the chunk headers are read and the payloads of blocks are skipped. The
//! blocks are read one after the other later, so a large capture is never in memory as a whole.

use std::io::{self, Read, Seek, SeekFrom};

use format::chunk::{self, HEADER_BYTES, MAX_PAYLOAD};

use super::error::ReadError;
use crate::write::checksum;

/// Bytes of lines of source: many times what is written.
const SOURCE_MAX: usize = 1 << 20;

/// The payloads found.
#[derive(Default)]
pub struct Chunks {
    pub meta: Option<Vec<u8>>,
    pub threads: Vec<u8>,
    pub names: Vec<u8>,
    pub codes: Vec<u8>,
    pub stacks: Vec<u8>,
    pub open: Vec<u8>,
    pub symbols: Vec<u8>,
    /// What a reader appended behind the end.
    pub source: Vec<u8>,
    /// Where the blocks lie; their checksums are not checked yet.
    pub blocks: Vec<Found>,
    /// Blocks overwritten while they were copied.
    pub overwritten: u64,
    pub damage: Vec<String>,
}

/// Damaged chunks that are named.
const MOST_NOTED: usize = 100;

/// A chunk in the file.
#[derive(Clone, Copy)]
pub struct Found {
    /// Where its header begins.
    at: u64,
    tag: [u8; 4],
    length: usize,
    sum: u32,
}

impl Found {
    /// Bytes of its payload.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The byte at which its payload begins.
    pub fn payload(&self) -> u64 {
        self.at + HEADER_BYTES as u64
    }
}

/// Finds the chunks of `source`. Errors only when it cannot be read, or is not a capture at all.
pub fn split(source: &mut (impl Read + Seek)) -> Result<Chunks, ReadError> {
    let size = source.seek(SeekFrom::End(0))?;
    source.seek(SeekFrom::Start(0))?;
    let mut start = Vec::new();
    source.by_ref().take(64).read_to_end(&mut start)?;
    if !start.starts_with(chunk::MAGIC) {
        if let Some(version) = version(&start) {
            return Err(ReadError::OtherVersion(version));
        }
        let text = String::from_utf8_lossy(&start[..start.len().min(16)]);
        return Err(ReadError::NotACapture(match start.is_empty() {
            true => "nothing (the file is empty)".to_owned(),
            false => format!("{text:?}"),
        }));
    }
    let mut found = Chunks::default();
    let mut ended = false;
    let mut at = chunk::MAGIC.len() as u64;
    while at < size && !ended {
        let Some(next) = header(source, at, size)? else {
            found.damage.push(format!("cut off at byte {at}: {} bytes of a chunk left", size - at));
            return Ok(found);
        };
        at += (HEADER_BYTES + next.length) as u64;
        if next.tag == chunk::BLOCKS {
            found.blocks.push(next);
            continue;
        }
        let mut payload = Vec::new();
        if !load(source, next, &mut payload)? {
            skipped(next, &mut found.damage);
            continue;
        }
        ended = next.tag == chunk::END;
        match next.tag {
            chunk::META => found.meta = Some(payload),
            chunk::THREADS => found.threads = payload,
            chunk::NAMES => found.names = payload,
            chunk::CODES => found.codes = payload,
            chunk::STACKS => found.stacks = payload,
            chunk::OPEN => found.open = payload,
            chunk::SYMBOLS => found.symbols = payload,
            chunk::END => found.overwritten = second_word(&payload),
            _ => (),
        }
    }
    if !ended {
        found.damage.push(format!("cut off at byte {size}: no end mark"));
    }
    found.source = behind_the_end(source, at, size)?;
    Ok(found)
}

/// The payload of the first whole `SRCE`; the recorder's part of the file is whole without it.
fn behind_the_end(source: &mut (impl Read + Seek), at: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    let Some(next) = header(source, at, size)? else { return Ok(payload) };
    let fits = next.tag == chunk::SOURCE && next.length <= SOURCE_MAX;
    if !fits || !load(source, next, &mut payload)? {
        payload.clear();
    }
    Ok(payload)
}

/// Reads the payload of a chunk into `payload`, replacing its content; returns whether its checksum
/// is right.
pub fn load(
    source: &mut (impl Read + Seek),
    wanted: Found,
    payload: &mut Vec<u8>,
) -> io::Result<bool> {
    source.seek(SeekFrom::Start(wanted.payload()))?;
    payload.clear();
    source.by_ref().take(wanted.length as u64).read_to_end(payload)?;
    Ok(checksum(wanted.tag, payload) == wanted.sum)
}

/// Notes a chunk that is left out. Of many the first `MOST_NOTED` are named: a file may consist of
/// nothing else.
pub fn skipped(chunk: Found, damage: &mut Vec<String>) {
    let name = String::from_utf8_lossy(&chunk.tag).into_owned();
    match damage.len() {
        ..MOST_NOTED => {
            damage.push(format!("chunk {name:?} at byte {}: wrong checksum, skipped", chunk.at));
        }
        MOST_NOTED => {
            damage.push("more chunks with a wrong checksum: skipped, not named".to_owned())
        }
        _ => (),
    }
}

/// The version in the first line of a capture.
fn version(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(b"DASHCAM ")?;
    let end = rest.iter().take(20).position(|b| *b == b'\n')?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

fn second_word(payload: &[u8]) -> u64 {
    let bytes = payload.get(8..16).and_then(|b| b.try_into().ok());
    bytes.map(u64::from_le_bytes).unwrap_or_default()
}

/// The chunk that begins at `at`; None when it does not fit into the file.
fn header(source: &mut (impl Read + Seek), at: u64, size: u64) -> io::Result<Option<Found>> {
    source.seek(SeekFrom::Start(at))?;
    let mut head = Vec::with_capacity(HEADER_BYTES);
    source.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut head)?;
    let [t0, t1, t2, t3, l0, l1, l2, l3, c0, c1, c2, c3] = *head.as_slice() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_PAYLOAD || at + (HEADER_BYTES + length) as u64 > size {
        return Ok(None);
    }
    let sum = u32::from_le_bytes([c0, c1, c2, c3]);
    Ok(Some(Found { at, tag: [t0, t1, t2, t3], length, sum }))
}
