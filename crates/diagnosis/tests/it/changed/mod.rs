//! Captures as they would have been if names were others, or if a few records had been lost.
#![allow(dead_code)]

use std::collections::HashMap;

use analysis::frames::{Frames, Owner};
use capture::read::Capture;
use capture::write::checksum;
use format::block::HEADER_WORDS;
use format::chunk;

/// Gives every function and file of the program's own (neither the interpreter's nor an installed
/// package's) another name. Returns new names by the old ones.
pub fn rename(capture: &mut Capture) -> HashMap<String, String> {
    let mut ids: Vec<(u32, bool)> = Vec::new();
    let frames = Frames::new(capture);
    for code in capture.codes.iter().filter(|c| !c.native) {
        if frames.owner(capture.name(code.file)) == Owner::User {
            ids.extend([(code.function, false), (code.file, true)]);
        }
    }
    let mut renamed = HashMap::new();
    for (id, is_file) in ids {
        if let Some(name) = capture.names.get_mut(id as usize) {
            if !renamed.values().any(|new| new == name) {
                let new = if is_file { other_file(name) } else { other_function(name) };
                renamed.insert(std::mem::replace(name, new.clone()), new);
            }
        }
    }
    renamed
}

/// Qualified names keep their dots, and what the interpreter names itself.
fn other_function(name: &str) -> String {
    let part = |part: &str| match part.starts_with('<') {
        true => part.to_owned(),
        false => word(part),
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Folders are kept: the owner of code depends on them.
fn other_file(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((folder, base)) => format!("{folder}/{}.py", word(base)),
        None => name.to_owned(),
    }
}

fn word(text: &str) -> String {
    format!("q{:x}", mix(text.bytes().fold(7, |sum, b| mix(sum ^ u64::from(b)))) >> 40)
}

/// splitmix64.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bytes of a capture without about one record in `one_in`, drawn from `seed`.
pub fn thin(bytes: &[u8], one_in: u64, seed: u64) -> Vec<u8> {
    without(bytes, drawn(one_in, seed))
}

/// Of the records of `bytes` that `thin` loses, those without which alone `stands` is false:
/// number, and words.
pub fn needed(
    bytes: &[u8],
    one_in: u64,
    seed: u64,
    stands: impl Fn(&[u8]) -> bool,
) -> Vec<(usize, Vec<u64>)> {
    let (mut loses, mut lost) = (drawn(one_in, seed), Vec::new());
    without(bytes, |number, words| {
        let loses = loses(number, words);
        lost.extend(loses.then(|| (number, words.to_vec())));
        loses
    });
    lost.retain(|(number, _)| !stands(&without(bytes, |other, _| other == *number)));
    lost
}

/// Draws which records are lost.
fn drawn(one_in: u64, seed: u64) -> impl FnMut(usize, &[u64]) -> bool {
    let mut drawn = mix(seed);
    move |_, _| {
        drawn = mix(drawn);
        drawn % one_in == 0
    }
}

/// The bytes of a capture without the records that `loses`, asked with the number and the words of
/// each.
pub fn without(bytes: &[u8], mut loses: impl FnMut(usize, &[u64]) -> bool) -> Vec<u8> {
    let mut out = chunk::MAGIC.to_vec();
    let mut rest = bytes.strip_prefix(chunk::MAGIC).unwrap_or_default();
    let mut number = 0;
    while let Some((head, tail)) = rest.split_at_checked(chunk::HEADER_BYTES) {
        let tag = [head[0], head[1], head[2], head[3]];
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some((payload, next)) = tail.split_at_checked(length) else { break };
        rest = next;
        let payload = match tag == chunk::BLOCKS {
            true => thin_blocks(payload, &mut number, &mut loses),
            false => payload.to_vec(),
        };
        out.extend(tag);
        out.extend((payload.len() as u32).to_le_bytes());
        out.extend(checksum(tag, &payload).to_le_bytes());
        out.extend(payload);
    }
    out
}

fn thin_blocks(
    payload: &[u8],
    number: &mut usize,
    loses: &mut impl FnMut(usize, &[u64]) -> bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = payload;
    while let Some((head, tail)) = rest.split_at_checked(8) {
        let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some((block, next)) = tail.split_at_checked(count * 8) else { break };
        rest = next;
        let words: Vec<u64> = block
            .chunks_exact(8)
            .filter_map(|b| b.try_into().ok())
            .map(u64::from_le_bytes)
            .collect();
        let mut kept = words[..HEADER_WORDS.min(words.len())].to_vec();
        let mut at = kept.len();
        while at < words.len() {
            let length = ((words[at] >> 8) & 0xff).max(1) as usize;
            let end = (at + length).min(words.len());
            // Kind 10 says whose the records behind it are: it is no record of anybody's.
            if words[at] as u8 == 10 || !loses(*number, &words[at..end]) {
                kept.extend(&words[at..end]);
            }
            *number += 1;
            at = end;
        }
        out.extend((kept.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(kept.iter().flat_map(|w| w.to_le_bytes()));
    }
    out
}
