//! Ways to damage a capture, with the same result each time.
//!
//! How it works: the damage is named by a text, which is stored in the description of a damaged
//! golden capture: a cut, a flipped bit, a missing chunk, another version of the format. What it
//! promises: a pure function of capture and text; an unknown text is an error.

use format::chunk;

use crate::chunks::{join, split};

/// The capture damaged as the text says:
/// `cut at N %`; `a bit turned in chunk TAG N` (the N-th of that tag, from 1);
/// `without chunk TAG`; `format N` (another version in its first line).
pub fn damaged(bytes: &[u8], how: &str) -> Result<Vec<u8>, String> {
    let words: Vec<&str> = how.split(' ').collect();
    match words.as_slice() {
        ["cut", "at", percent, "%"] => {
            let percent: usize = percent.parse().map_err(|_| unknown(how))?;
            Ok(bytes[..bytes.len() / 100 * percent.min(100)].to_vec())
        }
        ["a", "bit", "turned", "in", "chunk", tag, number] => {
            let number: usize = number.parse().map_err(|_| unknown(how))?;
            turned(bytes, tag, number)
        }
        ["without", "chunk", tag] => {
            let mut chunks = split(bytes)?;
            chunks.retain(|chunk| chunk.tag != tag.as_bytes());
            Ok(join(&chunks))
        }
        ["format", version] => {
            let rest = bytes.strip_prefix(chunk::MAGIC).ok_or("not a capture of this format")?;
            Ok([format!("DASHCAM {version}\n").as_bytes(), rest].concat())
        }
        _ => Err(unknown(how)),
    }
}

fn unknown(how: &str) -> String {
    format!("damage {how:?}; wanted `cut at N %`, `a bit turned in chunk TAG N`, `without chunk TAG`, or `format N`")
}

fn turned(bytes: &[u8], tag: &str, number: usize) -> Result<Vec<u8>, String> {
    let mut at = chunk::MAGIC.len();
    let mut seen = 0;
    for chunk in split(bytes)? {
        let length = chunk::HEADER_BYTES + chunk.payload.len();
        seen += usize::from(chunk.tag == tag.as_bytes());
        if seen == number && chunk.tag == tag.as_bytes() {
            let mut out = bytes.to_vec();
            out[at + length / 2] ^= 1;
            return Ok(out);
        }
        at += length;
    }
    Err(format!("the capture has {seen} chunks {tag}, wanted number {number}"))
}
