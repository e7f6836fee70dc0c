//! Code objects in the test's own memory: what is unsure, taken back, and refused.

use super::*;

/// 3.13's offsets; the code objects below are laid out by them in the test's own memory.
const VERSION: u32 = 0x030d_00f0;
const NEWEST: u32 = 0x030f_02f0;
const CODE_TYPE: usize = 0x7777_0000;

fn address(words: &[u64]) -> usize {
    words.as_ptr() as usize
}

fn put_text(words: &mut [u64], byte: usize, text: &[u8]) {
    for (i, c) in text.iter().enumerate() {
        let (word, shift) = ((byte + i) / 8, 8 * ((byte + i) % 8));
        words[word] = (words[word] & !(0xff << shift)) | (u64::from(*c) << shift);
    }
}

/// A compact ASCII `str`.
fn string(text: &str) -> Vec<u64> {
    let mut words = vec![0; 5 + text.len() / 8 + 1];
    (words[0], words[2], words[3], words[4]) = (1, text.len() as u64, 0x5eed, 0x64);
    put_text(&mut words, 40, text.as_bytes());
    words
}

/// A `bytes`.
fn bytes(contents: &[u8]) -> Vec<u64> {
    let mut words = vec![0; 4 + contents.len() / 8 + 1];
    (words[0], words[2]) = (1, contents.len() as u64);
    put_text(&mut words, 32, contents);
    words
}

/// A code object and all that it refers to.
struct Fake {
    code: Vec<u64>,
    name: Vec<u64>,
    lines: Vec<u64>,
    file: Vec<u64>,
    _rest: [Vec<u64>; 2],
}

/// Four bytes of code each on the first line and on the one behind it.
const LINES: [u8; 4] = [0x80 | 1, 0, 0x80 | (11 << 3) | 1, 0];

impl Fake {
    fn new(layout: &Layout, name: &str) -> Fake {
        let (name, file) = (string(name), string("/srv/app.py"));
        let (lines, exceptions, names) = (bytes(&LINES), bytes(&[]), vec![1, 0, 0]);
        let mut code = vec![0u64; 40];
        let mut put = |offset: usize, words: &[u64]| code[offset / 8] = address(words) as u64;
        put(layout.code_file, &file);
        put(layout.code_name, &name);
        put(layout.code_qualname, &name);
        put(layout.code_lines, &lines);
        put(layout.code_exceptions, &exceptions);
        put(layout.code_names, &names);
        code[0] = 1;
        code[1] = CODE_TYPE as u64;
        code[layout.code_first_line / 8] |= 40 << (8 * (layout.code_first_line % 8));
        Fake { code, name, lines, file, _rest: [exceptions, names] }
    }

    fn at(&self) -> usize {
        address(&self.code)
    }
}

struct Bench {
    mem: Reader,
    layout: Layout,
    codes: Codes,
    counters: Counters,
}

impl Bench {
    fn new() -> Bench {
        Bench::of(VERSION)
    }

    fn of(version_hex: u32) -> Bench {
        let layout = Layout::of(version_hex).expect("a version that is known");
        let mem = Reader::new().expect("a process may read itself");
        let codes = Codes::new(version_hex, CODE_TYPE, &layout);
        Bench { mem, layout, codes, counters: Counters::default() }
    }

    /// As in a sample of a stack with a frame of each.
    fn read(&mut self, addresses: &[usize]) -> Vec<Option<CodeId>> {
        self.codes.begin_pass();
        self.codes.begin_frames();
        self.codes.verify(&self.mem, &self.layout, addresses, &mut self.counters);
        addresses.iter().map(|address| self.codes.id(*address)).collect()
    }

    /// `still_there`: the addresses that are confirmed by a frame.
    fn confirm(&mut self, still_there: &[usize]) -> bool {
        self.codes.confirm(&self.mem, &self.layout, |address| still_there.contains(&address))
    }

    fn name(&self, id: Option<CodeId>) -> Option<&str> {
        Some(&self.codes.get(id?)?.info.qualname)
    }

    fn line(&self, id: Option<CodeId>, offset: i64) -> Option<u32> {
        Some(self.codes.get(id?)?.line(offset))
    }
}

#[test]
fn what_is_met_first_is_unsure_and_then_known() {
    let mut bench = Bench::new();
    let fake = Fake::new(&bench.layout, "handler");
    let ids = bench.read(&[fake.at()]);
    assert_eq!(bench.codes.unsure(), [fake.at()]);
    assert!(bench.confirm(&[fake.at()]));
    assert_eq!((bench.line(ids[0], 0), bench.line(ids[0], 4)), (Some(40), Some(41)));
    assert_eq!(bench.read(&[fake.at()]), ids);
    assert!(bench.codes.unsure().is_empty());
}

#[test]
fn what_was_unsure_can_be_taken_back() {
    let mut bench = Bench::new();
    let old = Fake::new(&bench.layout, "old");
    let kept = bench.read(&[old.at()]);
    let before = (bench.codes.all.len(), bench.codes.table_bytes);
    let (one, two) = (Fake::new(&bench.layout, "one"), Fake::new(&bench.layout, "two"));
    bench.read(&[old.at(), one.at(), two.at()]);
    assert_eq!(bench.codes.unsure(), [one.at(), two.at()]);
    bench.codes.forget_unsure();
    assert!(bench.codes.unsure().is_empty());
    assert_eq!((bench.codes.all.len(), bench.codes.table_bytes), before);
    assert_eq!(bench.codes.by_identity.len(), 1);
    assert_eq!(bench.codes.id(one.at()), None);
    assert_eq!(bench.codes.id(old.at()), kept[0]);
    let again = bench.read(&[two.at(), old.at()]);
    assert_eq!(again[1], kept[0]);
    assert_eq!(bench.name(again[0]), Some("two"));
}

/// The thread ran on while its stack was read: what is still on it is kept, so the next try has
/// less to learn.
#[test]
fn what_is_still_there_is_kept_when_the_rest_is_taken_back() {
    let mut bench = Bench::new();
    let named = |name| Fake::new(&bench.layout, name);
    let (outer, left, inner) = (named("outer"), named("left"), named("inner"));
    bench.read(&[outer.at(), left.at(), inner.at()]);
    let bytes = bench.codes.table_bytes;
    assert!(!bench.confirm(&[outer.at(), inner.at()]));
    assert!(bench.codes.table_bytes < bytes);
    assert_eq!((bench.codes.all.len(), bench.codes.by_identity.len()), (3, 2));
    assert_eq!(bench.codes.id(left.at()), None);
    let ids = bench.read(&[outer.at(), inner.at()]);
    assert!(bench.codes.unsure().is_empty(), "both were known");
    assert_eq!((bench.name(ids[0]), bench.name(ids[1])), (Some("outer"), Some("inner")));
}

/// The address was freed when it was read, and its line table already another object's; then a code
/// object was made there.
#[test]
fn a_table_that_reads_otherwise_afterwards_is_refused() {
    let mut bench = Bench::new();
    let mut fake = Fake::new(&bench.layout, "handler");
    let right = std::mem::replace(&mut fake.lines[4], 0);
    let wrong = bench.read(&[fake.at()]);
    assert_ne!(bench.line(wrong[0], 4), Some(41));
    fake.lines[4] = right;
    assert!(!bench.confirm(&[fake.at()]));
    assert_eq!(bench.codes.all.len(), 1, "nothing is kept of it");
    let ids = bench.read(&[fake.at()]);
    assert_eq!((bench.line(ids[0], 4), bench.confirm(&[fake.at()])), (Some(41), true));
}

#[test]
fn another_code_object_at_the_address_is_not_the_one_that_was_read() {
    let mut bench = Bench::new();
    let mut fake = Fake::new(&bench.layout, "first_here");
    bench.read(&[fake.at()]);
    fake.name[3] ^= 1; // the hash of its name
    assert!(!bench.confirm(&[fake.at()]));
    let second = bench.read(&[fake.at()]);
    assert!(bench.confirm(&[fake.at()]));
    fake.name[3] ^= 1;
    let first = bench.read(&[fake.at()]);
    assert!(bench.confirm(&[fake.at()]));
    // Both were known before: nothing is taken back but what the address stands for.
    fake.name[3] ^= 1;
    assert_eq!(bench.read(&[fake.at()]), second);
    fake.name[3] ^= 1;
    assert!(!bench.confirm(&[fake.at()]));
    assert_eq!(bench.read(&[fake.at()]), first);
}

/// Before 3.11 file names often have none: another file's of the same length then looked the same.
#[test]
fn a_file_name_without_a_hash_is_identified_by_its_text() {
    let mut bench = Bench::new();
    let mut fake = Fake::new(&bench.layout, "handler");
    fake.file[3] = u64::MAX;
    let first = bench.read(&[fake.at()]);
    assert_eq!(bench.read(&[fake.at()]), first);
    put_text(&mut fake.file, 40, b"/srv/two.py");
    let second = bench.read(&[fake.at()]);
    assert_ne!(first, second);
    let file = |ids: &[Option<CodeId>]| {
        ids[0].and_then(|id| bench.codes.get(id)).map(|code| code.info.file.clone())
    };
    assert_eq!(file(&first).as_deref(), Some("/srv/app.py"));
    assert_eq!(file(&second).as_deref(), Some("/srv/two.py"));
}

#[test]
fn a_freed_code_object_is_none_and_a_glance_keeps_nothing() {
    let mut bench = Bench::new();
    let mut fake = Fake::new(&bench.layout, "handler");
    let info = bench.codes.glance(&bench.mem, &bench.layout, fake.at());
    assert_eq!(info.map(|info| info.qualname).as_deref(), Some("handler"));
    assert_eq!((bench.codes.all.len(), bench.codes.by_pointer.len()), (1, 0));
    // The allocator chains freed blocks by their first words.
    fake.code[0] = address(&fake.lines) as u64;
    assert_eq!(bench.read(&[fake.at()]), [None]);
    assert_eq!(bench.codes.glance(&bench.mem, &bench.layout, fake.at()), None);
}

/// From 3.14 on flags lie above the count, which alone would look like a very large one.
#[test]
fn a_count_below_flags_is_alive_and_an_address_is_not() {
    let mut bench = Bench::of(NEWEST);
    let mut fake = Fake::new(&bench.layout, "handler");
    for alive in [1, 0x0005_0000_0000_0003, 0x0005_0000_c000_0000] {
        fake.code[0] = alive;
        let ids = bench.read(&[fake.at()]);
        assert_eq!(bench.name(ids[0]), Some("handler"), "{alive:#x}");
    }
    for freed in [0, 0x0005_0000_0000_0000, address(&fake.lines) as u64, 0x7f12_3456_7890] {
        fake.code[0] = freed;
        assert_eq!(bench.read(&[fake.at()]), [None], "{freed:#x}");
    }
}
