//! What all records share: the header word, the kinds and their flags, attributes, and the builder
//! of a record with attributes. The meaning of each kind's words is `record`'s, or of the file of
//! that kind.

/// Most words a record may have.
pub const MAX_WORDS: usize = 120;
/// Most attributes of one record.
pub const MAX_ATTRIBUTES: usize = 8;
/// Most bytes of a text attribute, but for an event's.
pub const MAX_TEXT: usize = 64;
/// Most bytes of a text attribute of an event, which may be a line of a log, if there is room.
pub const MAX_EVENT_TEXT: usize = 512;
/// Name of the vital that marks times without switch records. Its value is how long, in ns, there
/// had been none at its time; 0: from now on there are some. Recorded when such a time begins, once
/// a second and before a capture while it lasts, and when it ends.
pub const SWITCHES_PAUSED: &str = "switches_paused_ns";
/// `OffCpu.in_ns` of a thread that is still off the CPU, `Task.end_ns` of a task that still runs.
pub const STILL_OUT: u64 = u64::MAX;

/// Kinds of records. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Event = 1,
    Span = 2,
    RequestBegin = 3,
    RequestEnd = 4,
    Sample = 5,
    OffCpu = 6,
    Gc = 7,
    Vital = 8,
    Task = 9,
    Thread = 10,
    Await = 11,
    Metric = 12,
    Trace = 13,
    Link = 14,
    NativeStack = 15,
    Wake = 16,
    Again = 17,
    Suspension = 18,
}

/// Flags of the header word, per kind.
pub mod flag {
    /// RequestEnd, Span: ended by an exception.
    pub const ERROR: u16 = 1;
    /// RequestBegin, RequestEnd: runs on an event loop, so its thread also serves others.
    pub const ASYNC: u16 = 2;
    /// RequestBegin: recorded again by the sampler for a request that still runs, with its present
    /// name and one more word, its thread.
    pub const AGAIN: u16 = 4;
    /// Span: a call to another service (docs/integrations.md).
    pub const CALL: u16 = 8;
    /// Sample: the thread did not run since its last sample; stack and wait are carried over.
    pub const REUSED: u16 = 1;
    /// Sample: the stack was cut at the frame limit.
    pub const TRUNCATED: u16 = 2;
    /// Sample: cpu and run delay were measured for this sample.
    pub const TIMES: u16 = 4;
    /// Sample of a running thread: target and timeout hold what it has used so far (`Usage`).
    pub const USAGE: u16 = 8;
    /// Sample: the bits from here up say how often the thread was given a CPU since its last
    /// sample; if all are set, that often or more. Two bits below are free.
    pub const SLICES_SHIFT: u32 = 6;
}

/// The header word.
#[inline]
pub fn header(kind: Kind, words: usize, flags: u16, name: u32) -> u64 {
    kind as u64 | ((words as u64) << 8) | (u64::from(flags) << 16) | (u64::from(name) << 32)
}

/// One attribute's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

impl Value<'_> {
    /// Type code and bits of a value that takes one word; None for a text.
    #[inline]
    pub fn scalar(self) -> Option<(u64, u64)> {
        match self {
            Value::Int(v) => Some((0, v as u64)),
            Value::Float(v) => Some((1, v.to_bits())),
            Value::Bool(v) => Some((2, u64::from(v))),
            Value::Text(_) => None,
        }
    }
}

/// The key word of an attribute: its name, type code and bytes of text.
#[inline]
pub fn key_word(key: u32, code: u64, bytes: usize) -> u64 {
    u64::from(key) | (code << 32) | ((bytes as u64) << 40)
}

/// Words that suffice for most records with attributes; see `Builder`.
pub const FEW_WORDS: usize = 20;

/// Whether a record of `fixed` words and these attributes fits into `FEW_WORDS`.
#[inline]
pub fn are_few(fixed: usize, attributes: &[(u32, Value<'_>)]) -> bool {
    let words = |(_, value): &(u32, Value<'_>)| match value {
        Value::Text(text) => 1 + text.len().div_ceil(8),
        _ => 2,
    };
    fixed + attributes.iter().map(words).sum::<usize>() <= FEW_WORDS
}

/// A record under construction, on the stack: no allocation. Its room is cleared first, so a small
/// one (`Builder<FEW_WORDS>`) is cheaper.
pub struct Builder<const WORDS: usize = MAX_WORDS> {
    words: [u64; WORDS],
    len: usize,
    attributes: usize,
    cut: u32,
}

impl<const WORDS: usize> Builder<WORDS> {
    /// Starts a record: its header and the fixed words behind it.
    #[inline]
    pub fn new(kind: Kind, flags: u16, name: u32, fixed: &[u64]) -> Builder<WORDS> {
        let mut words = [0; WORDS];
        words[0] = header(kind, 0, flags, name);
        words[1..=fixed.len()].copy_from_slice(fixed);
        Builder { words, len: 1 + fixed.len(), attributes: 0, cut: 0 }
    }

    /// Appends an attribute; beyond the limits it is cut or left out, and counted in `cut`.
    pub fn attribute(&mut self, key: u32, value: Value<'_>) {
        let text = match value {
            Value::Text(text) => cut_text(text, self.most_of_text(text)),
            _ => "",
        };
        let words = 1 + value_words(&value, text);
        if self.attributes == MAX_ATTRIBUTES || self.len + words > WORDS {
            self.cut += 1;
            return;
        }
        self.attributes += 1;
        if let Value::Text(full) = value {
            self.cut += u32::from(full.len() != text.len());
        }
        if let Some((code, bits)) = value.scalar() {
            self.push(key_word(key, code, 0));
            self.push(bits);
            return;
        }
        self.push(key_word(key, 3, text.len()));
        for part in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            self.push(u64::from_le_bytes(bytes));
        }
    }

    /// How many bytes of a text are kept: of an event's as many as there is room for.
    fn most_of_text(&self, text: &str) -> usize {
        if text.len() <= MAX_TEXT || self.words[0] as u8 != Kind::Event as u8 {
            return MAX_TEXT;
        }
        let room = 8 * (WORDS - self.len).saturating_sub(1);
        MAX_EVENT_TEXT.min(room).max(MAX_TEXT)
    }

    fn push(&mut self, word: u64) {
        self.words[self.len] = word;
        self.len += 1;
    }

    /// The finished words, and how many attributes were cut or left out.
    #[inline]
    pub fn finish(&mut self) -> (&[u64], u32) {
        self.words[0] = (self.words[0] & !0xff00) | ((self.len as u64) << 8);
        (&self.words[..self.len], self.cut)
    }
}

fn value_words(value: &Value<'_>, text: &str) -> usize {
    match value {
        Value::Text(_) => text.len().div_ceil(8),
        _ => 1,
    }
}

fn cut_text(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The attributes of a record, decoded one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributes<'a>(pub(crate) &'a [u64]);

impl Attributes<'_> {
    /// Calls `each` with every attribute's key and value; stops at the first that makes no sense.
    pub fn each(&self, mut each: impl FnMut(u32, Value<'_>)) {
        let mut rest = self.0;
        let mut buffer = [0u8; MAX_EVENT_TEXT];
        while let [head, tail @ ..] = rest {
            let key = *head as u32;
            let bytes = (head >> 40) as usize;
            let words = if (head >> 32) & 0xff == 3 { bytes.div_ceil(8) } else { 1 };
            let Some((value, next)) = tail.split_at_checked(words) else {
                return;
            };
            match (head >> 32) & 0xff {
                0 => each(key, Value::Int(value[0] as i64)),
                1 => each(key, Value::Float(f64::from_bits(value[0]))),
                2 => each(key, Value::Bool(value[0] != 0)),
                3 if bytes <= MAX_EVENT_TEXT => {
                    for (slot, word) in buffer.chunks_mut(8).zip(value) {
                        slot.copy_from_slice(&word.to_le_bytes());
                    }
                    each(key, Value::Text(std::str::from_utf8(&buffer[..bytes]).unwrap_or("?")));
                }
                _ => return,
            }
            rest = next;
        }
    }
}
