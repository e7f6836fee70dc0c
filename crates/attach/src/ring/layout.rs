//! Where CPython 3.9 to 3.13 keep the ring of pending calls: byte offsets, one table a version.
//!
//! How it works: the constants were printed by `layout_check.c` beside this crate's manifest,
//! compiled against the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0; the test at the end
//! compiles it again for every version whose headers are found, and compares. What it promises: an
//! unknown minor version has no table, and a patch release that moved a word is found by the
//! self-check (`super::check`). What is missing on purpose: debug and free-threaded builds, 32
//! bits.

/// Where a structure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `_PyRuntime`.
    Runtime(u64),
    /// In the main interpreter's state.
    Interpreter(u64),
}

/// The ring's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// A pointer to a semaphore, 1 when free.
    Semaphore(u64),
    /// A byte, 0 when free.
    Byte(u64),
}

/// How the interpreter is made to look for pending calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// An `int` in the main interpreter's state, 1.
    Flag(u64),
    /// A bit in the word of the main thread's state, whose address is in the interpreter's.
    Bit {
        /// Interpreter -> main thread's state.
        main_thread: u64,
        /// Thread's state -> word.
        word: u64,
        /// The bit.
        mask: u64,
    },
}

/// The offsets of one CPython version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `_PyRuntime` -> `int initialized`, 1.
    pub initialized: u64,
    /// `_PyRuntime` -> the thread state that ends the interpreter; NULL while it lives.
    pub finalizing: u64,
    /// `_PyRuntime` -> the main interpreter.
    pub main_interpreter: u64,
    /// `_PyRuntime` -> `pthread_t` of the main thread.
    pub main_thread: u64,
    /// Interpreter -> its first thread state.
    pub first_thread: u64,
    /// Interpreter -> `int`: the limit of recursion, beside the eval breaker (up to 3.12).
    pub recursion_limit: Option<u64>,
    /// Thread -> the next one.
    pub thread_next: u64,
    /// Thread -> its interpreter.
    pub thread_interpreter: u64,
    /// Thread -> its `pthread_t`.
    pub thread_ident: u64,
    /// The ring.
    pub pending: Place,
    /// The eval breaker.
    pub breaker: Breaker,
    /// In the ring, as all below.
    pub lock: Lock,
    /// `int`, or pointer in 3.13: calls are being made just now; 0 else (from 3.12).
    pub busy: Option<u64>,
    /// `int`: whether there are calls (up to 3.12), or how many (3.13).
    pub to_do: u64,
    /// `int`: how many there may be (3.13).
    pub max: Option<u64>,
    /// The first cell.
    pub calls: u64,
    /// Bytes of a cell: function, argument, flags (3.13).
    pub cell_bytes: u64,
    /// Cells.
    pub cells: u32,
    /// `int`: the oldest call's cell.
    pub first: u64,
    /// `int`: the cell for the next call; behind `first`.
    pub last: u64,
}

const V3_9: Layout = Layout {
    initialized: 12,
    finalizing: 16,
    main_interpreter: 40,
    main_thread: 72,
    first_thread: 8,
    recursion_limit: Some(64),
    thread_next: 8,
    thread_interpreter: 16,
    thread_ident: 176,
    pending: Place::Interpreter(80),
    breaker: Breaker::Flag(72),
    lock: Lock::Semaphore(0),
    busy: None,
    to_do: 8,
    max: None,
    calls: 16,
    cell_bytes: 16,
    cells: 32,
    first: 528,
    last: 532,
};

const V3_10: Layout = Layout { breaker: Breaker::Flag(68), ..V3_9 };

const V3_11: Layout = Layout {
    initialized: 16,
    finalizing: 24,
    main_interpreter: 48,
    main_thread: 80,
    first_thread: 16,
    recursion_limit: Some(96),
    thread_ident: 152,
    pending: Place::Interpreter(112),
    breaker: Breaker::Flag(100),
    ..V3_9
};

const V3_12: Layout = Layout {
    main_thread: 64,
    first_thread: 72,
    recursion_limit: Some(376),
    thread_ident: 136,
    pending: Place::Runtime(2016),
    breaker: Breaker::Flag(368),
    lock: Lock::Semaphore(8),
    busy: Some(0),
    to_do: 16,
    calls: 24,
    first: 536,
    last: 540,
    ..V3_11
};

const V3_13: Layout = Layout {
    initialized: 600,
    finalizing: 608,
    main_interpreter: 640,
    main_thread: 656,
    first_thread: 7344,
    recursion_limit: None,
    thread_ident: 152,
    pending: Place::Runtime(2640),
    breaker: Breaker::Bit { main_thread: 7352, word: 24, mask: 1 << 2 },
    lock: Lock::Byte(8),
    busy: Some(0),
    to_do: 12,
    max: Some(16),
    calls: 24,
    cell_bytes: 24,
    cells: 300,
    first: 7224,
    last: 7228,
    ..V3_12
};

impl Layout {
    /// The table of 3.`minor`, if there is one.
    pub fn of(minor: u32) -> Option<Layout> {
        match minor {
            9 => Some(V3_9),
            10 => Some(V3_10),
            11 => Some(V3_11),
            12 => Some(V3_12),
            13 => Some(V3_13),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    /// What `layout_check.c` prints, in its order.
    fn printed(layout: &Layout) -> String {
        let (place, pending) = match layout.pending {
            Place::Runtime(at) => ("runtime", at),
            Place::Interpreter(at) => ("interpreter", at),
        };
        let breaker = match layout.breaker {
            Breaker::Flag(at) => format!("breaker {at}\n"),
            Breaker::Bit { main_thread, word, .. } => format!("breaker {main_thread} {word}\n"),
        };
        let (Lock::Semaphore(lock) | Lock::Byte(lock)) = layout.lock;
        let maybe = |at: Option<u64>| at.map_or("-".to_owned(), |at| at.to_string());
        format!(
            "initialized {}\nfinalizing {}\nmain_interpreter {}\nmain_thread {}\nfirst_thread {}\n\
             recursion_limit {}\nthread {} {} {}\npending {place} {pending}\n{breaker}lock {lock}\n\
             busy {}\nto_do {}\nmax {}\ncalls {}\ncell {}\ncells {}\nfirst {}\nlast {}\n",
            layout.initialized,
            layout.finalizing,
            layout.main_interpreter,
            layout.main_thread,
            layout.first_thread,
            maybe(layout.recursion_limit),
            layout.thread_next,
            layout.thread_interpreter,
            layout.thread_ident,
            maybe(layout.busy),
            layout.to_do,
            maybe(layout.max),
            layout.calls,
            layout.cell_bytes,
            layout.cells,
            layout.first,
            layout.last,
        )
    }

    fn printed_by_the_headers(include: &Path, minor: u32) -> Option<String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("layout_check.c");
        let folder = testkit::Folder::new("ring-layout");
        let program = folder.path().join(format!("check-{minor}"));
        let built = Command::new("cc")
            .args(["-w", "-DPy_BUILD_CORE"])
            .arg(format!("-I{}", include.display()))
            .arg(format!("-I{}", include.join("internal").display()))
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return None;
        }
        String::from_utf8(Command::new(&program).output().ok()?.stdout).ok()
    }

    #[test]
    fn the_tables_agree_with_the_headers() {
        let home = std::env::var("HOME").unwrap_or_default();
        let versions = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
        let installed = versions.into_iter().flatten().flatten().map(|entry| entry.path());
        let mut prefixes: Vec<PathBuf> = installed.collect();
        prefixes.push(PathBuf::from("/usr"));
        for prefix in prefixes {
            for minor in 9..=13 {
                let include = prefix.join(format!("include/python3.{minor}"));
                if !include.join("internal/pycore_interp.h").exists() {
                    continue;
                }
                let Some(text) = printed_by_the_headers(&include, minor) else {
                    println!("skipped {}: no C compiler", include.display());
                    continue;
                };
                let layout = Layout::of(minor).expect("a known version");
                assert_eq!(printed(&layout), text, "{}", include.display());
                println!("checked {}", include.display());
            }
        }
    }

    #[test]
    fn an_unknown_version_has_no_table() {
        assert!(Layout::of(8).is_none() && Layout::of(14).is_none());
    }
}
