//! Which file is mapped at an address of this process.

use std::io::{self, Read};

/// Most bytes of /proc/self/maps that are read; mappings behind them are not known.
const MOST_BYTES: u64 = 8 << 20;

/// The path of the file mapped at `address`, as the kernel gives it; None: no file, or no mapping. Cost: about 1 us a
/// mapping: for what is asked once. Errors: as reading /proc/self/maps.
pub fn file_at(address: u64) -> io::Result<Option<String>> {
    let mut text = Vec::with_capacity(16 << 10);
    std::fs::File::open("/proc/self/maps")?.take(MOST_BYTES).read_to_end(&mut text)?;
    let path = text.split(|byte| *byte == b'\n').find_map(|line| path_if_at(line, address));
    Ok(path.filter(|path| path.starts_with('/')))
}

/// What stands behind the fifth word of a line of that file, if its range holds `address`:
/// `55d0-55d4 rw-s 00001000 08:01 1234   /dev/shm/x`.
fn path_if_at(line: &[u8], address: u64) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let inside = (hex(start)?..hex(end)?).contains(&address);
    let path = rest.splitn(4, ' ').nth(3).and_then(|rest| rest.split_once(' '));
    inside.then(|| path.map_or(String::new(), |(_, path)| path.trim_start().to_owned()))
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
    fn lines_that_look_other_than_documented_are_passed_over() {
        let line = b"1000-2000 rw-s 00000000 00:1a 7          /dev/shm/my sem (deleted)";
        assert_eq!(path_if_at(line, 0x1fff).as_deref(), Some("/dev/shm/my sem (deleted)"));
        assert_eq!(path_if_at(line, 0x2000), None);
        for cut in 0..line.len() {
            path_if_at(&line[..cut], 0x1800);
        }
        for odd in [&b""[..], b"\xff\xfe", b"- - - - -", b"2000-1000 x", b"0-ffffffffffffffff"] {
            assert!(path_if_at(odd, 0x1800).is_none_or(|path| path.is_empty()), "{odd:?}");
        }
    }
}
