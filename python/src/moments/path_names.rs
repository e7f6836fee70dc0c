//! Names of requests, `METHOD path`, with parts that look like ids left out.
//!
//! How it works: a name is assembled in a buffer of the thread, which is reused, and its id is
//! found by its characters among those that the thread knows, so that a known name costs neither an
//! allocation nor a lock.
//!
//! What it promises: at most `MOST_RAW` names are made from paths. Missing on purpose: names of the
//! program's own (`names`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use recorder::Recorder;

/// At most this many names are made from paths; all others are `METHOD (other)`.
const MOST_RAW: u64 = 500;
/// At most this many names are remembered by a thread; for further ones the recorder is called each
/// time.
const MOST: usize = 2_000;
/// A part of a path of this length or more is no word.
const LONG: usize = 33;
/// Bytes of a file name's ending: `parquet` is the longest in wide use.
const LONGEST_ENDING: usize = 7;

/// Ids of names assembled here, by one thread.
#[derive(Default)]
struct Texts {
    /// The epoch of the recorder that gave the ids.
    epoch: u32,
    ids: HashMap<Box<str>, u32, BuildHasherDefault<Words>>,
    buffer: String,
}

/// Hashes a text by words of 8 bytes. A client that sends paths of one hash makes `MOST_RAW` names
/// at most.
#[derive(Default)]
struct Words(u64);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        // Fibonacci's multiplier; the rotation brings high bits, which are mixed best, to the rest.
        let mut mix = |word: u64| {
            self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        };
        let (words, length) = (bytes.chunks_exact(8), bytes.len() as u64);
        let rest = words.remainder().iter().fold(length, |last, byte| last << 8 | u64::from(*byte));
        words.for_each(|word| mix(word.try_into().map_or(0, u64::from_le_bytes)));
        mix(rest);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

thread_local! {
    static TEXTS: RefCell<Texts> = RefCell::default();
}

/// How many names were made from paths, below the epoch of the recorder that has them. Relaxed: it
/// decides nothing but its own bound.
static RAW: AtomicU64 = AtomicU64::new(0);

/// Whether one more name may be made from a path.
fn one_more_raw(epoch: u32) -> bool {
    let epoch = u64::from(epoch) << 32;
    let more = |raw: u64| match raw & (u64::MAX << 32) == epoch {
        true => (raw < epoch + MOST_RAW).then_some(raw + 1),
        false => Some(epoch + 1),
    };
    RAW.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// The source of a name.
pub(super) enum Source {
    /// A path as the client sent it.
    Path,
    /// A route of the program.
    Route,
}

impl Texts {
    /// The id of `METHOD path`.
    fn id(&mut self, recorder: &Recorder, method: &str, path: &str, source: &Source) -> u32 {
        if self.epoch != recorder.epoch() {
            self.epoch = recorder.epoch();
            self.ids.clear();
        }
        self.buffer.clear();
        self.buffer.push_str(method);
        self.buffer.push(' ');
        match source {
            Source::Path => put_path(&mut self.buffer, path),
            Source::Route => self.buffer.push_str(path),
        }
        if let Some(id) = self.ids.get(self.buffer.as_str()) {
            return *id;
        }
        self.make(recorder, method, source)
    }

    #[cold]
    fn make(&mut self, recorder: &Recorder, method: &str, source: &Source) -> u32 {
        let is_new = || recorder.tables().known(&self.buffer).is_none();
        if matches!(source, Source::Path) && is_new() && !one_more_raw(recorder.epoch()) {
            return recorder.request_name(&format!("{method} (other)"));
        }
        let id = recorder.request_name(&self.buffer);
        // A refused name is requested again.
        if id != 0 && self.ids.len() < MOST {
            self.ids.insert(self.buffer.as_str().into(), id);
        }
        id
    }
}

/// The path without its query, `{id}` for parts that look like ids, `{id}.json` for files with a
/// digit in their names.
fn put_path(buffer: &mut String, path: &str) {
    let mut rest = path;
    loop {
        let part = first_part(rest.as_bytes());
        let text = &rest[..part.end];
        match part.form {
            Form::Word => buffer.push_str(text),
            Form::Digits => buffer.push_str("{id}"),
            Form::Other => put_part(buffer, text),
        }
        if !part.is_followed {
            return;
        }
        buffer.push('/');
        rest = &rest[part.end + 1..];
    }
}

/// The first part of a path.
struct First {
    /// Where it ends.
    end: usize,
    /// Whether a slash follows, and another part.
    is_followed: bool,
    form: Form,
}

/// What a part surely is.
enum Form {
    /// Short, with a letter behind `f`, and neither dots nor characters beyond ASCII; or nothing.
    Word,
    Digits,
    Other,
}

/// The part before the next slash, the query, or the end.
fn first_part(path: &[u8]) -> First {
    let (mut is_plain, mut has_letter, mut others) = (true, false, 0);
    let (mut end, mut is_followed) = (path.len(), false);
    for (at, byte) in path.iter().enumerate() {
        match byte {
            b'0'..=b'9' => continue,
            b'/' | b'?' => {
                (end, is_followed) = (at, *byte == b'/');
                break;
            }
            b'g'..=b'z' | b'G'..=b'Z' | b'_' => has_letter = true,
            b'.' | 0x80.. => is_plain = false,
            _ => (),
        }
        others += 1;
    }
    let form = match (end, others) {
        (0, _) => Form::Word,
        (_, 0) => Form::Digits,
        _ if end < LONG && is_plain && has_letter => Form::Word,
        _ => Form::Other,
    };
    First { end, is_followed, form }
}

fn put_part(buffer: &mut String, part: &str) {
    match part.rsplit_once('.').filter(|(stem, ending)| is_file(stem, ending)) {
        Some((_, ending)) => {
            buffer.push_str("{id}.");
            buffer.push_str(ending);
        }
        None => buffer.push_str(if is_id(part) { "{id}" } else { part }),
    }
}

/// Digits, eight and more hexadecimal ones, a UUID, or anything long.
fn is_id(part: &str) -> bool {
    if part.is_empty() {
        return false;
    }
    let is_hex = |byte: u8| byte.is_ascii_hexdigit();
    part.bytes().all(|byte| byte.is_ascii_digit())
        || (part.len() >= 8 && part.bytes().all(is_hex))
        || (part.len() >= 32 && part.bytes().all(|byte| is_hex(byte) || byte == b'-'))
        || (part.len() >= LONG && part.chars().count() >= LONG)
        || (!part.is_ascii() && part.chars().all(char::is_numeric))
}

/// Whether `stem.ending` is the name of a file that has a number or looks like an id: `77.json`,
/// `u7.ics`.
fn is_file(stem: &str, ending: &str) -> bool {
    let mut letters = ending.bytes();
    let is_ending = letters.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && ending.len() <= LONGEST_ENDING
        && letters.all(|byte| byte.is_ascii_alphanumeric());
    is_ending && (is_id(stem) || stem.bytes().any(|byte| byte.is_ascii_digit()))
}

/// The id of `METHOD path`, whose path is from there.
pub(super) fn name_id(recorder: &Recorder, method: &str, path: &str, source: Source) -> u32 {
    let known = TEXTS
        .try_with(|texts| Some(texts.try_borrow_mut().ok()?.id(recorder, method, path, &source)));
    // A thread that ends has none any more.
    known.ok().flatten().unwrap_or_else(|| Texts::default().id(recorder, method, path, &source))
}
