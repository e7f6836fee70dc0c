//! A capture as its chunks, for tools that rewrite captures.

use capture::write::checksum;
use format::block::HEADER_WORDS;
use format::chunk::{self, HEADER_BYTES};

/// One chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its tag of four letters.
    pub tag: [u8; 4],
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The chunks of a whole capture; Err: the place where it is not whole.
pub fn split(bytes: &[u8]) -> Result<Vec<Chunk>, String> {
    let mut rest = bytes.strip_prefix(chunk::MAGIC).ok_or("not a capture of this format")?;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let wrong = || format!("the capture is cut off in the chunk at byte {at}");
        let (head, tail) = rest.split_at_checked(HEADER_BYTES).ok_or_else(wrong)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (payload, next) = tail.split_at_checked(length).ok_or_else(wrong)?;
        chunks.push(Chunk { tag: [head[0], head[1], head[2], head[3]], payload: payload.to_vec() });
        rest = next;
    }
    Ok(chunks)
}

/// A capture of these chunks.
pub fn join(chunks: &[Chunk]) -> Vec<u8> {
    let mut out = chunk::MAGIC.to_vec();
    for Chunk { tag, payload } in chunks {
        out.extend(tag);
        out.extend((payload.len() as u32).to_le_bytes());
        out.extend(checksum(*tag, payload).to_le_bytes());
        out.extend(payload);
    }
    out
}

/// The payload of a chunk of blocks without the records that `keep` refuses. `Thread` records,
/// which say to which thread the records behind them belong, are kept.
pub fn filter_blocks(payload: &[u8], keep: &mut impl FnMut(&[u64]) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = payload;
    while let Some((head, tail)) = rest.split_at_checked(8) {
        let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some((block, next)) = tail.split_at_checked(count * 8) else { break };
        rest = next;
        let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let words: Vec<u64> = block.chunks_exact(8).map(word).collect();
        let kept = filter_block(&words, keep);
        if kept.len() > HEADER_WORDS {
            out.extend((kept.len() as u32).to_le_bytes());
            out.extend([0; 4]);
            out.extend(kept.iter().flat_map(|w| w.to_le_bytes()));
        }
    }
    out
}

fn filter_block(words: &[u64], keep: &mut impl FnMut(&[u64]) -> bool) -> Vec<u64> {
    const THREAD: u8 = format::record::Kind::Thread as u8;
    let mut kept = words[..HEADER_WORDS.min(words.len())].to_vec();
    let mut at = kept.len();
    while at < words.len() {
        let length = (words[at] >> 8 & 0xff).max(1) as usize;
        let record = &words[at..(at + length).min(words.len())];
        if words[at] as u8 == THREAD || keep(record) {
            kept.extend(record);
        }
        at += length;
    }
    kept
}
