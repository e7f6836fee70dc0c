//! Attach: decides whether this interpreter can be read, before anything is reported about it.
//!
//! How it works: the version picks a table of offsets (3.13 and later publish most themselves). The
//! table is then tried on the live interpreter: the GIL's switch interval must be a sensible
//! number, the thread list must contain a thread that the kernel knows, and a stack must end in a
//! code object, recognised by its type. From 3.14 on that frame and its code are tried, too: see
//! `self_test`.
//!
//! What it promises: a wrong layout is refused with a reason and never yields garbage. What is
//! missing on purpose: guessing. An unknown version is refused; then the host reads stacks through
//! the interpreter itself, rarely and under the GIL (`under_gil`).

pub(crate) mod modules;
pub(crate) mod own_memory;
pub(crate) mod published;
pub(crate) mod self_test;
pub(crate) mod unsupported;

use crate::python_stacks::attach::unsupported::{refused, Unsupported};
use crate::python_stacks::frames::walker::Walker;
use crate::python_stacks::layout::{object, Layout};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::threads::Threads;
use crate::python_stacks::types::{RuntimeInfo, Subject};
use sys::mem::Reader;

impl PythonStacks {
    /// Finds and tries the layout of the interpreter in this process. Costs microseconds.
    pub fn attach(info: RuntimeInfo, mem: Reader) -> Result<Self, Unsupported> {
        PythonStacks::attach_to(info, mem, &Subject::Own)
    }

    /// The same in the process that `mem` reads. What is not known of `info.types`' locks is looked
    /// up there.
    pub fn attach_to(
        info: RuntimeInfo,
        mem: Reader,
        subject: &Subject,
    ) -> Result<Self, Unsupported> {
        let layout = choose(&mem, &info)?;
        let mut walker = Walker::new()
            .map_err(|e| refused("address space", e.to_string(), "10 MiB to read into"))?;
        let threads = checked_threads(&mem, (&info, subject), &layout, &mut walker)?;
        let mut stacks = PythonStacks::with(&info, mem, layout, threads, walker);
        stacks.find_lock_types();
        Ok(stacks)
    }
}

/// The layout for this interpreter: from the table, and from 3.13 on as published.
fn choose(mem: &Reader, info: &RuntimeInfo) -> Result<Layout, Unsupported> {
    let Some(table) = Layout::of(info.version_hex) else {
        let found = format!("{:#010x}", info.version_hex);
        return Err(refused("Python version", found, "3.9 to 3.15"));
    };
    if info.version_hex >> 16 >= 0x030d {
        return published::overlay(mem, info.runtime, info.version_hex, table);
    }
    Ok(table)
}

/// Attempts to read a thread list and a stack that are valid, and what each attempt adds to the
/// pause between two.
const TRIES: u64 = 64;
const PAUSE_NS: u64 = 50_000;

/// Finds the threads, and tries the layout on the live interpreter.
fn checked_threads(
    mem: &Reader,
    (info, subject): (&RuntimeInfo, &Subject),
    layout: &Layout,
    walker: &mut Walker,
) -> Result<Threads, Unsupported> {
    let mut threads = Threads::new(mem, layout, info.runtime, subject)
        .map_err(|thing| refused(thing, "not found".into(), "a readable pointer"))?;
    let interval = threads.switch_interval_us(mem, layout);
    if !(1..=60_000_000).contains(&interval) {
        return Err(refused("GIL switch interval", interval.to_string(), "1 us to 60 s"));
    }
    // Other threads may be starting, ending and calling meanwhile. So there are several attempts,
    // at first at once, then at longer and longer distances, a tenth of a second in all.
    let mut last = None;
    for attempt in 0..TRIES {
        match check_once(mem, (info, subject), layout, &mut threads, walker) {
            Ok(()) => return Ok(threads),
            Err(problem) => last = Some(problem),
        }
        sys::thread::pause(PAUSE_NS * attempt);
    }
    Err(last.unwrap_or_else(|| refused("thread list", "unreadable".into(), "a thread")))
}

fn check_once(
    mem: &Reader,
    (info, subject): (&RuntimeInfo, &Subject),
    layout: &Layout,
    threads: &mut Threads,
    walker: &mut Walker,
) -> Result<(), Unsupported> {
    threads
        .refresh(mem, layout)
        .map_err(|torn| refused("thread list", torn.to_string(), "a stable list"))?;
    if !threads.seen.iter().any(|thread| subject.has(thread.tid)) {
        let found = format!("{} threads unknown to the kernel", threads.seen.len());
        return Err(refused("thread list", found, "one that is running"));
    }
    let mut tried =
        Err(refused("innermost frame", "without a code object".into(), "a code object"));
    let kinds = (info.types.code, info.types.builtin_method);
    for thread in &threads.seen {
        if walker.walk(mem, layout, thread.state, 1).is_err() {
            continue;
        }
        let Some(leaf) = walker.frames.first() else { continue };
        let kind = mem.word(leaf.code.wrapping_add(object::TYPE));
        if kind.is_ok_and(|kind| kind == info.types.code) {
            tried = match layout.has_tags() {
                true => self_test::check(mem, layout, kinds, (leaf.address, leaf.code)),
                false => Ok(()),
            };
        }
        if tried.is_ok() {
            break;
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::super::TypeAddresses;
    use super::*;

    fn info(version_hex: u32, runtime: usize) -> RuntimeInfo {
        let types = TypeAddresses { code: 1, lock: 2, rlock: 3, builtin_method: 4 };
        RuntimeInfo { version_hex, runtime, types }
    }

    fn why_not(info: RuntimeInfo) -> String {
        let mem = Reader::new().expect("a process may read itself");
        match PythonStacks::attach(info, mem) {
            Ok(_) => "attached".into(),
            Err(unsupported) => unsupported.to_string(),
        }
    }

    #[test]
    fn unknown_versions_and_strange_memory_are_refused_with_a_reason() {
        assert_eq!(
            why_not(info(0x0310_00f0, 0)),
            "cannot read Python stacks: Python version is 0x031000f0, wanted 3.9 to 3.15; \
             use CPython 3.9 to 3.15 with the GIL"
        );
        let zeros = vec![0u64; 4096];
        let runtime = zeros.as_ptr() as usize;
        for minor in 9..=15 {
            let answer = why_not(info((3 << 24) | (minor << 16), runtime));
            assert!(answer.starts_with("cannot read Python stacks: "), "{answer}");
            let answer = why_not(info((3 << 24) | (minor << 16), 64));
            assert!(answer.starts_with("cannot read Python stacks: "), "{answer}");
        }
    }

    #[test]
    fn a_free_threaded_build_is_refused() {
        let mut words = vec![0u64; 128];
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        words[1] = 0x030d_00f0;
        words[2] = 1;
        let answer = why_not(info(0x030d_00f0, words.as_ptr() as usize));
        assert!(answer.contains("interpreter build is free-threaded"), "{answer}");
    }
}
