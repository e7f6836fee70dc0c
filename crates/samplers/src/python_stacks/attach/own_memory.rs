//! The interpreter's own static memory, for an interpreter whose stacks cannot be read.
//!
//! How it works: `_PyRuntime` is alone in a section of its own, whose size is in the file. With the
//! GIL, threads wait on no other futex there than on the GIL's.
//!
//! What it promises: `None` for a build without the GIL, as far as it says so itself (from 3.13
//! on). What is missing on purpose: the GIL of a subinterpreter, which lies on the heap.

use crate::native_stacks::maps::Maps;
use crate::native_stacks::module;
use crate::python_stacks::attach::published;
use std::ops::Range;
use sys::mem::Reader;

const SECTION: &[u8] = b".PyRuntime\0";

/// Where the memory of `_PyRuntime`, which begins at `runtime`, begins and ends. Reads
/// /proc/self/maps and a file: call it once.
pub fn own_memory(runtime: usize) -> Option<Range<u64>> {
    let mem = Reader::new().ok()?;
    if published::is_free_threaded(&mem, runtime) {
        return None;
    }
    let maps = Maps::read().ok()?;
    let before = maps.files.iter().filter(|file| file.head != 0 && file.head <= runtime as u64);
    let file = before.max_by_key(|file| file.head)?;
    let (begin, size) = module::section(&mem, file, SECTION)?;
    let range = begin as u64..begin.checked_add(size)? as u64;
    range.contains(&(runtime as u64)).then_some(range)
}
