//! A whole binary names its functions. A binary that is cut, overwritten with noise, replaced, or
//! no file at all is reported as such, without a panic.
#![allow(clippy::expect_used, missing_docs)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use capture::read::{Capture, Code, StackNode};
use format::record::Sample;
use format::wait::{HolderSource, WaitKind};

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

fn tag(path: &Path) -> String {
    let meta = std::fs::metadata(path).expect("there");
    let ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    format!("file:{}:{ns}", meta.size())
}

/// A capture with one sample, whose stack has these offsets in the file, innermost first.
fn capture_of(path: &str, tag: &str, offsets: &[u64]) -> Capture {
    let mut capture = Capture { names: vec![format!("{path}\t{tag}")], ..Capture::default() };
    for (i, offset) in offsets.iter().rev().enumerate() {
        capture.names.push(format!("{offset:#x}"));
        let function = i as u32 + 1;
        capture.codes.push(Code {
            function,
            file: 0,
            first_line: 0,
            releases: false,
            native: true,
            inner: false,
        });
        let line = u32::from(i > 0) * 3;
        capture.stacks.push(StackNode { parent: i as u32, code: function, line });
    }
    let sample = Sample {
        t_ns: 1,
        tid: 1,
        stack: offsets.len() as u32,
        flags: 0,
        gil_holder: 0,
        wall_ns: 0,
        cpu_ns: 0,
        run_delay_ns: 0,
        wait: WaitKind::Sleep,
        holder_source: HolderSource::None,
        call: 0,
        lock_holder: 0,
        slices: 0,
        target: 0,
        timeout_ns: 0,
        task: 0,
        lock: 0,
    };
    capture.samples.insert(1, vec![sample]);
    capture
}

/// Function, file and line of the innermost frame that is not Rust's, and the notes.
fn named(mut capture: Capture) -> (Option<(String, String, u32)>, Vec<String>) {
    let notes = symbols::name_native(&mut capture);
    let stack = capture.samples[&1][0].stack;
    let first = capture.frames(stack).find(|f| !f.file.starts_with("/rustc/"));
    (first.map(|f| (f.function.to_owned(), f.file.to_owned(), f.line)), notes)
}

#[test]
fn damaged_binaries_are_refused_or_read() {
    assert_eq!(landmark(), 7);
    let offset = offset_of_landmark() + 2;
    let own = std::env::current_exe().expect("a path");
    let (found, notes) = named(capture_of(&own.display().to_string(), &tag(&own), &[offset]));
    let (function, file, line) = found.expect("a frame");
    assert!(function.ends_with("landmark") && notes.is_empty(), "{function} {notes:?}");
    assert!(file.ends_with("damaged_binaries_are_refused_or_read.rs") && line > 0, "{file}:{line}");

    let whole = std::fs::read(&own).expect("our file");
    let copy = std::env::temp_dir().join(format!("dashcam-damaged-{}", std::process::id()));
    let name = copy.display().to_string();
    let offsets = [offset, offset + 40, 64, whole.len() as u64 - 1, u64::MAX];
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..150 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(next(whole.len())),
            1 => (0..64).for_each(|_| bytes[next(whole.len())] = next(256) as u8),
            // Its header and tables, where each number matters most.
            _ => {
                (0..4).for_each(|_| bytes[next(64)] = next(256) as u8);
                let tables = whole.len() - 4096;
                (0..64).for_each(|_| bytes[tables + next(4096)] = next(256) as u8);
            }
        }
        std::fs::write(&copy, &bytes).expect("room");
        let (found, notes) = named(capture_of(&name, &tag(&copy), &offsets));
        assert!(found.is_some() && notes.len() <= 1, "{round}: {notes:?}");
    }
    std::fs::write(&copy, &whole).expect("room");
    let stale = tag(&copy);
    std::fs::write(&copy, &whole[..whole.len() - 1]).expect("room");
    let (found, notes) = named(capture_of(&name, &stale, &[offset]));
    assert!(notes[0].contains("another build"), "{notes:?}");
    assert!(found.expect("a frame").0.ends_with(&format!("+{offset:#x}")));
    std::fs::remove_file(&copy).expect("ours");

    for odd in ["/dev/zero", "/", "/nowhere/at all", "", "/srv/gone (deleted)"] {
        let (found, notes) = named(capture_of(odd, "file:0:0", &[offset]));
        assert!(found.is_some() && notes.len() == 1, "{odd}: {notes:?}");
    }
}
