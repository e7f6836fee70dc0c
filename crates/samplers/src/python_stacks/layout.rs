//! Where each CPython version keeps what the reader reads: one table of byte offsets a version.
//!
//! How it works: `Layout` names every offset once; the constants below fill it in for 3.9 to 3.15.
//! They were printed by `layout_check.c` beside this crate's manifest, compiled with
//! `-DPy_BUILD_CORE` against the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0, 3.14.10 and
//! 3.15.2 on x86-64 Linux; a test compiles it again for every version whose headers are found and
//! compares. No type of size differing between x86-64 and aarch64 lies in front of any of them.
//!
//! What it promises: an unknown minor version has no table, so `attach` refuses it. Up to 3.12
//! offsets stay fixed within a minor version; if one does not, the self-check in `attach` refuses
//! too. 3.13 and later publish most offsets themselves: of their tables only the distance to a
//! published neighbour is used (see `published`), and what a published offset cannot vouch for is
//! tried in the process (`self_test`). What is missing on purpose: debug and `Py_TRACE_REFS`
//! builds, free-threaded builds, 32 bits.

/// The version has no such field.
pub(super) const ABSENT: usize = usize::MAX;
/// Long enough for a thread state's ids and its innermost frame, in every version.
pub(super) const STATE_HEAD: usize = 192;

macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Byte offsets of one CPython version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct Layout {
            $($(#[$doc])* pub $name: usize,)*
        }

        #[cfg(test)]
        impl Layout {
            fn fields(&self) -> Vec<(&'static str, usize)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

layout! {
    /// `_PyRuntime` -> first `PyInterpreterState *`.
    runtime_interpreters,
    /// `_PyRuntime` -> the main `PyInterpreterState *`.
    runtime_main,
    /// `PyInterpreterState` -> the next one.
    interpreter_next,
    /// `PyInterpreterState` -> first `PyThreadState *`, newest first.
    interpreter_threads,
    /// `_PyRuntime` -> the GIL's state, held by value (up to 3.11).
    runtime_gil,
    /// `PyInterpreterState` -> pointer to the GIL's state (from 3.12).
    interpreter_gil,
    /// `PyInterpreterState` -> dict of the modules (`sys.modules`).
    interpreter_modules,
    /// GIL state -> switch interval in microseconds (`unsigned long`).
    gil_interval,
    /// GIL state -> `PyThreadState *` that holds it, or held it last.
    gil_holder,
    /// GIL state -> `int`: 1 while held.
    gil_locked,
    /// GIL state -> how often the holder changed (`unsigned long`).
    gil_switches,
    /// GIL state -> cond, mutex, switch_cond, switch_mutex, one behind the other.
    gil_cond,
    /// `PyThreadState` -> the next one of the same interpreter.
    thread_next,
    /// `PyThreadState` -> `pthread_t`, as `threading.get_ident()` gives it.
    thread_ident,
    /// `PyThreadState` -> the kernel's thread id (from 3.11).
    thread_native,
    /// `PyThreadState` -> newest data-stack chunk (from 3.11).
    thread_chunk,
    /// `PyThreadState` -> first free word of that chunk (from 3.11).
    thread_chunk_top,
    /// `PyThreadState` -> innermost frame, or the `_PyCFrame` that points to it.
    thread_frame,
    /// `_PyCFrame` -> innermost frame (3.11, 3.12).
    cframe_frame,
    /// `PyThreadState` -> `CFrame` on the C stack of the loop that runs the innermost frame (3.10).
    thread_cframe,
    /// `PyThreadState` -> the sentinel in which the thread's own stack ends (from 3.15).
    thread_base_frame,
    /// Frame -> code object.
    frame_code,
    /// Frame -> the function that runs in it (3.13+).
    frame_function,
    /// Frame -> instruction pointer, or `int f_lasti` up to 3.10.
    frame_instruction,
    /// Frame -> the caller's frame.
    frame_previous,
    /// Frame -> one byte: thread, generator, frame object or C stack (from 3.11).
    frame_owner,
    /// Frame -> locals, cells, free variables, then the value stack.
    frame_locals,
    /// Frame -> pointer to the first value-stack word (up to 3.10).
    frame_value_stack,
    /// Frame -> block stack of (type, handler, level) (up to 3.10).
    frame_blocks,
    /// Frame -> `int`: blocks in use (up to 3.10).
    frame_block_count,
    /// Frame -> the generator or coroutine it belongs to (up to 3.10).
    frame_generator,
    /// Frame, suspended -> `int`: locals and value stack in use (3.11 to 3.13), value stack in use
    /// (3.10); pointer behind its last word (3.9, and from 3.14 on).
    frame_top,
    /// Bits of a reference in a frame that are no part of the address (not an offset).
    reference_tag,
    /// Generator, coroutine -> its frame, held by value (3.11+), or a pointer to it.
    generator_frame,
    /// Generator, coroutine -> one byte: see the next two; greater ones than running mean that it
    /// ended (from 3.11).
    generator_state,
    /// That byte while it runs (not an offset).
    generator_running,
    /// That byte while it awaits; in 3.11 and 3.12 also behind a plain `yield` (not an offset).
    generator_awaiting,
    /// Function -> code object.
    function_code,
    /// Function -> tuple of cells.
    function_closure,
    /// Type -> flags (`unsigned long`).
    type_flags,
    /// Type -> the type it derives from.
    type_base,
    /// Tuple -> first item.
    tuple_items,
    /// Bytes that one step of `f_lasti` counts (not an offset).
    instruction_unit,
    /// Code -> `int co_firstlineno`.
    code_first_line,
    /// Code -> `int co_stacksize`.
    code_stack_size,
    /// Code -> file name.
    code_file,
    /// Code -> name.
    code_name,
    /// Code -> tuple of the names it uses.
    code_names,
    /// Code -> `int co_nlocalsplus` (from 3.11).
    code_locals,
    /// Code -> qualified name (from 3.11).
    code_qualname,
    /// Code -> exception table (from 3.11).
    code_exceptions,
    /// Code -> `int`: first instruction after the prologue (from 3.11).
    code_first_traceable,
    /// Code -> first instruction, held by value (from 3.11).
    code_instructions,
    /// Code -> line table; three encodings, see `lines`.
    code_lines,
    /// String, ASCII -> characters.
    ascii_data,
    /// String, not ASCII -> characters.
    compact_data,
}

/// CPython 3.9.
const V3_9: Layout = Layout {
    runtime_interpreters: 32,
    runtime_main: 40,
    interpreter_next: 0,
    interpreter_threads: 8,
    runtime_gil: 352,
    interpreter_gil: ABSENT,
    interpreter_modules: 856,
    gil_interval: 0,
    gil_holder: 8,
    gil_locked: 16,
    gil_switches: 24,
    gil_cond: 32,
    thread_next: 8,
    thread_ident: 176,
    thread_native: ABSENT,
    thread_chunk: ABSENT,
    thread_chunk_top: ABSENT,
    thread_frame: 24,
    cframe_frame: ABSENT,
    thread_cframe: ABSENT,
    thread_base_frame: ABSENT,
    frame_code: 32,
    frame_function: ABSENT,
    frame_instruction: 104,
    frame_previous: 24,
    frame_owner: ABSENT,
    frame_locals: 360,
    frame_value_stack: 64,
    frame_blocks: 120,
    frame_block_count: 112,
    frame_generator: 96,
    frame_top: 72,
    reference_tag: 0,
    generator_frame: 16,
    generator_state: ABSENT,
    generator_running: ABSENT,
    generator_awaiting: ABSENT,
    function_code: 16,
    function_closure: 48,
    type_flags: 168,
    type_base: 256,
    tuple_items: 24,
    instruction_unit: 1,
    code_first_line: 40,
    code_stack_size: 32,
    code_file: 104,
    code_name: 112,
    code_names: 64,
    code_locals: ABSENT,
    code_qualname: ABSENT,
    code_exceptions: ABSENT,
    code_first_traceable: ABSENT,
    code_instructions: ABSENT,
    code_lines: 120,
    ascii_data: 48,
    compact_data: 72,
};

/// CPython 3.10.
const V3_10: Layout = Layout {
    runtime_interpreters: 32,
    runtime_main: 40,
    interpreter_next: 0,
    interpreter_threads: 8,
    runtime_gil: 352,
    interpreter_gil: ABSENT,
    interpreter_modules: 856,
    gil_interval: 0,
    gil_holder: 8,
    gil_locked: 16,
    gil_switches: 24,
    gil_cond: 32,
    thread_next: 8,
    thread_ident: 176,
    thread_native: ABSENT,
    thread_chunk: ABSENT,
    thread_chunk_top: ABSENT,
    thread_frame: 24,
    cframe_frame: ABSENT,
    thread_cframe: 48,
    thread_base_frame: ABSENT,
    frame_code: 32,
    frame_function: ABSENT,
    frame_instruction: 96,
    frame_previous: 24,
    frame_owner: ABSENT,
    frame_locals: 352,
    frame_value_stack: 64,
    frame_blocks: 112,
    frame_block_count: 104,
    frame_generator: 88,
    frame_top: 80,
    reference_tag: 0,
    generator_frame: 16,
    generator_state: ABSENT,
    generator_running: ABSENT,
    generator_awaiting: ABSENT,
    function_code: 48,
    function_closure: 72,
    type_flags: 168,
    type_base: 256,
    tuple_items: 24,
    instruction_unit: 2,
    code_first_line: 40,
    code_stack_size: 32,
    code_file: 104,
    code_name: 112,
    code_names: 64,
    code_locals: ABSENT,
    code_qualname: ABSENT,
    code_exceptions: ABSENT,
    code_first_traceable: ABSENT,
    code_instructions: ABSENT,
    code_lines: 120,
    ascii_data: 48,
    compact_data: 72,
};

/// CPython 3.11.
const V3_11: Layout = Layout {
    runtime_interpreters: 40,
    runtime_main: 48,
    interpreter_next: 0,
    interpreter_threads: 16,
    runtime_gil: 360,
    interpreter_gil: ABSENT,
    interpreter_modules: 888,
    gil_interval: 0,
    gil_holder: 8,
    gil_locked: 16,
    gil_switches: 24,
    gil_cond: 32,
    thread_next: 8,
    thread_ident: 152,
    thread_native: 160,
    thread_chunk: 296,
    thread_chunk_top: 304,
    thread_frame: 56,
    cframe_frame: 8,
    thread_cframe: ABSENT,
    thread_base_frame: ABSENT,
    frame_code: 32,
    frame_function: ABSENT,
    frame_instruction: 56,
    frame_previous: 48,
    frame_owner: 69,
    frame_locals: 72,
    frame_value_stack: ABSENT,
    frame_blocks: ABSENT,
    frame_block_count: ABSENT,
    frame_generator: ABSENT,
    frame_top: 64,
    reference_tag: 0,
    generator_frame: 80,
    generator_state: 75,
    generator_running: 0,
    generator_awaiting: 255,
    function_code: 48,
    function_closure: 72,
    type_flags: 168,
    type_base: 256,
    tuple_items: 24,
    instruction_unit: 2,
    code_first_line: 72,
    code_stack_size: 68,
    code_file: 112,
    code_name: 120,
    code_names: 32,
    code_locals: 76,
    code_qualname: 128,
    code_exceptions: 40,
    code_first_traceable: 168,
    code_instructions: 184,
    code_lines: 136,
    ascii_data: 48,
    compact_data: 72,
};

/// CPython 3.12.
const V3_12: Layout = Layout {
    runtime_interpreters: 40,
    runtime_main: 48,
    interpreter_next: 0,
    interpreter_threads: 72,
    runtime_gil: ABSENT,
    interpreter_gil: 384,
    interpreter_modules: 944,
    gil_interval: 0,
    gil_holder: 8,
    gil_locked: 16,
    gil_switches: 24,
    gil_cond: 32,
    thread_next: 8,
    thread_ident: 136,
    thread_native: 144,
    thread_chunk: 232,
    thread_chunk_top: 240,
    thread_frame: 56,
    cframe_frame: 0,
    thread_cframe: ABSENT,
    thread_base_frame: ABSENT,
    frame_code: 0,
    frame_function: ABSENT,
    frame_instruction: 56,
    frame_previous: 8,
    frame_owner: 70,
    frame_locals: 72,
    frame_value_stack: ABSENT,
    frame_blocks: ABSENT,
    frame_block_count: ABSENT,
    frame_generator: ABSENT,
    frame_top: 64,
    reference_tag: 0,
    generator_frame: 72,
    generator_state: 67,
    generator_running: 0,
    generator_awaiting: 255,
    function_code: 48,
    function_closure: 72,
    type_flags: 168,
    type_base: 256,
    tuple_items: 24,
    instruction_unit: 2,
    code_first_line: 68,
    code_stack_size: 64,
    code_file: 112,
    code_name: 120,
    code_names: 32,
    code_locals: 72,
    code_qualname: 128,
    code_exceptions: 40,
    code_first_traceable: 176,
    code_instructions: 192,
    code_lines: 136,
    ascii_data: 40,
    compact_data: 56,
};

/// CPython 3.13.
const V3_13: Layout = Layout {
    runtime_interpreters: 632,
    runtime_main: 640,
    interpreter_next: 7264,
    interpreter_threads: 7344,
    runtime_gil: ABSENT,
    interpreter_gil: 16,
    interpreter_modules: 7656,
    gil_interval: 0,
    gil_holder: 8,
    gil_locked: 16,
    gil_switches: 24,
    gil_cond: 32,
    thread_next: 8,
    thread_ident: 152,
    thread_native: 160,
    thread_chunk: 232,
    thread_chunk_top: 240,
    thread_frame: 72,
    cframe_frame: ABSENT,
    thread_cframe: ABSENT,
    thread_base_frame: ABSENT,
    frame_code: 0,
    frame_function: 16,
    frame_instruction: 56,
    frame_previous: 8,
    frame_owner: 70,
    frame_locals: 72,
    frame_value_stack: ABSENT,
    frame_blocks: ABSENT,
    frame_block_count: ABSENT,
    frame_generator: ABSENT,
    frame_top: 64,
    reference_tag: 0,
    generator_frame: 72,
    generator_state: 67,
    generator_running: 0,
    generator_awaiting: 255,
    function_code: 48,
    function_closure: 72,
    type_flags: 168,
    type_base: 256,
    tuple_items: 24,
    instruction_unit: 2,
    code_first_line: 68,
    code_stack_size: 64,
    code_file: 112,
    code_name: 120,
    code_names: 32,
    code_locals: 72,
    code_qualname: 128,
    code_exceptions: 40,
    code_first_traceable: 184,
    code_instructions: 200,
    code_lines: 136,
    ascii_data: 40,
    compact_data: 56,
};

/// CPython 3.14.
const V3_14: Layout = Layout {
    runtime_interpreters: 808,
    runtime_main: 816,
    interpreter_next: 7272,
    reference_tag: 3,
    frame_owner: 74,
    frame_locals: 80,
    tuple_items: 32,
    code_first_traceable: 192,
    code_instructions: 208,
    interpreter_modules: 7688,
    ..V3_13
};

/// CPython 3.15.
const V3_15: Layout = Layout {
    runtime_interpreters: 936,
    runtime_main: 944,
    interpreter_next: 7264,
    interpreter_threads: 7336,
    thread_ident: 176,
    thread_native: 184,
    thread_chunk: 256,
    thread_chunk_top: 264,
    thread_base_frame: 80,
    generator_running: 4,
    generator_awaiting: 2,
    interpreter_modules: 7592,
    ..V3_14
};

/// Offsets that never moved: the head of every object, and the few objects read besides frames.
pub(super) mod object {
    /// Any object -> reference count. Zero in a freed one: the allocator leaves it alone.
    pub const REFERENCES: usize = 0;
    /// Any object -> its type.
    pub const TYPE: usize = 8;
    /// Bytes, code (3.11+) -> number of items.
    pub const SIZE: usize = 16;
    /// List -> its items, which lie apart from it.
    pub const LIST_ITEMS: usize = 24;
    /// Bytes -> contents.
    pub const BYTES_DATA: usize = 32;
    /// String -> length in characters; the hash lies behind it.
    pub const STRING_LENGTH: usize = 16;
    /// String -> the bit field with its kind.
    pub const STRING_STATE: usize = 32;
    /// `_thread.lock`, `_thread.RLock` -> the `sem_t *`, which is also the futex address.
    pub const LOCK_WORD: usize = 16;
    /// `_thread.RLock` -> `pthread_t` of the owner, 0 when free.
    pub const LOCK_OWNER: usize = 24;
    /// Builtin method -> `PyMethodDef *`, whose first word is the name.
    pub const METHOD_DEFINITION: usize = 16;
    /// Builtin method -> the object it is bound to.
    pub const METHOD_SELF: usize = 24;
    /// A builtin type's method that is bound to no object -> `PyMethodDef *`.
    pub const DESCRIPTOR_DEFINITION: usize = 40;
    /// `PyThreadState` -> its interpreter.
    pub const THREAD_INTERPRETER: usize = 16;
}

impl Layout {
    /// The table for a `PY_VERSION_HEX`, if there is one.
    pub fn of(version_hex: u32) -> Option<Layout> {
        match version_hex >> 16 {
            0x0309 => Some(V3_9),
            0x030a => Some(V3_10),
            0x030b => Some(V3_11),
            0x030c => Some(V3_12),
            0x030d => Some(V3_13),
            0x030e => Some(V3_14),
            0x030f => Some(V3_15),
            _ => None,
        }
    }

    /// True up to 3.12: a state that is run by another thread than the one that made it keeps the
    /// ids of its maker.
    pub fn ids_may_lie(&self) -> bool {
        !self.has_chunks() || self.cframe_frame != ABSENT
    }

    /// True from 3.14 on: references in frames carry a tag, and `frame_top` is an address again.
    pub fn has_tags(&self) -> bool {
        self.reference_tag != 0
    }

    /// The object that a word in a frame refers to, 0 for none: NULL and small numbers are tagged.
    pub fn untagged(&self, word: usize) -> usize {
        const IS_COUNTED_ELSEWHERE: usize = 1;
        match word & self.reference_tag {
            0 => word,
            IS_COUNTED_ELSEWHERE => word - IS_COUNTED_ELSEWHERE,
            _ => 0,
        }
    }

    /// True from 3.11 on: frames lie in data-stack chunks and not in objects of their own.
    pub fn has_chunks(&self) -> bool {
        self.thread_chunk != ABSENT
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
