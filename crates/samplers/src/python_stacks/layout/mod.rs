//! The fields of CPython's structures that the reader reads, by name.
//!
//! How it works: `Layout` names every offset once; `versions` fills it in, a table a version, and
//! `published` overlays what an interpreter publishes itself. `object` has the offsets that never
//! moved.
//!
//! What it promises: nothing is read here. What is missing on purpose: values (`versions`).

pub(crate) mod versions;
pub(crate) mod words;

/// The version has no such field.
pub(crate) const ABSENT: usize = usize::MAX;
/// Long enough for a thread state's ids and its innermost frame, in every version.
pub(crate) const STATE_HEAD: usize = 192;

macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Byte offsets of one CPython version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct Layout {
            $($(#[$doc])* pub $name: usize,)*
        }

        #[cfg(test)]
        impl Layout {
            pub(crate) fn fields(&self) -> Vec<(&'static str, usize)> {
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
    /// Frame -> its frame object, 0 where nothing asked for it (from 3.11).
    frame_object,
    /// Frame object -> its frame (from 3.11).
    frame_object_frame,
    /// Frame object -> room for a copy of its frame, unused while that frame is on a stack (from
    /// 3.11).
    frame_object_data,
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

/// Offsets that never moved: the head of every object, and the few objects read besides frames.
pub(crate) mod object {
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
