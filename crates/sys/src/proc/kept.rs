//! Small kernel files that are read again and again through one open descriptor.
//!
//! How it works: a file under /proc answers every `pread` at offset 0 with fresh content, so the
//! path is walked and the permission checked once, when it is opened; each further read is one
//! syscall into a buffer of the caller.
//!
//! What it promises: nothing allocates after opening. The descriptor names the thread or process it
//! was opened for: when a thread has ended, reads fail with ESRCH even if its id is in use again.
//! After a fork the child must open its own: the old ones still describe the parent. The parsers
//! below trust none of the kernel's bytes: text in an unexpected form is `InvalidData`, never a
//! panic.

use crate::ours::Fd;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// A file kept open for repeated reads.
pub(crate) struct Kept {
    file: Fd,
}

impl Kept {
    /// Opens `path` for reading; the descriptor is closed on exec.
    pub(crate) fn open(path: &str) -> io::Result<Kept> {
        File::open(path).map(|file| Kept { file: file.into() })
    }

    /// Opens `name` inside the directory `dir`.
    pub(crate) fn open_at(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Kept> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: `dir` is open for the length of the borrow and `name` ends with NUL; openat only
        // reads both.
        let fd = unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags) };
        owned(fd).map(|file| Kept { file })
    }

    /// Reads the file from its start: what fits into `buf`, in one syscall.
    pub(crate) fn read<'b>(&self, buf: &'b mut [u8]) -> io::Result<&'b [u8]> {
        loop {
            match self.file.read_at(buf, 0) {
                Ok(n) => return Ok(&buf[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
        }
    }
}

/// Opens a directory as a handle from which files are opened later; needs no read permission.
pub(crate) fn open_dir(path: &str) -> io::Result<Fd> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map(Fd::from)
}

/// Takes ownership of a descriptor just returned by the kernel, or reports errno.
pub(crate) fn owned(fd: libc::c_int) -> io::Result<Fd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned `fd` as a new descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// The error for text that is not what the kernel documents. Does not allocate.
pub(crate) fn odd() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Decimal digits and nothing else, within 64 bits.
pub(crate) fn decimal(text: &[u8]) -> io::Result<u64> {
    number(text, 10)
}

/// "0x" and hexadecimal digits, within 64 bits.
pub(crate) fn hex(text: &[u8]) -> io::Result<u64> {
    number(text.strip_prefix(b"0x").ok_or_else(odd)?, 16)
}

fn number(digits: &[u8], base: u32) -> io::Result<u64> {
    if digits.is_empty() {
        return Err(odd());
    }
    let mut value = 0u64;
    for digit in digits {
        let digit = char::from(*digit).to_digit(base).ok_or_else(odd)?;
        let shifted = value.checked_mul(u64::from(base)).ok_or_else(odd)?;
        value = shifted.checked_add(u64::from(digit)).ok_or_else(odd)?;
    }
    Ok(value)
}

/// The words of a line, split at spaces, tabs and line ends; empty ones left out.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// The number behind `key` in text made of "key value" or "key: value" lines.
pub(crate) fn value_of(text: &[u8], key: &str) -> Option<u64> {
    text.split(|b| *b == b'\n').find_map(|line| {
        let mut parts = words(line);
        let name = parts.next()?;
        let name = name.strip_suffix(b":").unwrap_or(name);
        let value = (name == key.as_bytes()).then(|| parts.next()).flatten()?;
        decimal(value).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_numbers_are_errors() {
        for text in ["", "-1", "1x", " 1", "18446744073709551616", "٣"] {
            assert!(decimal(text.as_bytes()).is_err(), "{text:?}");
        }
        for text in ["", "0x", "ff", "0xg", "0x10000000000000000"] {
            assert!(hex(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(decimal(b"18446744073709551615").ok(), Some(u64::MAX));
        assert_eq!(hex(b"0xffffffffffffffff").ok(), Some(u64::MAX));
    }

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text = b"nr_periods_x 1\nnr_periods 22\nname:\t33\ncut";
        assert_eq!(value_of(text, "nr_periods"), Some(22));
        assert_eq!(value_of(text, "name"), Some(33));
        assert_eq!(value_of(text, "cut"), None);
        assert_eq!(value_of(b"\xff\xfe 1", "nr_periods"), None);
    }
}
