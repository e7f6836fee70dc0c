//! A capture with the chunk `SYMS` is named the same on a machine without its binaries.
#![allow(clippy::expect_used, missing_docs)]

use std::os::unix::fs::MetadataExt;

use capture::read::Capture;
use capture::write::{checksum, CaptureWriter};
use format::block::{pack_pair, HEADER_WORDS};
use format::chunk;
use format::record::{header, Kind};
use format::region::code_flag;

#[inline(never)]
fn landmark() -> u64 {
    std::hint::black_box(7)
}

/// Offset of `landmark` in this test's own file.
fn offset_of_landmark() -> u64 {
    let address = landmark as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("hex");
    let inside = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let offset = rest.split(' ').nth(1)?;
        (hex(start)..hex(end)).contains(&address).then(|| address - hex(start) + hex(offset))
    });
    inside.expect("a mapping")
}

/// A NAME table.
fn names(texts: &[String]) -> Vec<u64> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight"))).collect()
}

/// A capture of one sample, of a thread that was blocked at `offset` of the binary.
fn recorded(binary: &str, offset: u64) -> Vec<u8> {
    let names = names(&["".to_owned(), binary.to_owned(), format!("{offset:#x}")]);
    let codes = vec![pack_pair(2, 1), pack_pair(0, code_flag::NATIVE)];
    let stacks = vec![pack_pair(0, 1), 0];
    let mut block = vec![0; HEADER_WORDS];
    block.extend([header(Kind::Sample, 9, 0, 1), 100, 7, 0, 0, 0, 0, 0, 0]);
    let mut writer = CaptureWriter::new(Vec::new(), "{}").expect("memory");
    writer.tables(&[vec![], names, codes, stacks]).expect("memory");
    writer.block(&block).expect("memory");
    writer.finish(0).expect("memory")
}

/// The capture with the chunk in front of its end mark.
fn with_chunk(bytes: &[u8], payload: &[u8]) -> Vec<u8> {
    let end = bytes.len() - (chunk::HEADER_BYTES + 16);
    assert_eq!(&bytes[end..end + 4], &chunk::END);
    let mut out = bytes[..end].to_vec();
    out.extend(chunk::SYMBOLS);
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(checksum(chunk::SYMBOLS, payload).to_le_bytes());
    out.extend(payload);
    out.extend(&bytes[end..]);
    out
}

fn frames(capture: &Capture) -> Vec<(String, String, u32)> {
    let stack = capture.samples[&7][0].stack;
    let frame = |f: capture::read::Frame<'_>| (f.function.to_owned(), f.file.to_owned(), f.line);
    capture.frames(stack).map(frame).collect()
}

#[test]
fn a_capture_with_its_names_reads_the_same_without_the_binary() {
    assert_eq!(landmark(), 7);
    let own = std::env::current_exe().expect("a path");
    let copy = std::env::temp_dir().join(format!("dashcam-named-{}", std::process::id()));
    std::fs::copy(&own, &copy).expect("room");
    let meta = std::fs::metadata(&copy).expect("there");
    let ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    let text = format!("{}\tfile:{}:{ns}", copy.display(), meta.size());
    let bytes = recorded(&text, offset_of_landmark() + 2);

    let mut at_home = Capture::parse(&bytes).expect("a capture");
    let (symbols, notes) = symbols::resolve(&mut at_home);
    assert!(notes.is_empty(), "{notes:?}");
    let named = frames(&at_home);
    assert!(named.iter().any(|(function, ..)| function.ends_with("landmark")), "{named:?}");
    std::fs::remove_file(&copy).expect("ours");

    let mut elsewhere = Capture::parse(&bytes).expect("a capture");
    assert_eq!(symbols::name_native(&mut elsewhere).len(), 1, "the binary is not there");
    assert_ne!(frames(&elsewhere), named);

    let mut elsewhere = Capture::parse(&with_chunk(&bytes, &symbols.encode())).expect("a capture");
    assert_eq!(elsewhere.damage, Vec::<String>::new());
    assert_eq!(symbols::name_native(&mut elsewhere), Vec::<String>::new());
    assert_eq!(frames(&elsewhere), named);

    let payload = symbols.encode();
    let cut = Capture::parse(&with_chunk(&bytes, &payload[..50])).expect("a capture");
    assert!(cut.damage[0].contains("SYMS"), "{:?}", cut.damage);
}
