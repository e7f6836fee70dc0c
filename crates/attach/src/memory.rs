//! The memory of the process: reads and writes that fail instead of faulting.
//!
//! How it works: /proc/PID/mem. The open file belongs to the memory and not to the number: when the
//! process runs another program, or ends and its number is given away, reads and writes fail.
//! What it promises: a trait, so that tests lay out memory by hand. All values are little-endian.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Memory of another process.
pub trait Memory: Sync {
    /// Fills `out` from `at` on. Errors when any byte is not mapped.
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` at `at`. An error may leave the first bytes written.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// The word at `at`.
    fn word(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The `int` at `at`.
    fn int(&self, at: u64) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(i32::from_le_bytes(bytes))
    }
}

/// The memory of a live process.
pub struct ProcessMemory(File);

impl ProcessMemory {
    /// Opens it. Errors: the right to trace the process is missing (EACCES, EPERM), it has ended.
    pub fn open(folder: &Path) -> io::Result<ProcessMemory> {
        Ok(ProcessMemory(OpenOptions::new().read(true).write(true).open(folder.join("mem"))?))
    }

    /// The same, to read only: writes fail.
    pub fn open_to_read(folder: &Path) -> io::Result<ProcessMemory> {
        Ok(ProcessMemory(File::open(folder.join("mem"))?))
    }
}

impl Memory for ProcessMemory {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Memory in one part, laid out by hand, which counts its writes.
    pub struct Laid {
        pub base: u64,
        pub bytes: Mutex<Vec<u8>>,
        pub writes: Mutex<Vec<(u64, usize)>>,
    }

    impl Laid {
        pub fn new(base: u64, length: usize) -> Laid {
            Laid { base, bytes: Mutex::new(vec![0; length]), writes: Mutex::default() }
        }

        /// Lays down a word, not counted.
        pub fn put(&self, at: u64, word: u64) {
            self.lay(at, &word.to_le_bytes());
        }

        pub fn put_int(&self, at: u64, int: i32) {
            self.lay(at, &int.to_le_bytes());
        }

        fn lay(&self, at: u64, bytes: &[u8]) {
            let begin = (at - self.base) as usize;
            self.bytes.lock().expect("one thread")[begin..begin + bytes.len()]
                .copy_from_slice(bytes);
        }

        pub fn writes(&self) -> usize {
            self.writes.lock().expect("one thread").len()
        }

        fn range(&self, at: u64, length: usize) -> io::Result<std::ops::Range<usize>> {
            let begin = at.checked_sub(self.base).map(|begin| begin as usize);
            let size = self.bytes.lock().expect("one thread").len();
            let range = begin.and_then(|begin| Some(begin..begin.checked_add(length)?));
            range.filter(|range| range.end <= size).ok_or(io::Error::from_raw_os_error(5))
        }
    }

    impl Memory for Laid {
        fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
            let range = self.range(at, out.len())?;
            out.copy_from_slice(&self.bytes.lock().expect("one thread")[range]);
            Ok(())
        }

        fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            let range = self.range(at, bytes.len())?;
            self.bytes.lock().expect("one thread")[range].copy_from_slice(bytes);
            self.writes.lock().expect("one thread").push((at, bytes.len()));
            Ok(())
        }
    }
}
