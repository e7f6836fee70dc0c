//! The offsets that CPython 3.13 and later publish about themselves, laid over our table.
//!
//! How it works: `_PyRuntime` begins with `_Py_DebugOffsets`: the cookie `xdebugpy`, then 64-bit
//! words in a fixed order, one section for each struct. The order changes with the minor version
//! only, and is all that is known here about a version:
//!
//! ```text
//!   | cookie | version | free-threaded | runtime | interpreter | thread | frame | code | objects |
//!                                                   `-> size, offset, offset, ...
//! ```
//!
//! Each word used here replaces the table's entry. Fields that are not published (the chunk's top,
//! the first traceable instruction, the counts in a code object) keep their distance to a published
//! neighbour; `self_test` tries them in the process.
//!
//! What it promises: a wrong cookie, another version, an alpha or beta of 3.14 or later, an offset
//! outside of its struct, a free-threaded build or an object with another shape is refused. What is
//! missing on purpose: free-threaded builds, whose threads run copies of the bytecode.

use crate::python_stacks::attach::unsupported::{refused, Unsupported};
use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::layout::{object, Layout, ABSENT, STATE_HEAD};
use crate::python_stacks::objects;
use crate::python_stacks::objects::sorts::TYPE_NAME;
use sys::mem::Reader;

const COOKIE: &[u8] = b"xdebugpy";
const VERSION: usize = 1;
const FREE_THREADED: usize = 2;
const RUNTIME_SIZE: usize = 3;
const RUNTIME_INTERPRETERS: usize = 5;
const INTERPRETER_SIZE: usize = 6;
const INTERPRETER_NEXT: usize = 8;
const INTERPRETER_THREADS: usize = 9;
/// The level in a version's number: 0xa an alpha, 0xb a beta.
const CANDIDATE: u32 = 0xc;

/// Where the sections of one minor version begin, counted in 64-bit words. A section begins with
/// the size of its struct.
struct Sections {
    words: usize,
    /// Of the interpreter's section: from the collector's word on.
    gc: usize,
    thread: usize,
    base_frame: usize,
    /// Of the thread's section: from its ids on.
    ident: usize,
    frame: usize,
    code: usize,
    /// Size of `PyASCIIObject`, and of `PyCompactUnicodeObject`.
    ascii_data: usize,
    compact_data: usize,
    /// From 3.14 on: the stack pointer of a frame; any object and the types; tuple, list, set,
    /// dict, float, int, bytes and str, one behind the other; generators.
    stack_pointer: usize,
    object: usize,
    tuple: usize,
    generator: usize,
}

const V3_13: Sections = Sections {
    words: 71,
    gc: 10,
    thread: 19,
    base_frame: ABSENT,
    ident: 24,
    frame: 28,
    code: 34,
    ascii_data: 70,
    compact_data: ABSENT,
    stack_pointer: ABSENT,
    object: ABSENT,
    tuple: ABSENT,
    generator: ABSENT,
};

const V3_14: Sections = Sections {
    words: 95,
    gc: 11,
    thread: 22,
    base_frame: ABSENT,
    ident: 27,
    frame: 31,
    code: 39,
    ascii_data: 80,
    compact_data: ABSENT,
    stack_pointer: 37,
    object: 50,
    tuple: 56,
    generator: 83,
};

const V3_15: Sections = Sections {
    words: 111,
    gc: 11,
    thread: 22,
    base_frame: 27,
    ident: 30,
    frame: 39,
    code: 47,
    ascii_data: 92,
    compact_data: 93,
    stack_pointer: 45,
    object: 58,
    tuple: 68,
    generator: 99,
};

/// The words at the beginning of `_PyRuntime`.
struct Words {
    bytes: Vec<u8>,
}

impl Words {
    fn get(&self, index: usize) -> usize {
        word_at(&self.bytes, index * 8)
    }

    /// The word `step` behind `section`, or `otherwise` where this version has no such section.
    fn or(&self, section: usize, step: usize, otherwise: usize) -> usize {
        match section {
            ABSENT => otherwise,
            _ => self.get(section + step),
        }
    }
}

/// Whether the interpreter says that it is a build without the GIL.
pub(crate) fn is_free_threaded(mem: &Reader, runtime: usize) -> bool {
    let mut head = [0u8; (FREE_THREADED + 1) * 8];
    let read = mem.read(runtime, &mut head).is_ok();
    read && &head[..8] == COOKIE && word_at(&head, FREE_THREADED * 8) != 0
}

/// Lays the offsets published at `runtime` over `table`.
pub(crate) fn overlay(
    mem: &Reader,
    runtime: usize,
    version_hex: u32,
    table: Layout,
) -> Result<Layout, Unsupported> {
    let sections = match version_hex >> 16 {
        0x030d => V3_13,
        0x030e => V3_14,
        _ => V3_15,
    };
    let mut words = Words { bytes: vec![0; sections.words * 8] };
    if mem.read(runtime, &mut words.bytes).is_err() || &words.bytes[..8] != COOKIE {
        let found = format!("{:02x?}", &words.bytes[..8]);
        return Err(refused("_PyRuntime cookie", found, "xdebugpy"));
    }
    if words.get(VERSION) != version_hex as usize {
        let found = format!("{:#x}", words.get(VERSION));
        return Err(refused("_PyRuntime version", found, &format!("{version_hex:#x}")));
    }
    if words.get(FREE_THREADED) != 0 {
        return Err(refused("interpreter build", "free-threaded".into(), "with the GIL"));
    }
    let published = published_offsets(&words, &sections, &table);
    // Everything read lies within a few pages of its base; more is not an offset.
    let largest = [
        published.runtime_interpreters,
        published.interpreter_threads,
        published.thread_chunk,
        published.frame_locals,
        published.code_instructions,
    ];
    if let Some(offset) = largest.iter().find(|offset| **offset > 1 << 20) {
        return Err(refused("published offset", offset.to_string(), "under 1 MiB"));
    }
    if sections.object != ABSENT {
        check_level(version_hex)?;
        check_sizes(&words, &sections, &published)?;
        check_shapes(&words, &sections)?;
    }
    Ok(published)
}

/// Alphas and betas may have another order of words.
fn check_level(version_hex: u32) -> Result<(), Unsupported> {
    match (version_hex >> 4) & 0xf {
        level if level < CANDIDATE => {
            let found = format!("{version_hex:#010x}, an alpha or beta");
            Err(refused("Python version", found, "a release"))
        }
        _ => Ok(()),
    }
}

/// Whether each offset lies inside of its struct.
fn check_sizes(words: &Words, at: &Sections, layout: &Layout) -> Result<(), Unsupported> {
    let l = layout;
    let base_frame = if l.thread_base_frame == ABSENT { 0 } else { l.thread_base_frame };
    let thread = [l.thread_next, l.thread_frame, l.thread_ident, l.thread_native];
    let thread = [&thread[..], &[l.thread_chunk, l.thread_chunk_top, base_frame]].concat();
    let frame = [l.frame_code, l.frame_function, l.frame_previous, l.frame_instruction];
    let frame =
        [&frame[..], &[l.frame_owner, l.frame_object, l.frame_top, l.frame_locals]].concat();
    let code = [l.code_file, l.code_name, l.code_qualname, l.code_lines, l.code_first_line];
    let unpublished = [l.code_stack_size, l.code_locals, l.code_exceptions, l.code_names];
    let code = [&code[..], &unpublished, &[l.code_first_traceable, l.code_instructions]].concat();
    let interpreter = [l.interpreter_next, l.interpreter_threads, l.interpreter_gil];
    let interpreter = [&interpreter[..], &[l.interpreter_modules]].concat();
    let structs = [
        ("runtime", RUNTIME_SIZE, vec![l.runtime_interpreters, l.runtime_main]),
        ("interpreter state", INTERPRETER_SIZE, interpreter),
        ("thread state", at.thread, thread),
        ("frame", at.frame, frame),
        ("code object", at.code, code),
        ("generator", at.generator, vec![l.generator_frame, l.generator_state]),
    ];
    let ids = l.thread_native.max(l.thread_ident).max(l.thread_frame).max(base_frame) + 8;
    if ids > STATE_HEAD {
        let wanted = format!("within its first {STATE_HEAD}");
        return Err(refused("thread state's ids", format!("{ids} bytes long"), &wanted));
    }
    for (thing, size, offsets) in structs {
        let size = words.get(size);
        if let Some(outside) = offsets.into_iter().find(|offset| *offset >= size) {
            return Err(refused(thing, format!("{size} bytes"), &format!("more than {outside}")));
        }
    }
    Ok(())
}

/// Whether objects other than frames have the shape that `object` and `objects` say they have.
fn check_shapes(words: &Words, at: &Sections) -> Result<(), Unsupported> {
    let shapes = [
        ("thread state's interpreter", at.thread + 3, object::THREAD_INTERPRETER),
        ("object's type", at.object + 1, object::TYPE),
        ("type's name", at.object + 3, TYPE_NAME),
        ("tuple's size", at.tuple + 2, object::SIZE),
        ("list's items", at.tuple + 4, object::LIST_ITEMS),
        ("list's size", at.tuple + 5, object::SIZE),
        ("set's table", at.tuple + 8, objects::SET_TABLE),
        ("set's mask", at.tuple + 9, objects::SET_MASK),
        ("dict's keys", at.tuple + 11, objects::DICT_KEYS),
        ("dict's values", at.tuple + 12, objects::DICT_VALUES),
        ("float's value", at.tuple + 14, objects::NUMBER),
        ("int's size", at.tuple + 16, objects::NUMBER),
        ("int's digits", at.tuple + 17, objects::DIGITS),
        ("bytes' size", at.tuple + 19, object::SIZE),
        ("bytes' contents", at.tuple + 20, object::BYTES_DATA),
        ("str's state", at.tuple + 22, object::STRING_STATE),
        ("str's length", at.tuple + 23, object::STRING_LENGTH),
    ];
    for (thing, index, wanted) in shapes {
        let found = words.get(index);
        if found != wanted {
            return Err(refused(thing, format!("at {found}"), &format!("at {wanted}")));
        }
    }
    Ok(())
}

fn published_offsets(words: &Words, at: &Sections, table: &Layout) -> Layout {
    let moved = |new: usize, old: usize, field: usize| new.wrapping_add(field).wrapping_sub(old);
    let first_line = words.get(at.code + 5);
    let near_line = |field| moved(first_line, table.code_first_line, field);
    let instructions = words.get(at.code + 9);
    let chunk = words.get(at.ident + 2);
    let interpreters = words.get(RUNTIME_INTERPRETERS);
    let gil = words.get(at.gc + 5);
    let previous = words.get(at.frame + 1);
    let instruction = words.get(at.frame + 3);
    let flags = words.or(at.object, 5, table.type_flags);
    Layout {
        runtime_interpreters: interpreters,
        runtime_main: moved(interpreters, table.runtime_interpreters, table.runtime_main),
        interpreter_next: words.get(INTERPRETER_NEXT),
        interpreter_threads: words.get(INTERPRETER_THREADS),
        interpreter_gil: words.get(at.gc + 4),
        interpreter_modules: words.get(at.gc + 1),
        gil_locked: words.get(at.gc + 7).wrapping_sub(gil),
        gil_holder: words.get(at.gc + 8).wrapping_sub(gil),
        thread_next: words.get(at.thread + 2),
        thread_frame: words.get(at.thread + 4),
        thread_base_frame: words.or(at.base_frame, 0, ABSENT),
        thread_ident: words.get(at.ident),
        thread_native: words.get(at.ident + 1),
        thread_chunk: chunk,
        thread_chunk_top: moved(chunk, table.thread_chunk, table.thread_chunk_top),
        frame_previous: previous,
        frame_code: words.get(at.frame + 2),
        frame_function: moved(previous, table.frame_previous, table.frame_function),
        frame_instruction: instruction,
        frame_object: moved(instruction, table.frame_instruction, table.frame_object),
        frame_locals: words.get(at.frame + 4),
        frame_owner: words.get(at.frame + 5),
        frame_top: words.or(at.stack_pointer, 0, table.frame_top),
        code_first_line: first_line,
        code_stack_size: near_line(table.code_stack_size),
        code_locals: near_line(table.code_locals),
        code_exceptions: near_line(table.code_exceptions),
        code_names: near_line(table.code_names),
        code_file: words.get(at.code + 1),
        code_name: words.get(at.code + 2),
        code_qualname: words.get(at.code + 3),
        code_lines: words.get(at.code + 4),
        code_first_traceable: moved(
            instructions,
            table.code_instructions,
            table.code_first_traceable,
        ),
        code_instructions: instructions,
        ascii_data: words.get(at.ascii_data),
        compact_data: words.or(at.compact_data, 0, table.compact_data),
        type_flags: flags,
        type_base: moved(flags, table.type_flags, table.type_base),
        tuple_items: words.or(at.tuple, 1, table.tuple_items),
        generator_frame: words.or(at.generator, 2, table.generator_frame),
        generator_state: words.or(at.generator, 3, table.generator_state),
        ..*table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_HEX: u32 = 0x030f_02f0;

    /// What an interpreter with `layout` publishes.
    fn words_of(layout: &Layout) -> Vec<u64> {
        let at = V3_15;
        let mut words = vec![0u64; at.words];
        let l = layout;
        let gil = 7736;
        let sizes = [(RUNTIME_SIZE, 1 << 19), (INTERPRETER_SIZE, 1 << 18), (at.thread, 1 << 12)];
        let more = [(at.frame, 96), (at.code, 264), (at.generator, 240)];
        let runtime = [
            (VERSION, VERSION_HEX as usize),
            (RUNTIME_INTERPRETERS, l.runtime_interpreters),
            (INTERPRETER_NEXT, l.interpreter_next),
            (INTERPRETER_THREADS, l.interpreter_threads),
            (at.gc + 1, l.interpreter_modules),
            (at.gc + 4, l.interpreter_gil),
            (at.gc + 5, gil),
            (at.gc + 7, gil + l.gil_locked),
            (at.gc + 8, gil + l.gil_holder),
        ];
        let threads = [
            (at.thread + 2, l.thread_next),
            (at.thread + 3, object::THREAD_INTERPRETER),
            (at.thread + 4, l.thread_frame),
            (at.base_frame, l.thread_base_frame),
            (at.ident, l.thread_ident),
            (at.ident + 1, l.thread_native),
            (at.ident + 2, l.thread_chunk),
        ];
        let frames = [
            (at.frame + 1, l.frame_previous),
            (at.frame + 2, l.frame_code),
            (at.frame + 3, l.frame_instruction),
            (at.frame + 4, l.frame_locals),
            (at.frame + 5, l.frame_owner),
            (at.stack_pointer, l.frame_top),
        ];
        let codes = [
            (at.code + 1, l.code_file),
            (at.code + 2, l.code_name),
            (at.code + 3, l.code_qualname),
            (at.code + 4, l.code_lines),
            (at.code + 5, l.code_first_line),
            (at.code + 9, l.code_instructions),
        ];
        let objects = [
            (at.object + 1, object::TYPE),
            (at.object + 3, TYPE_NAME),
            (at.object + 5, l.type_flags),
            (at.tuple + 1, l.tuple_items),
            (at.tuple + 2, object::SIZE),
            (at.tuple + 4, object::LIST_ITEMS),
            (at.tuple + 5, object::SIZE),
            (at.tuple + 8, objects::SET_TABLE),
            (at.tuple + 9, objects::SET_MASK),
            (at.tuple + 11, objects::DICT_KEYS),
            (at.tuple + 12, objects::DICT_VALUES),
            (at.tuple + 14, objects::NUMBER),
            (at.tuple + 16, objects::NUMBER),
            (at.tuple + 17, objects::DIGITS),
            (at.tuple + 19, object::SIZE),
            (at.tuple + 20, object::BYTES_DATA),
            (at.tuple + 22, object::STRING_STATE),
            (at.tuple + 23, object::STRING_LENGTH),
            (at.ascii_data, l.ascii_data),
            (at.compact_data, l.compact_data),
            (at.generator + 2, l.generator_frame),
            (at.generator + 3, l.generator_state),
        ];
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        let all = [&sizes[..], &more, &runtime, &threads, &frames, &codes, &objects].concat();
        for (index, value) in all {
            words[index] = value as u64;
        }
        words
    }

    fn read(words: &[u64], version_hex: u32) -> Result<Layout, String> {
        let mem = Reader::new().expect("a process may read itself");
        let table = Layout::of(version_hex).expect("a known version");
        let layout = overlay(&mem, words.as_ptr() as usize, version_hex, table);
        layout.map_err(|refusal| format!("{} is {}", refusal.thing, refusal.found))
    }

    fn table() -> Layout {
        Layout::of(VERSION_HEX).expect("a known version")
    }

    /// A later patch release inserts fields: nothing of the table but distances may count.
    #[test]
    fn what_is_published_wins_and_its_neighbours_move_with_it() {
        let moved = Layout {
            runtime_interpreters: table().runtime_interpreters + 128,
            runtime_main: table().runtime_main + 128,
            interpreter_threads: table().interpreter_threads + 64,
            thread_ident: table().thread_ident - 8,
            thread_chunk: table().thread_chunk + 16,
            thread_chunk_top: table().thread_chunk_top + 16,
            frame_instruction: table().frame_instruction + 8,
            frame_object: table().frame_object + 8,
            frame_owner: table().frame_owner + 2,
            frame_top: table().frame_top + 8,
            frame_locals: table().frame_locals + 8,
            code_instructions: table().code_instructions + 24,
            code_first_traceable: table().code_first_traceable + 24,
            code_first_line: table().code_first_line + 8,
            code_stack_size: table().code_stack_size + 8,
            code_locals: table().code_locals + 8,
            code_exceptions: table().code_exceptions + 8,
            code_names: table().code_names + 8,
            generator_frame: table().generator_frame + 8,
            generator_state: table().generator_state + 8,
            tuple_items: table().tuple_items + 8,
            type_flags: table().type_flags + 16,
            type_base: table().type_base + 16,
            ..table()
        };
        assert_eq!(read(&words_of(&table()), VERSION_HEX), Ok(table()));
        assert_eq!(read(&words_of(&moved), VERSION_HEX), Ok(moved));
    }

    #[test]
    fn what_lies_outside_of_its_struct_or_has_another_shape_is_refused() {
        let refusal = |index: usize, value: u64| {
            let mut words = words_of(&table());
            words[index] = value;
            read(&words, VERSION_HEX).err().unwrap_or_default()
        };
        let at = V3_15;
        assert_eq!(refusal(at.ident + 2, 4096), "thread state is 4096 bytes");
        assert_eq!(refusal(at.frame + 4, 96), "frame is 96 bytes");
        assert_eq!(refusal(at.code + 9, 264), "code object is 264 bytes");
        assert_eq!(refusal(at.generator + 3, 240), "generator is 240 bytes");
        assert_eq!(refusal(at.ident + 1, 512), "thread state's ids is 520 bytes long");
        assert_eq!(refusal(at.thread + 3, 24), "thread state's interpreter is at 24");
        assert_eq!(refusal(at.tuple + 22, 40), "str's state is at 40");
        assert_eq!(refusal(FREE_THREADED, 1), "interpreter build is free-threaded");
    }

    #[test]
    fn another_release_than_the_running_one_and_an_alpha_are_refused() {
        let mut words = words_of(&table());
        assert!(read(&words, 0x030f_03f0).is_err_and(|why| why.contains("0x30f02f0")));
        for (level, fits) in [(0xa, false), (0xb, false), (0xc, true), (0xf, true)] {
            let version_hex = 0x030f_0001 | level << 4;
            words[VERSION] = u64::from(version_hex);
            assert_eq!(read(&words, version_hex).is_ok(), fits, "{version_hex:#x}");
        }
    }
}
