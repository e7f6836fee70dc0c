//! The files that are mapped executable, and where: /proc/self/maps as a sorted list.

use sys::mapped::{self, Line};

/// An executable mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Where in the file `start` lies, bytes.
    pub offset: u64,
    /// Index of the file in `Maps::files`.
    pub file: usize,
}

/// A file that is mapped executable somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its path, as the kernel gives it.
    pub path: String,
    /// Its inode.
    pub inode: u64,
    /// Where its first page is mapped; 0 when it is not.
    pub head: u64,
}

/// The executable mappings of files, sorted by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    /// The mappings.
    pub ranges: Vec<Range>,
    /// Their files.
    pub files: Vec<Mapped>,
    /// The ranges, joined where they are within `NEAR` of each other: most words of a stack lie in
    /// none of these few.
    spans: Vec<(u64, u64)>,
}

/// Ranges at most this far apart are one span.
const NEAR: u64 = 64 << 20;

impl Maps {
    /// Of this process, now. Cost: about 1 us a mapping. Errors: as reading /proc/self/maps.
    pub fn read() -> std::io::Result<Maps> {
        Ok(Maps::parse(&mapped::read()?))
    }

    /// From the text of /proc/self/maps; lines that look other than documented are left out.
    pub fn parse(text: &[u8]) -> Maps {
        let mut maps = Maps::default();
        // The mapping of a file's first page comes before the executable ones of the same file.
        let mut head = (0, &b""[..], 0);
        for line in mapped::files(text) {
            if line.offset == 0 && head.1 != line.path {
                head = (line.inode, line.path, line.start);
            }
            if !line.executable {
                continue;
            }
            let here = if (head.0, head.1) == (line.inode, line.path) { head.2 } else { 0 };
            let file = maps.file(&line, here);
            let Line { start, end, offset, .. } = line;
            maps.ranges.push(Range { start, end, offset, file });
        }
        maps.ranges.sort_unstable_by_key(|r| r.start);
        for range in &maps.ranges {
            match maps.spans.last_mut() {
                Some(span) if range.start.saturating_sub(span.1) < NEAR => span.1 = range.end,
                _ => maps.spans.push((range.start, range.end)),
            }
        }
        maps
    }

    fn file(&mut self, line: &Line<'_>, head: u64) -> usize {
        let path = String::from_utf8_lossy(line.path);
        let same = |f: &Mapped| f.inode == line.inode && f.head == head && f.path == path;
        self.files.iter().position(same).unwrap_or_else(|| {
            self.files.push(Mapped { path: path.into_owned(), inode: line.inode, head });
            self.files.len() - 1
        })
    }

    /// The mapping an address lies in.
    pub fn find(&self, address: u64) -> Option<Range> {
        if !self.spans.iter().any(|(start, end)| (*start..*end).contains(&address)) {
            return None;
        }
        let index = self.ranges.partition_point(|r| r.end <= address);
        self.ranges.get(index).filter(|r| r.start <= address).copied()
    }

    /// Whether every mapping of `self` is in `later` too: then addresses have the same meaning
    /// there.
    pub fn still_hold_in(&self, later: &Maps) -> bool {
        self.ranges.iter().all(|old| {
            let new = later.find(old.start);
            let same_file = |new: &Range| later.files[new.file] == self.files[old.file];
            new.is_some_and(|n| {
                (n.start, n.end, n.offset) == (old.start, old.end, old.offset) && same_file(&n)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 11                         /srv/my service
55d0c0001000-55d0c0003000 r-xp 00001000 08:01 11                         /srv/my service
55d0c0003000-55d0c0004000 rw-p 00003000 08:01 11                         /srv/my service
55d0c1000000-55d0c1100000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000020000-7f0000040000 r--p 00000000 08:01 12                         /lib/libc.so.6
7f0000040000-7f0000080000 r-xp 00020000 08:01 12                         /lib/libc.so.6
7f0000080000-7f0000090000 r-xp 00000000 08:01 13                         /tmp/gone.so (deleted)
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn executable_mappings_of_files_are_found_by_address() {
        let maps = Maps::parse(TEXT.as_bytes());
        let found = |address| {
            let range = maps.find(address)?;
            let file = &maps.files[range.file];
            Some((file.path.as_str(), file.head, address - range.start + range.offset))
        };
        assert_eq!(found(0x55d0_c000_1010), Some(("/srv/my service", 0x55d0_c000_0000, 0x1010)));
        assert_eq!(found(0x7f00_0004_0000), Some(("/lib/libc.so.6", 0x7f00_0002_0000, 0x2_0000)));
        let gone = Some(("/tmp/gone.so (deleted)", 0x7f00_0008_0000, 5));
        assert_eq!(found(0x7f00_0008_0005), gone);
        for outside in [0, 0x55d0_c000_0800, 0x55d0_c000_3000, 0x7f00_0000_0500, 0x7ffc_0000_0010] {
            assert_eq!(found(outside), None, "{outside:#x}");
        }
    }

    #[test]
    fn a_file_mapped_elsewhere_changes_what_addresses_mean_and_a_new_one_does_not() {
        let before = Maps::parse(TEXT.as_bytes());
        let one_less = TEXT.replace("/tmp/gone.so (deleted)", "/tmp/other.so");
        assert!(before.still_hold_in(&before));
        assert!(!before.still_hold_in(&Maps::parse(one_less.as_bytes())));
        let more = format!("{TEXT}7fff00000000-7fff00001000 r-xp 00000000 08:01 14 /lib/new.so\n");
        assert!(before.still_hold_in(&Maps::parse(more.as_bytes())));
    }

    #[test]
    fn every_prefix_and_garbage_is_parsed_or_left_out() {
        for cut in 0..TEXT.len() {
            Maps::parse(&TEXT.as_bytes()[..cut]);
        }
        let odd: [&[u8]; 5] =
            [b"\n\n", b"- r-xp 0 0 0 /x", b"5-4 r-xp 0 0 1 /x", b"\xff-\xff", b"1-2 r 0 0 1 /x"];
        for line in odd {
            assert_eq!(Maps::parse(line), Maps::default(), "{line:?}");
        }
    }

    #[test]
    fn this_process_finds_its_own_code() {
        let maps = Maps::read().expect("/proc/self/maps");
        let here = this_process_finds_its_own_code as *const () as u64;
        let range = maps.find(here).expect("a mapping");
        let exe = std::env::current_exe().expect("a path");
        assert_eq!(maps.files[range.file].path, exe.display().to_string());
    }
}
