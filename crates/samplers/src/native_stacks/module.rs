//! Mapped ELF files: the identity of a build (its build id, else its size and time of change), its
//! extent in memory, and where a section of it is.

use sys::mem::Reader;

use super::maps::Mapped;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// Segments begin at a multiple of it in memory.
const PAGE: usize = 4096;
const NT_GNU_BUILD_ID: u32 = 3;
/// Bytes of a 64-bit ELF header, of a program header, and of a section's.
const EHDR: usize = 64;
const PHDR: usize = 56;
const SHDR: usize = 64;
/// Program headers that are read, and bytes of a note segment.
const MOST_HEADERS: usize = 32;
const MOST_NOTE: usize = 1024;
/// Section headers that are read, and bytes of their names.
const MOST_SECTIONS: usize = 1024;
const MOST_NAMES: usize = 1 << 16;

/// `build:HEX` from the note in the mapped file; `file:SIZE:MTIME_NS` where it has none and the
/// path still leads to the mapped file; else empty. Cost: some microseconds; meant for once a file.
pub fn tag(mem: &Reader, mapped: &Mapped) -> String {
    let build = (mapped.head != 0).then(|| build_id(mem, mapped.head as usize)).flatten();
    if let Some(id) = build {
        let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
        return format!("build:{hex}");
    }
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(&mapped.path) {
        Ok(meta) if meta.ino() == mapped.inode => {
            let changed_ns =
                i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
            format!("file:{}:{changed_ns}", meta.size())
        }
        _ => String::new(),
    }
}

/// Bytes from the first page of the 64-bit ELF file mapped at `head` to the end of its last
/// segment, as far as it reaches in memory.
pub fn extent(mem: &Reader, head: usize) -> Option<u64> {
    let headers = program_headers(mem, head)?;
    let loads = headers.chunks_exact(PHDR).filter(|h| word(h, 0) == Some(PT_LOAD));
    let ranges = loads.filter_map(|load| {
        let (address, size) = (long(load, 16)?, long(load, 40)?);
        Some((address, address.checked_add(size)?))
    });
    let (first, end) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    Some((end - first / PAGE * PAGE) as u64)
}

/// What is added to an address in the 64-bit ELF file mapped at `head` to have it in memory.
fn bias(mem: &Reader, head: usize) -> Option<usize> {
    let headers = program_headers(mem, head)?;
    let loads = headers.chunks_exact(PHDR).filter(|h| word(h, 0) == Some(PT_LOAD));
    let first = loads.filter_map(|load| long(load, 16)).min()?;
    Some(head.wrapping_sub(first / PAGE * PAGE))
}

/// Where a section of a mapped file is in memory, and its bytes. The name ends in a zero. None: the
/// file has none of this name, or is not the mapped one any more. Reads a few pages of the file.
pub fn section(mem: &Reader, mapped: &Mapped, name: &[u8]) -> Option<(usize, usize)> {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let bias = bias(mem, usize::try_from(mapped.head).ok()?)?;
    let file = std::fs::File::open(&mapped.path).ok()?;
    (file.metadata().ok()?.ino() == mapped.inode).then_some(())?;
    let read = |at: usize, length: usize| {
        let mut bytes = vec![0u8; length];
        file.read_exact_at(&mut bytes, at as u64).ok().map(|()| bytes)
    };
    let (address, size) = section_in(&read, name)?;
    Some((bias.wrapping_add(address), size))
}

/// The section's address and size in the file. `read`: from where, how many bytes.
fn section_in(
    read: &dyn Fn(usize, usize) -> Option<Vec<u8>>,
    name: &[u8],
) -> Option<(usize, usize)> {
    let header = read(0, EHDR)?;
    if &header[..5] != b"\x7fELF\x02" || half(&header, 58)? as usize != SHDR {
        return None;
    }
    let (at, count) = (long(&header, 40)?, half(&header, 60)? as usize);
    let headers = read(at, count.min(MOST_SECTIONS) * SHDR)?;
    let names = headers.chunks_exact(SHDR).nth(half(&header, 62)? as usize)?;
    let names = read(long(names, 24)?, long(names, 32)?.min(MOST_NAMES))?;
    let is_named = |section: &&[u8]| {
        let own = word(section, 0).and_then(|at| names.get(at as usize..));
        own.is_some_and(|own| own.starts_with(name))
    };
    let section = headers.chunks_exact(SHDR).find(is_named)?;
    Some((long(section, 16)?, long(section, 32)?))
}

fn program_headers(mem: &Reader, head: usize) -> Option<Vec<u8>> {
    let mut header = [0u8; EHDR];
    mem.read(head, &mut header).ok()?;
    // Magic, 64 bits, and the size of a program header.
    if &header[..5] != b"\x7fELF\x02" || half(&header, 54)? as usize != PHDR {
        return None;
    }
    let (at, count) = (long(&header, 32)?, half(&header, 56)? as usize);
    let mut headers = vec![0u8; count.min(MOST_HEADERS) * PHDR];
    mem.read(head.checked_add(at)?, &mut headers).ok()?;
    Some(headers)
}

/// The build id of the 64-bit ELF file whose first page is mapped at `head`.
fn build_id(mem: &Reader, head: usize) -> Option<Vec<u8>> {
    let headers = program_headers(mem, head)?;
    let notes = headers.chunks_exact(PHDR).filter(|h| word(h, 0) == Some(PT_NOTE));
    notes.into_iter().find_map(|note| {
        // By offset in the file: notes lie in the first pages, which are mapped from `head` on.
        let (offset, size) = (long(note, 8)?, long(note, 32)?);
        let mut bytes = vec![0u8; size.min(MOST_NOTE)];
        mem.read(head.checked_add(offset)?, &mut bytes).ok()?;
        id_in(&bytes)
    })
}

/// The build id in a note segment: entries of name size, size, type, name, content.
fn id_in(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (name, size, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let begin = 12usize.checked_add((name as usize).checked_next_multiple_of(4)?)?;
        let end = begin.checked_add(size as usize)?;
        let content = notes.get(begin..end)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return (8..=64).contains(&content.len()).then(|| content.to_vec());
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let value = bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)?;
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::super::maps::Maps;
    use super::*;

    #[test]
    fn the_build_id_is_found_among_notes_and_cut_ones_have_none() {
        let mut notes = Vec::new();
        for (kind, content) in [(1u32, &[9u8; 16][..]), (NT_GNU_BUILD_ID, &[0xab; 20][..])] {
            notes.extend([4u32, content.len() as u32, kind].iter().flat_map(|w| w.to_le_bytes()));
            notes.extend(b"GNU\0");
            notes.extend(content);
        }
        assert_eq!(id_in(&notes), Some(vec![0xab; 20]));
        for cut in 0..notes.len() {
            assert_eq!(id_in(&notes[..cut]), None, "{cut}");
        }
        let endless = [0xff; 64];
        assert_eq!(id_in(&endless), None);
    }

    #[link_section = ".DashcamMark"]
    static MARK: [u64; 2] = [7, 11];

    #[test]
    fn a_section_of_a_mapped_file_is_found_in_memory() {
        let mem = Reader::new().expect("a process may read itself");
        let program = std::fs::read_link("/proc/self/exe").expect("own path");
        let maps = Maps::read().expect("own maps");
        let own = maps.files.iter().find(|file| program.as_os_str() == file.path.as_str());
        let own = own.expect("the program is mapped");
        assert_eq!(
            section(&mem, own, b".DashcamMark\0"),
            Some((&raw const MARK as usize, size_of_val(&MARK)))
        );
        assert_eq!(section(&mem, own, b".Dashcam\0"), None, "a part of a name");
        assert_eq!(section(&mem, own, b".AsyncioDebug\0"), None);
        let gone = Mapped { inode: own.inode + 1, ..own.clone() };
        assert_eq!(section(&mem, &gone, b".DashcamMark\0"), None, "the file was replaced");
    }
}
