//! The interpreters' thread lists and the GIL, read from outside.
//!
//! How it works: `_PyRuntime` leads to the interpreters, each to its thread states, newest first.
//! The states of the list before are copied with one call, a thousand at a time; a state that the
//! list leads to and that is not among them costs a read. Every state read must name its
//! interpreter as its own, so a freed state (whose list pointers the allocator has overwritten)
//! ends the walk as torn and not as a thread that never was. Up to 3.10 a state knows only its
//! `pthread_t`; the kernel's id is then read from the C library's own thread structure, at the
//! place where it was found at attach. The GIL is a struct of (interval, holder, locked, switches,
//! condition variables); a waiter sits in a futex within the condition variables.
//!
//! What it promises: at most `MAX_THREADS` states and `MAX_INTERPRETERS` interpreters a walk. What
//! is missing on purpose: the holder of the GIL of a subinterpreter with its own (3.12+); its
//! threads and their stacks are listed, and its futexes are known.

use crate::python_stacks::layout::words::{int_at, read_each, word_at};
use crate::python_stacks::layout::{object, Layout, ABSENT, STATE_HEAD};
use crate::python_stacks::types::{PyThread, Subject, Torn};
use sys::mem::{Extent, Reader};

const MAX_THREADS: usize = 16 * 1024;
const MAX_INTERPRETERS: usize = 64;
/// Long enough for the GIL fields read here, in every version.
const GIL_HEAD: usize = 40;
/// Threads by which the place of the kernel's id is found in another process.
const MOST_PROBED: usize = 64;
/// How many states of the list before are searched for the next one of this.
const WINDOW: usize = 64;

/// The GIL's state at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gil {
    pub holder: usize,
    pub locked: bool,
    pub switches: usize,
}

impl Gil {
    /// `bytes`: a copy of the memory that `Threads::gil_extent` names.
    pub fn parse(layout: &Layout, bytes: &[u8]) -> Gil {
        Gil {
            holder: word_at(bytes, layout.gil_holder),
            locked: int_at(bytes, layout.gil_locked) == 1,
            switches: word_at(bytes, layout.gil_switches),
        }
    }

    /// True unless the thread `state` certainly ran no bytecode between the two readings: a thread
    /// that takes the GIL from another becomes the holder, and the switch is counted.
    pub fn may_have_run(before: Option<Gil>, after: Option<Gil>, state: usize) -> bool {
        match (before, after) {
            (Some(a), Some(b)) => {
                a.switches != b.switches || a.holder == state || b.holder == state
            }
            _ => true,
        }
    }
}

/// Where the lists and GILs are.
pub(crate) struct Threads {
    /// The process's number, and its main thread's.
    pid: u32,
    runtime: usize,
    /// Where the C library keeps the kernel's id in its thread structure (up to 3.10).
    native_in_pthread: usize,
    main_gil: usize,
    gils: Vec<usize>,
    /// States of subinterpreters.
    foreign: Vec<PyThread>,
    /// There is more than one interpreter; `None`: not read in this pass.
    several: Option<bool>,
    pub seen: Vec<PyThread>,
    /// The newest state of the main interpreter when `seen` was begun.
    newest: Option<(usize, usize)>,
    /// The states of the list before, and the copies of their heads made for this one.
    known: Vec<usize>,
    heads: Vec<u8>,
}

impl Threads {
    pub fn new(
        mem: &Reader,
        layout: &Layout,
        runtime: usize,
        subject: &Subject,
    ) -> Result<Threads, &'static str> {
        let native_in_pthread = match (layout.thread_native, subject) {
            (ABSENT, Subject::Own) => find_native_id(mem),
            (ABSENT, Subject::Other { threads, .. }) => {
                find_native_id_of(mem, layout, runtime, threads)
            }
            _ => Some(0),
        };
        let native_in_pthread =
            native_in_pthread.ok_or("thread id in the C library's thread structure")?;
        let main_gil = gil_of(mem, layout, runtime, None).ok_or("GIL of the main interpreter")?;
        Ok(Threads {
            pid: subject.pid(),
            runtime,
            native_in_pthread,
            main_gil,
            gils: vec![main_gil],
            foreign: Vec::new(),
            several: None,
            newest: None,
            seen: Vec::new(),
            known: Vec::new(),
            heads: Vec::new(),
        })
    }

    /// Begins a pass.
    pub fn begin_pass(&mut self) {
        self.several = None;
    }

    /// Reads every interpreter's threads into `self.seen`, which stays as it was if that fails.
    pub fn refresh(&mut self, mem: &Reader, layout: &Layout) -> Result<(), Torn> {
        let roots = self.roots(mem, layout).ok_or(Torn("interpreter gone"))?;
        self.several = Some(roots.0 != roots.1);
        let newest = self.newest_of(mem, layout, roots.1);
        self.copy_heads(mem, self.seen.iter().map(|thread| thread.state).collect());
        let (mut seen, mut foreign) = (Vec::with_capacity(self.seen.len() + 8), 0);
        let mut gils = vec![self.main_gil];
        let interpreters = self.interpreters(mem, layout, roots)?;
        let last = interpreters.len() - 1;
        for (index, interpreter) in interpreters.into_iter().enumerate() {
            self.read_interpreter(mem, layout, interpreter, &mut seen)?;
            if index < last {
                foreign = seen.len();
                let gil = gil_of(mem, layout, self.runtime, Some(interpreter));
                gils.extend(gil.filter(|gil| *gil != self.main_gil));
            }
        }
        self.foreign = seen[..foreign].to_vec();
        (self.seen, self.gils, self.newest) = (seen, gils, newest);
        Ok(())
    }

    /// Whether there are subinterpreters. Read once a pass: one guarded read.
    pub fn has_several(&mut self, mem: &Reader, layout: &Layout) -> bool {
        let ask = || self.roots(mem, layout).is_some_and(|(first, main)| first != main);
        let several = self.several.unwrap_or_else(ask);
        self.several = Some(several);
        several
    }

    /// Lists the states of subinterpreters anew: on 3.13 each call into one has its own.
    pub fn refresh_foreign(&mut self, mem: &Reader, layout: &Layout) -> Result<(), Torn> {
        self.copy_heads(mem, self.foreign.iter().map(|thread| thread.state).collect());
        let mut foreign = Vec::with_capacity(self.foreign.len() + 1);
        let roots = self.roots(mem, layout).ok_or(Torn("interpreter gone"))?;
        let interpreters = self.interpreters(mem, layout, roots)?;
        for interpreter in &interpreters[..interpreters.len() - 1] {
            self.read_interpreter(mem, layout, *interpreter, &mut foreign)?;
        }
        self.foreign = foreign;
        Ok(())
    }

    /// The state of the main interpreter.
    pub fn main_interpreter(&self, mem: &Reader, layout: &Layout) -> Option<usize> {
        self.roots(mem, layout).map(|(_, main)| main)
    }

    /// The newest interpreter and the main one, by one guarded read.
    fn roots(&self, mem: &Reader, layout: &Layout) -> Option<(usize, usize)> {
        let (mut words, at) = ([0u8; 16], self.runtime);
        let places = [at + layout.runtime_interpreters, at + layout.runtime_main];
        let read = mem.read_many(&places, 8, &mut words);
        (read == places.len()).then(|| (word_at(&words, 0), word_at(&words, 8)))
    }

    /// The subinterpreters, newest first, then the main interpreter.
    fn interpreters(
        &self,
        mem: &Reader,
        layout: &Layout,
        (mut next, main): (usize, usize),
    ) -> Result<Vec<usize>, Torn> {
        let gone = |_| Torn("interpreter gone");
        let mut found = Vec::with_capacity(1);
        while next != 0 && next != main && found.len() + 1 < MAX_INTERPRETERS {
            found.push(next);
            next = mem.word(next.wrapping_add(layout.interpreter_next)).map_err(gone)?;
        }
        found.push(main);
        Ok(found)
    }

    /// Copies the heads of states that are likely to be met again.
    fn copy_heads(&mut self, mem: &Reader, states: Vec<usize>) {
        self.known = states;
        read_each(mem, &self.known, STATE_HEAD, &mut self.heads);
    }

    fn read_interpreter(
        &self,
        mem: &Reader,
        layout: &Layout,
        interpreter: usize,
        out: &mut Vec<PyThread>,
    ) -> Result<(), Torn> {
        let first = out.len();
        let mut next = mem
            .word(interpreter.wrapping_add(layout.interpreter_threads))
            .map_err(|_| Torn("interpreter gone"))?;
        let mut head = [0u8; STATE_HEAD];
        let mut expected = 0;
        for _ in 0..MAX_THREADS {
            if next == 0 {
                break;
            }
            let near = self.known.iter().skip(expected).take(WINDOW);
            let at = near.zip(expected..).find(|(state, _)| **state == next).map(|(_, at)| at);
            let copy = at.and_then(|at| self.heads.chunks_exact(STATE_HEAD).nth(at));
            let own = |copy: &&[u8]| word_at(copy, object::THREAD_INTERPRETER) == interpreter;
            match copy.filter(own) {
                Some(copy) => head.copy_from_slice(copy),
                None => mem.read(next, &mut head).map_err(|_| Torn("thread state gone"))?,
            }
            expected = at.map_or(expected, |at| at + 1);
            if word_at(&head, object::THREAD_INTERPRETER) != interpreter {
                return Err(Torn("thread state reused"));
            }
            let ident = word_at(&head, layout.thread_ident);
            let tid = self.native_id(mem, layout, &head, ident);
            if tid != 0 {
                let thread = PyThread { state: next, tid, ident: ident as u64 };
                out.push(thread);
            }
            next = word_at(&head, layout.thread_next);
        }
        drop_unborn(out, first);
        Ok(())
    }

    fn native_id(&self, mem: &Reader, layout: &Layout, head: &[u8], ident: usize) -> u32 {
        if layout.thread_native != ABSENT {
            return u32::try_from(word_at(head, layout.thread_native)).unwrap_or(0);
        }
        let mut bytes = [0u8; 4];
        match mem.read(ident.wrapping_add(self.native_in_pthread), &mut bytes) {
            Ok(()) => u32::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// The newest thread state of the main interpreter, and its thread. States are added in front
    /// of the list: as long as the answer is the same, no other was added.
    pub fn newest(&self, mem: &Reader, layout: &Layout) -> Option<(usize, usize)> {
        self.newest_of(mem, layout, self.roots(mem, layout)?.1)
    }

    fn newest_of(&self, mem: &Reader, layout: &Layout, main: usize) -> Option<(usize, usize)> {
        let state = mem.word(main.wrapping_add(layout.interpreter_threads)).ok()?;
        Some((state, mem.word(state.wrapping_add(layout.thread_ident)).ok()?))
    }

    /// Whether a thread was born since the list was made.
    pub fn is_old(&self, mem: &Reader, layout: &Layout) -> bool {
        self.newest.is_none() || self.newest != self.newest(mem, layout)
    }

    /// The states of subinterpreters.
    pub fn foreign(&self) -> &[PyThread] {
        &self.foreign
    }

    /// Whether only the GIL's holder can run. Not with several interpreters: a thread that goes
    /// from one into another takes the GIL along, and the state that it was taken with remains the
    /// holder (up to 3.11); from 3.12 on each interpreter may have its own.
    pub fn knows_the_gil(&self) -> bool {
        !self.several.unwrap_or(!self.foreign.is_empty())
    }

    pub fn is_foreign(&self, state: usize) -> bool {
        self.foreign.iter().any(|thread| thread.state == state)
    }

    /// The thread on whose C stack an address lies. A thread's stack is below its `pthread_t`; the
    /// main thread's, alone, above that of all.
    pub fn owner_of_stack(&self, address: usize) -> Option<u32> {
        let others = self.seen.iter().filter(|thread| thread.tid != self.pid);
        let above = others.filter(|thread| thread.ident as usize > address);
        let nearest = above.min_by_key(|thread| thread.ident).map(|thread| thread.tid);
        nearest.or_else(|| self.seen.iter().find(|t| t.tid == self.pid).map(|t| t.tid))
    }

    /// Where the main interpreter's GIL has its state.
    pub fn gil_extent(&self, layout: &Layout) -> Extent {
        Extent { address: self.main_gil, length: layout.gil_cond.min(GIL_HEAD) }
    }

    /// Reads the main interpreter's GIL.
    pub fn gil(&self, mem: &Reader, layout: &Layout) -> Option<Gil> {
        let mut bytes = [0u8; GIL_HEAD];
        let extent = self.gil_extent(layout);
        let bytes = &mut bytes[..extent.length];
        mem.read(extent.address, bytes).ok()?;
        Some(Gil::parse(layout, bytes))
    }

    /// The GIL's switch interval, a value known from `sys.getswitchinterval` and so a landmark.
    pub fn switch_interval_us(&self, mem: &Reader, layout: &Layout) -> usize {
        mem.word(self.main_gil.wrapping_add(layout.gil_interval)).unwrap_or(0)
    }

    /// The native id behind a thread state that the GIL names.
    pub fn tid_of(&self, mem: &Reader, layout: &Layout, state: usize) -> Option<u32> {
        if let Some(thread) = self.seen.iter().find(|thread| thread.state == state) {
            return Some(thread.tid);
        }
        let mut head = [0u8; STATE_HEAD];
        mem.read(state, &mut head).ok()?;
        let ident = word_at(&head, layout.thread_ident);
        Some(self.native_id(mem, layout, &head, ident)).filter(|tid| *tid != 0)
    }

    /// True for a futex address within the condition variables and mutexes of a GIL.
    pub fn is_gil_futex(&self, layout: &Layout, address: usize) -> bool {
        let length = 2 * (size_of::<libc::pthread_cond_t>() + size_of::<libc::pthread_mutex_t>());
        let inside = |gil: &usize| address.wrapping_sub(gil.wrapping_add(layout.gil_cond)) < length;
        self.gils.iter().any(inside)
    }
}

/// A state that its thread has not yet adopted has its creator's ids. Newer states come first, so
/// of several with one id the last is that thread's.
fn drop_unborn(out: &mut Vec<PyThread>, first: usize) {
    let mut ids: Vec<(u32, usize)> =
        out[first..].iter().enumerate().map(|(i, t)| (t.tid, i + first)).collect();
    ids.sort_unstable();
    let mut unborn: Vec<usize> =
        ids.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].1).collect();
    unborn.sort_unstable();
    for index in unborn.into_iter().rev() {
        out.remove(index);
    }
}

fn gil_of(
    mem: &Reader,
    layout: &Layout,
    runtime: usize,
    interpreter: Option<usize>,
) -> Option<usize> {
    if layout.runtime_gil != ABSENT {
        return Some(runtime + layout.runtime_gil);
    }
    let interpreter = match interpreter {
        Some(interpreter) => interpreter,
        None => mem.word(runtime + layout.runtime_main).ok()?,
    };
    let gil = mem.word(interpreter.wrapping_add(layout.interpreter_gil)).ok()?;
    Some(gil).filter(|gil| *gil != 0)
}

/// Finds where the C library keeps a thread's kernel id in the structure that `pthread_self`
/// points to: the one place that holds it both for this thread and for another.
fn find_native_id(mem: &Reader) -> Option<usize> {
    let here = places_of_own_id(mem);
    let other = std::thread::Builder::new().name("dashcam-probe".into());
    let there = std::thread::scope(|scope| {
        let probe = other.spawn_scoped(scope, || places_of_own_id(mem)).ok()?;
        probe.join().ok()
    })?;
    here.into_iter().find(|place| there.contains(place))
}

/// The same in another process, whose C library may be another one: the first place that holds one
/// of its threads' numbers for each thread of its main interpreter.
fn find_native_id_of(mem: &Reader, layout: &Layout, runtime: usize, tids: &[u32]) -> Option<usize> {
    let main = mem.word(runtime + layout.runtime_main).ok()?;
    let mut state = mem.word(main.wrapping_add(layout.interpreter_threads)).ok()?;
    let mut common: Option<Vec<usize>> = None;
    for _ in 0..MOST_PROBED {
        if state == 0 {
            break;
        }
        let ident = mem.word(state.wrapping_add(layout.thread_ident)).ok()?;
        let bytes = thread_structure(mem, ident);
        let holds = |place: &usize| tids.contains(&(int_at(&bytes, *place) as u32));
        common = Some(match common {
            None => (0..bytes.len()).step_by(4).filter(holds).collect(),
            Some(places) => places.into_iter().filter(holds).collect(),
        });
        state = mem.word(state.wrapping_add(layout.thread_next)).ok()?;
    }
    common?.first().copied()
}

/// The first bytes of the C library's structure of a thread; zeros behind the end of its mapping.
fn thread_structure(mem: &Reader, address: usize) -> [u8; 2048] {
    let mut bytes = [0u8; 2048];
    for (index, extent) in bytes.chunks_exact_mut(64).enumerate() {
        if mem.read(address.wrapping_add(index * 64), extent).is_err() {
            break;
        }
    }
    bytes
}

fn places_of_own_id(mem: &Reader) -> Vec<usize> {
    let tid = sys::thread::tid() as i32;
    // SAFETY: the call only returns a number; it takes and touches nothing. The number is used as
    // an address for the guarded reader alone.
    let own = unsafe { libc::pthread_self() as usize };
    let bytes = thread_structure(mem, own);
    (0..bytes.len()).step_by(4).filter(|place| int_at(&bytes, *place) == tid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_native_id_is_found_in_the_thread_structure() {
        let mem = Reader::new().expect("a process may read itself");
        assert!(find_native_id(&mem).is_some());
    }

    #[test]
    fn only_the_holder_can_have_run_while_no_switch_was_counted() {
        let gil = |holder, switches| Some(Gil { holder, locked: true, switches });
        assert!(!Gil::may_have_run(gil(1, 5), gil(1, 5), 2));
        assert!(Gil::may_have_run(gil(1, 5), gil(1, 5), 1));
        assert!(Gil::may_have_run(gil(1, 5), gil(1, 7), 2));
        assert!(Gil::may_have_run(None, gil(1, 5), 2));
    }
}
