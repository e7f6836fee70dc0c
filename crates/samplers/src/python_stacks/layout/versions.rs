//! Where each CPython version keeps what the reader reads: one table of byte offsets a version.
//!
//! How it works: the constants fill in a `Layout` for 3.9 to 3.15; one that is like the version
//! before names what differs. They were printed by `layout_check.c` beside this crate's manifest,
//! compiled with `-DPy_BUILD_CORE` against the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0,
//! 3.14.10 and 3.15.2 on x86-64 Linux; a test compiles it again for every version whose headers are
//! found and compares. No type of size differing between x86-64 and aarch64 lies in front of any.
//!
//! What it promises: an unknown minor version has no table, so `attach` refuses it. Up to 3.12
//! offsets stay fixed within a minor version; if one does not, the self-check in `attach` refuses
//! too. 3.13 and later publish most offsets themselves: of their tables only the distance to a
//! published neighbour is used (see `published`), and what a published offset cannot vouch for is
//! tried in the process (`self_test`). What is missing on purpose: debug and `Py_TRACE_REFS`
//! builds, free-threaded builds, 32 bits.

use crate::python_stacks::layout::{Layout, ABSENT};

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
    frame_object: ABSENT,
    frame_object_frame: ABSENT,
    frame_object_data: ABSENT,
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
    thread_cframe: 48,
    frame_instruction: 96,
    frame_locals: 352,
    frame_blocks: 112,
    frame_block_count: 104,
    frame_generator: 88,
    frame_top: 80,
    function_code: 48,
    function_closure: 72,
    instruction_unit: 2,
    ..V3_9
};

/// CPython 3.11.
const V3_11: Layout = Layout {
    runtime_interpreters: 40,
    runtime_main: 48,
    interpreter_threads: 16,
    runtime_gil: 360,
    interpreter_modules: 888,
    thread_ident: 152,
    thread_native: 160,
    thread_chunk: 296,
    thread_chunk_top: 304,
    thread_frame: 56,
    cframe_frame: 8,
    thread_cframe: ABSENT,
    frame_instruction: 56,
    frame_previous: 48,
    frame_owner: 69,
    frame_object: 40,
    frame_object_frame: 24,
    frame_object_data: 48,
    frame_locals: 72,
    frame_value_stack: ABSENT,
    frame_blocks: ABSENT,
    frame_block_count: ABSENT,
    frame_generator: ABSENT,
    frame_top: 64,
    generator_frame: 80,
    generator_state: 75,
    generator_running: 0,
    generator_awaiting: 255,
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
    ..V3_10
};

/// CPython 3.12.
const V3_12: Layout = Layout {
    interpreter_threads: 72,
    runtime_gil: ABSENT,
    interpreter_gil: 384,
    interpreter_modules: 944,
    thread_ident: 136,
    thread_native: 144,
    thread_chunk: 232,
    thread_chunk_top: 240,
    cframe_frame: 0,
    frame_code: 0,
    frame_previous: 8,
    frame_owner: 70,
    frame_object: 48,
    generator_frame: 72,
    generator_state: 67,
    code_first_line: 68,
    code_stack_size: 64,
    code_locals: 72,
    code_first_traceable: 176,
    code_instructions: 192,
    ascii_data: 40,
    compact_data: 56,
    ..V3_11
};

/// CPython 3.13.
const V3_13: Layout = Layout {
    runtime_interpreters: 632,
    runtime_main: 640,
    interpreter_next: 7264,
    interpreter_threads: 7344,
    interpreter_gil: 16,
    interpreter_modules: 7656,
    thread_ident: 152,
    thread_native: 160,
    thread_frame: 72,
    cframe_frame: ABSENT,
    frame_function: 16,
    frame_object_data: 64,
    code_first_traceable: 184,
    code_instructions: 200,
    ..V3_12
};

/// CPython 3.14.
const V3_14: Layout = Layout {
    runtime_interpreters: 808,
    runtime_main: 816,
    interpreter_next: 7272,
    reference_tag: 3,
    frame_owner: 74,
    frame_object_data: 72,
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
}

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;
