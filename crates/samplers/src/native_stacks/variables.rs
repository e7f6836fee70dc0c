//! Finds the variable of a program or library that an address lies in: a lock in static memory.
//!
//! How it works: a file's segments, including data and zeroed ones, are mapped one after the other
//! from its first page on. The ELF headers there give their sizes:
//!
//! ```text
//!   head                                       head + extent
//!   | headers | code | constants | data | bss |
//!                                       ^ address: `head` + offset
//! ```
//!
//! What it promises: guarded reads, bounded work; None for what lies on the heap or on a stack. The
//! name is looked up where the capture is read.

use sys::mem::Reader;

use super::{module, NativeStacks};

impl NativeStacks {
    /// Index of the file that the memory at `address` belongs to, for `text`, and how far from the
    /// file's first page it lies. Cost: 1 us at most, once the files' headers were read.
    pub fn variable(&mut self, mem: &Reader, address: u64, now_ns: u64) -> Option<(u32, u64)> {
        if self.read_ns == 0 {
            self.refresh(0, now_ns);
        }
        let files = self.maps.files.iter().enumerate();
        let before = files.filter(|(_, file)| file.head != 0 && file.head <= address);
        let (index, head) = before.map(|(i, file)| (i, file.head)).max_by_key(|(_, head)| *head)?;
        let extent = self.extents.entry(index);
        let extent = *extent.or_insert_with(|| module::extent(mem, head as usize).unwrap_or(0));
        if address - head >= extent {
            return None;
        }
        let file = match self.files.get(&index) {
            Some(file) => *file,
            None => self.name_file(mem, index),
        };
        Some((file, address - head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// In the zeroed part, and in the part with values.
    static ZERO: AtomicU32 = AtomicU32::new(0);
    static SEVEN: AtomicU32 = AtomicU32::new(7);

    #[test]
    fn statics_belong_to_the_program_and_the_heap_to_no_file() {
        let Some(mut stacks) = NativeStacks::new(16) else { return };
        let mem = Reader::new().expect("a reader");
        let exe = std::env::current_exe().expect("a path").display().to_string();
        let mut offsets = Vec::new();
        for variable in [&ZERO, &SEVEN] {
            let address = variable as *const AtomicU32 as u64;
            let (file, offset) = stacks.variable(&mem, address, 1).expect("a file");
            let text = stacks.text(file).expect("a text");
            assert!(text.starts_with(&exe), "{text}");
            offsets.push((address, offset));
        }
        assert_eq!(offsets[0].0 - offsets[0].1, offsets[1].0 - offsets[1].1, "one first page");
        let (heap, stack) = (Box::new(3u32), 4u32);
        for elsewhere in [&*heap as *const u32 as u64, &raw const stack as u64, 0, 8, u64::MAX] {
            assert_eq!(stacks.variable(&mem, elsewhere, 1), None, "{elsewhere:#x}");
        }
    }
}
