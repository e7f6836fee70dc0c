//! The files mapped in this process, and where: /proc/self/maps.
//!
//! | reads | emits | cost |
//! | --- | --- | --- |
//! | /proc/self/maps, at most `MOST_BYTES` | a `Line` for each mapping of a file | 1 us each |
//!
//! What it promises: lines in another form than documented are left out.

use std::io::{self, Read};

/// Most bytes that are read; mappings behind them are not known.
const MOST_BYTES: u64 = 8 << 20;

/// A mapping of a file: `55d0-55d4 r-xp 00001000 08:01 1234   /usr/bin/x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Where in the file `start` lies, bytes.
    pub offset: u64,
    /// The file's inode.
    pub inode: u64,
    /// Its bytes may be run.
    pub executable: bool,
    /// The file's path, as the kernel gives it.
    pub path: &'t [u8],
}

/// The text of the list, now. Errors: as reading /proc/self/maps.
pub fn read() -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(16 << 10);
    std::fs::File::open("/proc/self/maps")?.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// The mappings of files in such a text.
pub fn files(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(Line::parse)
}

/// The path of the file mapped at `address`; None: no file, or no mapping. Reads the whole list:
/// for a single question. Errors: as `read`.
pub fn file_at(address: u64) -> io::Result<Option<String>> {
    let text = read()?;
    let found = files(&text).find(|line| (line.start..line.end).contains(&address));
    Ok(found.map(|line| String::from_utf8_lossy(line.path).into_owned()))
}

impl<'t> Line<'t> {
    /// None: no file behind it, or not such a line.
    fn parse(line: &'t [u8]) -> Option<Line<'t>> {
        let mut rest = line;
        let mut word = || {
            let end = rest.iter().position(|b| *b == b' ')?;
            let word = std::str::from_utf8(&rest[..end]).ok()?;
            rest = rest[end..].trim_ascii_start();
            Some(word)
        };
        let (range, access, offset, _, inode) = (word()?, word()?, word()?, word()?, word()?);
        let (start, end) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        (rest.starts_with(b"/") && start < end).then_some(())?;
        Some(Line {
            start,
            end,
            offset: hex(offset)?,
            inode: inode.parse().ok()?,
            executable: access.as_bytes().get(2) == Some(&b'x'),
            path: rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_found_by_an_address_in_it() {
        let own = a_mapped_file_is_found_by_an_address_in_it as *const () as u64;
        let exe = std::env::current_exe().expect("a path").display().to_string();
        assert_eq!(file_at(own).expect("readable"), Some(exe));
        let heap = Box::new(1u8);
        assert_eq!(file_at(&raw const *heap as u64).expect("readable"), None);
        assert_eq!(file_at(1).expect("readable"), None);
    }

    #[test]
    fn lines_that_look_other_than_documented_are_left_out() {
        let line = b"1000-2000 rw-s 00000000 00:1a 7          /dev/shm/my sem (deleted)";
        let found: Vec<Line<'_>> = files(line).collect();
        assert_eq!((found[0].start, found[0].end, found[0].executable), (0x1000, 0x2000, false));
        assert_eq!(found[0].path, b"/dev/shm/my sem (deleted)");
        for cut in 0..line.len() {
            let whole = files(&line[..cut]).next();
            assert!(whole.is_none_or(|cut| cut.path[0] == b'/'));
        }
        for odd in
            [&b""[..], b"\xff\xfe", b"- - - - - /x", b"2000-1000 r 0 0 1 /x", b"0-f r 0 0 0 [heap]"]
        {
            assert_eq!(files(odd).next(), None, "{odd:?}");
        }
    }
}
