//! Inputs for the readers, made from a fuzzer's bytes so that most of them pass the checksums.

use capture::read::Capture;
use capture::region::BlackBox;
use capture::write::checksum;
use format::chunk;
use format::region::{word, Layout, MAGIC, MIN_BYTES};
use view::{Limits, Recorded};

/// Requests slower than this are judged; short, so that fuzzed times count.
const LIMIT_NS: u64 = 1000;

/// Reads `bytes` as a capture and all of its content, as `show`, `why` and `view` do.
pub fn read(bytes: &[u8]) {
    let Ok(capture) = Capture::parse(bytes) else { return };
    let _ = capture.common_horizon_ns();
    for sample in capture.samples.values().flatten().take(100) {
        let _ = capture.frames(sample.stack).count();
        let _ = capture.thread_name(sample.tid);
    }
    let diagnosis = diagnosis::diagnose(&capture, |_| LIMIT_NS);
    let _ = report::to_text(&diagnosis);
    let _ = report::to_json(&diagnosis, "fuzz").to_string();
    let limits = Limits { slow: 8, normal: 4, dots: 100, bytes: 1 << 20 };
    let mut recorded = Recorded::default();
    recorded.take(&capture, &view::timelines(&capture, &|_| LIMIT_NS, limits));
    let page = view::page(&capture, &recorded, &diagnosis, "fuzz", &|_| LIMIT_NS, limits);
    assert!(page.ends_with("</html>\n"), "the page's end is missing");
}

/// `data` as chunks with right checksums: (tag, length, payload), one after the other. A mostly
/// valid META comes first.
pub fn chunks(mut data: &[u8]) -> Vec<u8> {
    let tags = [
        chunk::META,
        chunk::THREADS,
        chunk::NAMES,
        chunk::CODES,
        chunk::STACKS,
        chunk::BLOCKS,
        chunk::BLOCKS,
        chunk::END,
    ];
    let mut out = chunk::MAGIC.to_vec();
    put(
        &mut out,
        chunk::META,
        br#"{"start_ns":1,"from_ns":1,"to_ns":100000,"settings":{"slow":"1ms"}}"#,
    );
    while let [tag, low, high, rest @ ..] = data {
        let length = (usize::from(*low) | usize::from(*high) << 8).min(rest.len());
        put(&mut out, tags[usize::from(*tag) % tags.len()], &rest[..length]);
        data = &rest[length..];
    }
    put(&mut out, chunk::END, &[0; 16]);
    out
}

fn put(out: &mut Vec<u8>, tag: [u8; 4], payload: &[u8]) {
    out.extend_from_slice(&tag);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(tag, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// A box overwritten with `data`, twelve bytes for each word: place (4) and value (8); recovered
/// and read.
pub fn recover(data: &[u8]) {
    let layout = Layout::of(MIN_BYTES);
    let mut words = vec![0u64; MIN_BYTES / 8];
    words[word::MAGIC] = MAGIC;
    words[word::BYTES] = MIN_BYTES as u64;
    for patch in data.chunks_exact(12) {
        let at = u32::from_le_bytes([patch[0], patch[1], patch[2], patch[3]]) as usize;
        let value = patch[4..].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        // Half of them where they have the most effect: the header, and the first words of blocks.
        let at = match at % 4 {
            0 => 2 + (at / 4) % 60,
            1 => layout.blocks + (at / 4) % 4096,
            _ => 2 + (at / 4) % (words.len() - 2),
        };
        words[at] = value;
    }
    words[word::BYTES] = MIN_BYTES as u64;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let region = BlackBox::parse(&bytes).expect("magic and size are right");
    let mut file = Vec::new();
    region.write_capture(&mut file).expect("memory");
    read(&file);
}
