//! The offsets CPython 3.13 publishes about itself, laid over our table.
//!
//! How it works: 3.13 begins `_PyRuntime` with `_Py_DebugOffsets`: the cookie `xdebugpy`, then
//! 64-bit words in a fixed order. Each word used here replaces the table's entry. Fields that are
//! not published (the chunk's top, the first traceable instruction, the counts in a code object)
//! keep their distance to a published neighbour.
//!
//! What it promises: a wrong cookie, another version or a free-threaded build is refused.
//! What is missing on purpose: 3.14's larger table; its frames hold tagged references.

use super::attach::{refused, Unsupported};
use super::layout::Layout;
use super::words::word_at;
use sys::mem::Reader;

const WORDS: usize = 71;
const COOKIE: &[u8] = b"xdebugpy";

/// Positions of the words we use in `_Py_DebugOffsets`, counted in 64-bit words.
mod at {
    pub const VERSION: usize = 1;
    pub const FREE_THREADED: usize = 2;
    pub const RUNTIME_INTERPRETERS: usize = 5;
    pub const INTERPRETER_NEXT: usize = 8;
    pub const INTERPRETER_THREADS: usize = 9;
    pub const INTERPRETER_GIL: usize = 14;
    pub const GIL: usize = 15;
    pub const GIL_LOCKED: usize = 17;
    pub const GIL_HOLDER: usize = 18;
    pub const THREAD_NEXT: usize = 21;
    pub const THREAD_FRAME: usize = 23;
    pub const THREAD_IDENT: usize = 24;
    pub const THREAD_NATIVE: usize = 25;
    pub const THREAD_CHUNK: usize = 26;
    pub const FRAME_PREVIOUS: usize = 29;
    pub const FRAME_CODE: usize = 30;
    pub const FRAME_INSTRUCTION: usize = 31;
    pub const FRAME_LOCALS: usize = 32;
    pub const FRAME_OWNER: usize = 33;
    pub const CODE_FILE: usize = 35;
    pub const CODE_NAME: usize = 36;
    pub const CODE_QUALNAME: usize = 37;
    pub const CODE_LINES: usize = 38;
    pub const CODE_FIRST_LINE: usize = 39;
    pub const CODE_INSTRUCTIONS: usize = 43;
    pub const ASCII_DATA: usize = 70;
}

/// Lays the offsets published at `runtime` over `table`.
pub(super) fn overlay(
    mem: &Reader,
    runtime: usize,
    version_hex: u32,
    table: Layout,
) -> Result<Layout, Unsupported> {
    let mut bytes = [0u8; WORDS * 8];
    if mem.read(runtime, &mut bytes).is_err() || &bytes[..8] != COOKIE {
        let found = format!("{:02x?}", &bytes[..8]);
        return Err(refused("_PyRuntime cookie", found, "xdebugpy"));
    }
    let get = |index: usize| word_at(&bytes, index * 8);
    if get(at::VERSION) != version_hex as usize {
        let found = format!("{:#x}", get(at::VERSION));
        return Err(refused("_PyRuntime version", found, &format!("{version_hex:#x}")));
    }
    if get(at::FREE_THREADED) != 0 {
        return Err(refused("interpreter build", "free-threaded".into(), "with the GIL"));
    }
    let published = published_offsets(&get, &table);
    // Everything we read lies within a few pages of its base; more is not an offset.
    let largest = [
        published.runtime_interpreters,
        published.interpreter_threads,
        published.thread_chunk,
        published.frame_locals,
        published.code_instructions,
    ];
    match largest.iter().find(|offset| **offset > 1 << 20) {
        Some(offset) => Err(refused("published offset", offset.to_string(), "under 1 MiB")),
        None => Ok(published),
    }
}

fn published_offsets(get: &dyn Fn(usize) -> usize, table: &Layout) -> Layout {
    let moved = |new: usize, old: usize, field: usize| new.wrapping_add(field).wrapping_sub(old);
    let first_line = get(at::CODE_FIRST_LINE);
    let near_line = |field| moved(first_line, table.code_first_line, field);
    let instructions = get(at::CODE_INSTRUCTIONS);
    let chunk = get(at::THREAD_CHUNK);
    let interpreters = get(at::RUNTIME_INTERPRETERS);
    let gil = get(at::GIL);
    Layout {
        runtime_interpreters: interpreters,
        runtime_main: moved(interpreters, table.runtime_interpreters, table.runtime_main),
        interpreter_next: get(at::INTERPRETER_NEXT),
        interpreter_threads: get(at::INTERPRETER_THREADS),
        interpreter_gil: get(at::INTERPRETER_GIL),
        gil_locked: get(at::GIL_LOCKED).wrapping_sub(gil),
        gil_holder: get(at::GIL_HOLDER).wrapping_sub(gil),
        thread_next: get(at::THREAD_NEXT),
        thread_ident: get(at::THREAD_IDENT),
        thread_native: get(at::THREAD_NATIVE),
        thread_chunk: chunk,
        thread_chunk_top: moved(chunk, table.thread_chunk, table.thread_chunk_top),
        thread_frame: get(at::THREAD_FRAME),
        frame_code: get(at::FRAME_CODE),
        frame_instruction: get(at::FRAME_INSTRUCTION),
        frame_previous: get(at::FRAME_PREVIOUS),
        frame_owner: get(at::FRAME_OWNER),
        frame_locals: get(at::FRAME_LOCALS),
        code_first_line: first_line,
        code_stack_size: near_line(table.code_stack_size),
        code_locals: near_line(table.code_locals),
        code_exceptions: near_line(table.code_exceptions),
        code_file: get(at::CODE_FILE),
        code_name: get(at::CODE_NAME),
        code_qualname: get(at::CODE_QUALNAME),
        code_lines: get(at::CODE_LINES),
        code_first_traceable: moved(
            instructions,
            table.code_instructions,
            table.code_first_traceable,
        ),
        code_instructions: instructions,
        ascii_data: get(at::ASCII_DATA),
        ..*table
    }
}
