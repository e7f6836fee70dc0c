//! The function around a place in a Rust source.
//!
//! Why: debug information of lines alone (`debug = "line-tables-only"`) names an inlined closure or
//! async body `{async_fn#0}`, without the function that it is written in. The source says it.
//!
//! How it works: the file is read once, and its `fn NAME` are paired with the braces of their
//! bodies; comments, strings and characters are passed over. The innermost function around the
//! line and column is the answer.
//!
//! What it promises: a source that is newer than the binary is not read, nor one that is too large.
//! Where the column is missing and the line has several functions, there is no answer. What it does
//! not promise: that a macro's tokens are what they look like.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// A larger file is not read.
const MOST_BYTES: u64 = 4 << 20;
/// At most this many functions around one another are kept.
const MOST_DEPTH: usize = 256;

/// Line and column, both from 1.
type At = (u32, u32);

/// The functions of a file.
#[derive(Default)]
pub struct Source {
    /// Begin and end of each body, and the function's name; inner ones before outer ones.
    functions: Vec<(At, At, String)>,
}

impl Source {
    /// Reads a file that is not newer than `built`.
    pub fn open(path: &str, built: SystemTime) -> Option<Source> {
        let meta = fs::metadata(Path::new(path)).ok()?;
        let fits = meta.is_file() && meta.len() <= MOST_BYTES && meta.modified().ok()? <= built;
        let text = if fits { fs::read_to_string(path).ok()? } else { return None };
        Some(Source::parse(&text))
    }

    /// The functions of a text.
    pub fn parse(text: &str) -> Source {
        let mut functions = Vec::new();
        // Names of functions by the depth of their bodies' braces; a name whose body has not begun.
        let (mut open, mut depth) = (Vec::<(usize, At, String)>::new(), 0usize);
        let (mut named, mut after_fn) = (None::<String>, false);
        for (token, at) in tokens(text) {
            match token {
                Token::Word("fn") => after_fn = true,
                Token::Word(name) if after_fn => {
                    (named, after_fn) = (Some(name.to_owned()), false);
                }
                Token::Word(_) => (),
                Token::Sign(b'{') => {
                    depth += 1;
                    if let Some(name) = named.take().filter(|_| open.len() < MOST_DEPTH) {
                        open.push((depth, at, name));
                    }
                }
                Token::Sign(b'}') => {
                    if open.last().is_some_and(|(own, ..)| *own == depth) {
                        functions.extend(open.pop().map(|(_, begin, name)| (begin, at, name)));
                    }
                    depth = depth.saturating_sub(1);
                }
                // A declaration without a body; `fn(u8)` is a type.
                Token::Sign(b';') => named = None,
                Token::Sign(_) => after_fn = false,
            }
        }
        Source { functions }
    }

    /// The innermost function around a place; `column` 0: not known.
    pub fn around(&self, line: u32, column: u32) -> Option<&str> {
        if column > 0 {
            let at = (line, column);
            let mut around = self.functions.iter().filter(|f| f.0 <= at && at <= f.1);
            return around.next().map(|f| f.2.as_str());
        }
        let on_line = |f: &&(At, At, String)| f.0 .0 <= line && line <= f.1 .0;
        let mut around = self.functions.iter().filter(on_line);
        let first = around.next()?;
        // One that encloses the first is no rival.
        let rival = around.any(|f| !(f.0 <= first.0 && first.1 <= f.1));
        (!rival).then_some(first.2.as_str())
    }
}

enum Token<'t> {
    Word(&'t str),
    Sign(u8),
}

/// Words and signs of a Rust text, with their places.
fn tokens(text: &str) -> impl Iterator<Item = (Token<'_>, At)> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut line_begin) = (0usize, 1u32, 0usize);
    std::iter::from_fn(move || loop {
        let byte = *bytes.get(at)?;
        let place = (line, (at - line_begin) as u32 + 1);
        let begin = at;
        at = match byte {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => comment_end(bytes, at),
            b'"' => string_end(bytes, at + 1),
            b'r' | b'b' | b'c' if string_begins(bytes, at).is_some() => string_begins(bytes, at)
                .map_or(at + 1, |(quote, marks)| match marks {
                    None => string_end(bytes, quote + 1),
                    Some(marks) => raw_end(bytes, quote + 1, marks),
                }),
            b'\'' => character_end(bytes, at),
            b if b.is_ascii_alphabetic() || b == b'_' => word_end(bytes, at),
            _ => at + 1,
        };
        for (i, _) in bytes[begin..at].iter().enumerate().filter(|(_, b)| **b == b'\n') {
            (line, line_begin) = (line + 1, begin + i + 1);
        }
        let is_word = byte.is_ascii_alphabetic() || byte == b'_';
        match text.get(begin..at) {
            Some(word) if is_word && word_end(bytes, begin) == at => {
                return Some((Token::Word(word), place))
            }
            Some(_) if at == begin + 1 && byte.is_ascii_punctuation() => {
                return Some((Token::Sign(byte), place))
            }
            _ => (),
        }
    })
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_');
    rest.map_or(bytes.len(), |n| at + n)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while at < bytes.len() {
        let (step, change) = match &bytes[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        (at, depth) = (at + step, depth.saturating_add_signed(change));
        if depth == 0 {
            break;
        }
    }
    at.min(bytes.len())
}

/// Behind the quote that ends a string whose content begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The quote of a string with a prefix (`b"`, `r#"`), and how many marks a raw one has.
fn string_begins(bytes: &[u8], at: usize) -> Option<(usize, Option<usize>)> {
    // `r` inside of a word begins nothing.
    let before = at.checked_sub(1).and_then(|i| bytes.get(i));
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let letters = bytes[at..].iter().take(2).take_while(|b| matches!(b, b'r' | b'b' | b'c'));
    let letters = letters.count();
    let raw = bytes[at..at + letters].contains(&b'r');
    let marks = bytes[at + letters..].iter().take_while(|b| **b == b'#').count();
    let quote = at + letters + marks;
    let is_string = bytes.get(quote) == Some(&b'"') && (raw || marks == 0);
    is_string.then_some((quote, raw.then_some(marks)))
}

fn raw_end(bytes: &[u8], mut at: usize, marks: usize) -> usize {
    while at < bytes.len() {
        let closes = bytes[at] == b'"'
            && bytes[at + 1..].iter().take(marks).filter(|b| **b == b'#').count() == marks;
        if closes {
            return at + 1 + marks;
        }
        at += 1;
    }
    bytes.len()
}

/// Behind a character; of a lifetime, behind its quote.
fn character_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            let end = bytes[(at + 3).min(bytes.len())..].iter().position(|b| *b == b'\'');
            end.map_or(bytes.len(), |n| at + 4 + n)
        }
        // One of several bytes has no quote at once, and no quote in the next few: a lifetime.
        Some(first) if *first >= 0x80 => {
            let end = bytes[at + 1..].iter().take(5).position(|b| *b == b'\'');
            end.map_or(at + 1, |n| at + 2 + n)
        }
        Some(_) if bytes.get(at + 2) == Some(&b'\'') => at + 3,
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"
fn outer<'a>(f: fn(u8) -> u8) -> char {
    let _ = ("}{", '{', '\'', r#"fn no() {"#, b"}", 'é'); // fn no() {
    /* fn no() { /* } */ */
    fn inner() { if true { go(); } }
    '}'
}
trait T { fn declared(&self) -> u8; fn given(&self) { self.x() } }
async fn a() { b().await } async fn c() { d().await }
"##;

    #[test]
    fn the_innermost_function_around_a_place_is_found() {
        let source = Source::parse(TEXT);
        assert_eq!((source.around(3, 9), source.around(6, 5)), (Some("outer"), Some("outer")));
        assert_eq!(source.around(5, 30), Some("inner"));
        assert_eq!(source.around(8, 60), Some("given"), "not the one without a body");
        assert_eq!((source.around(9, 20), source.around(9, 50)), (Some("a"), Some("c")));
        assert_eq!(source.around(9, 0), None, "there are two on that line");
        assert_eq!((source.around(5, 0), source.around(1, 1)), (Some("inner"), None));
    }

    #[test]
    fn any_text_is_parsed() {
        for cut in 0..TEXT.len() {
            let text = String::from_utf8_lossy(&TEXT.as_bytes()[cut..]);
            Source::parse(&text).around(3, 1);
            let text = String::from_utf8_lossy(&TEXT.as_bytes()[..cut]);
            Source::parse(&text).around(3, 0);
        }
    }

    #[test]
    fn a_source_that_is_newer_than_the_binary_is_not_read() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/source.rs");
        assert!(Source::open(own, SystemTime::UNIX_EPOCH).is_none());
        let source = Source::open(own, SystemTime::now()).expect("this file");
        assert_eq!(
            source.around(line!(), column!()),
            Some("a_source_that_is_newer_than_the_binary_is_not_read")
        );
    }
}
