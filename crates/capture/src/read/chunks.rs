//! Cutting the file into chunks and checking them.

use format::chunk::{self, HEADER_BYTES, MAX_PAYLOAD};

use super::ReadError;
use crate::write::checksum;

/// The payloads found.
#[derive(Default)]
pub struct Chunks<'a> {
    pub meta: Option<&'a [u8]>,
    pub threads: &'a [u8],
    pub names: &'a [u8],
    pub codes: &'a [u8],
    pub stacks: &'a [u8],
    pub blocks: Vec<&'a [u8]>,
    /// Blocks overwritten while they were copied.
    pub overwritten: u64,
    pub damage: Vec<String>,
}

/// Splits `bytes`. Errors only when the file is no capture at all.
pub fn split(bytes: &[u8]) -> Result<Chunks<'_>, ReadError> {
    let Some(mut rest) = bytes.strip_prefix(chunk::MAGIC) else {
        if let Some(version) = version(bytes) {
            return Err(ReadError::OtherVersion(version));
        }
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(16)]);
        return Err(ReadError::NotACapture(match bytes.is_empty() {
            true => "nothing (the file is empty)".to_owned(),
            false => format!("{start:?}"),
        }));
    };
    let mut found = Chunks::default();
    let mut ended = false;
    while !rest.is_empty() && !ended {
        let at = bytes.len() - rest.len();
        let Some((tag, payload, sum, next)) = next_chunk(rest) else {
            found
                .damage
                .push(format!("cut off at byte {at}: {} bytes of a chunk left", rest.len()));
            return Ok(found);
        };
        rest = next;
        if checksum(tag, payload) != sum {
            let name = String::from_utf8_lossy(&tag).into_owned();
            found.damage.push(format!("chunk {name:?} at byte {at}: wrong checksum, skipped"));
            continue;
        }
        ended = tag == chunk::END;
        match tag {
            chunk::META => found.meta = Some(payload),
            chunk::THREADS => found.threads = payload,
            chunk::NAMES => found.names = payload,
            chunk::CODES => found.codes = payload,
            chunk::STACKS => found.stacks = payload,
            chunk::BLOCKS => found.blocks.push(payload),
            chunk::END => found.overwritten = second_word(payload),
            _ => (),
        }
    }
    if !ended {
        found.damage.push(format!("cut off at byte {}: no end mark", bytes.len()));
    }
    Ok(found)
}

/// The number in the first line of a capture, whichever.
fn version(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(b"DASHCAM ")?;
    let end = rest.iter().take(20).position(|b| *b == b'\n')?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

fn second_word(payload: &[u8]) -> u64 {
    let bytes = payload.get(8..16).and_then(|b| b.try_into().ok());
    bytes.map(u64::from_le_bytes).unwrap_or_default()
}

type Chunk<'a> = ([u8; 4], &'a [u8], u32, &'a [u8]);

fn next_chunk(bytes: &[u8]) -> Option<Chunk<'_>> {
    let (head, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let [t0, t1, t2, t3, l0, l1, l2, l3, c0, c1, c2, c3] = *head else {
        return None;
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_PAYLOAD {
        return None;
    }
    let (payload, rest) = rest.split_at_checked(length)?;
    Some(([t0, t1, t2, t3], payload, u32::from_le_bytes([c0, c1, c2, c3]), rest))
}
