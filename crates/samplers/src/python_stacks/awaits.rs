//! Awaits: the stack of a suspended asyncio task, from the task to the innermost frame that awaits.
//!
//! How it works: a suspended coroutine keeps its frame, and on top of that frame's value stack is
//! the object that it awaits:
//!
//! ```text
//!   task -> coroutine -> frame | locals | ... | awaited |
//!                                                  `-> coroutine -> ... -> future's iterator
//!     `--> the future the task waits for (also without a frame: awaitables written in C)
//! ```
//!
//! A future that is a task itself is followed, and so are the tasks behind a future that asyncio
//! made: the children of `gather`, the one in `wait_for`, `wait`, `shield`, those of a `TaskGroup`.
//! Their frames then lie inside the frames of the task that awaits them. A task that awaits several
//! tasks has a chain for each that is not done. A task that waits for a notice inside the block of
//! a task group that its own file opened (a middleware that runs the application in a group of
//! anyio's, and waits for its messages) waits for that group's tasks.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | `_asyncio.Task` | the future it waits for, its coroutine | 3.9-3.15 |
//! | coroutines, generators, their frames | `Frame` (code id, line), innermost first | 3.9-3.15 |
//! | see `objects`, `waits_for` | kind of await, lock, descriptor, time limit | 3.9-3.15 |
//!
//! What it promises: a task that ended is refused, by its type, its reference count and its state.
//! Nothing stops the loop meanwhile, so a chain counts only when two walks agree on it; else it is
//! `Torn`. At most as many chains as requested, of `MOST_LINKS` links.
//!
//! What is missing on purpose: generators that delegate to generators (up to 3.12 a plain `yield`
//! looks the same); coroutines of Cython (their frames are not Python's; what the task waits for is
//! known all the same); tasks written in Python (`asyncio.tasks._PyTask`).

use super::frames::{parse_frame, RawFrame};
use super::layout::{object, Layout, ABSENT};
use super::objects::{Sort, Type};
use super::task_table::{TaskLists, TaskTable};
use super::types::{Frame, Torn};
use super::words::{int_at, word_at};
use super::{PythonStacks, CODE_GONE, TRIES};
use format::wait::AwaitKind;
use sys::mem::Reader;

/// From 3.15 on the awaited object is below the place of an index, which is empty for what is
/// awaited.
const ABOVE_AWAITED: usize = 1;
/// Coroutines and other links of one task.
const MOST_LINKS: usize = 256;
/// Frames of a chain.
const MOST_FRAMES: usize = 512;
/// A coroutine's head and the beginning of its frame.
pub(super) const LINK_BYTES: usize = 256;

/// Offsets of the fields of `_asyncio.Task`. Up to 3.13 only its source has them; no header does.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskLayout {
    /// Bytes of a task; another number is another layout. 0: not known, or not yet.
    pub size: usize,
    /// Future -> `int`: 0 pending.
    pub state: usize,
    /// Task -> the future it waits for.
    waiter: usize,
    /// Task -> its coroutine.
    pub coroutine: usize,
    /// Task -> its name.
    pub name: usize,
    /// The lists of tasks (from 3.14 on; before, a set and a dict of Python's).
    pub lists: Option<TaskLists>,
}

impl TaskLayout {
    /// Measured in 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 by awaits.py in the tests; later ones
    /// publish it.
    pub fn of(version_hex: u32) -> TaskLayout {
        let (size, state, waiter) = match version_hex >> 16 {
            0x0309 => (184, 80, 144),
            0x030a => (192, 88, 152),
            0x030b | 0x030c => (176, 88, 128),
            0x030d => (144, 96, 112),
            _ => (0, 0, 0),
        };
        let (coroutine, name) = (waiter + 8, waiter + 16);
        TaskLayout { size, state, waiter, coroutine, name, lists: None }
    }

    /// Takes what asyncio publishes, once it is imported.
    pub fn learn(&mut self, mem: &Reader) {
        if self.size != 0 {
            return;
        }
        if let Some(found) = TaskTable::found(mem) {
            self.take(found);
        }
    }

    /// Takes a table that was found.
    pub fn take(&mut self, found: TaskTable) {
        let TaskTable { size, name, coroutine, waiter, state, lists } = found;
        *self = TaskLayout { size, state, waiter, coroutine, name, lists: Some(lists) };
    }

    /// Whether tasks of this type have it.
    pub fn is_of(&self, kind: Type) -> bool {
        kind.sort == Sort::Task && kind.sort_size == self.size
    }
}

/// Future -> its loop, its first callback.
pub(super) const FUTURE_LOOP: usize = 16;
pub(super) const FUTURE_CALLBACK: usize = 24;

/// One task, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub task: usize,
    pub event_loop: usize,
    /// The future it waits for, 0 when it waits for none.
    pub waiter: usize,
    pub running: bool,
    /// It is a greenlet: what it waits for is its frame object.
    pub is_greenlet: bool,
    /// Innermost first; the code objects are not verified yet.
    pub frames: Vec<RawFrame>,
}

/// The await of a task or a greenlet: its frames and what it awaits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// Address of the innermost task.
    pub task: usize,
    /// What it awaits.
    pub kind: AwaitKind,
    /// Address of the lock, queue, Event or plain future awaited, 0 none.
    pub lock: usize,
    /// Methods of that object by which another task ends the wait; none when none is known.
    pub ended_by: &'static [&'static str],
    /// A descriptor the await is about: of the only socket behind the object that awaits;
    /// `UNKNOWN_PEER` for a connection of uvloop's.
    pub fd: Option<i32>,
    /// The limit of an `asyncio.sleep` or `wait_for`, 0 none.
    pub timeout_ns: u64,
    /// Frames of the innermost task and of those that await it, innermost first.
    pub frames: Vec<Frame>,
    /// Changes when the task moves on: see `PythonStacks::has_moved`.
    pub mark: Mark,
}

/// Where a task was, in a form that is cheap to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mark {
    pub(super) task: usize,
    pub(super) waiter: usize,
    pub(super) frame: usize,
    pub(super) instruction: usize,
    is_greenlet: bool,
}

impl PythonStacks {
    /// Whether the task at `mark` certainly moved on since, or is done. Three guarded reads.
    pub fn has_moved(&self, mark: Mark) -> bool {
        if mark.is_greenlet {
            return self.greenlet_has_moved(mark);
        }
        let word = |address: usize| self.mem.word(address).unwrap_or(0);
        !self.is_pending(mark.task)
            || word(mark.task.wrapping_add(self.tasks.waiter)) != mark.waiter
            || (mark.frame != 0
                && word(mark.frame.wrapping_add(self.layout.frame_instruction)) != mark.instruction)
    }

    /// Follows `task` to its innermost await: one answer, or, when it awaits several tasks, each of
    /// which may await several, at most `most` answers, those begun last first. Each costs tens of
    /// microseconds. Torn: there is no task any more, or it runs.
    pub fn suspended(
        &mut self,
        task: usize,
        most: usize,
        out: &mut Vec<Suspended>,
    ) -> Result<(), Torn> {
        out.clear();
        let mut met = vec![task];
        let mut work: Vec<(usize, Vec<RawFrame>)> = vec![(task, Vec::new())];
        while let Some((next, outer)) = work.pop() {
            if out.len() >= most {
                break;
            }
            let chain = match self.chain(next) {
                Ok(chain) => chain,
                Err(torn) if next == task => return Err(torn),
                Err(_) => continue,
            };
            self.vouch_for(&chain)?;
            let children = match chain.running || chain.is_greenlet {
                true => Vec::new(),
                false => self.awaited_tasks(&chain, &met),
            };
            let mut frames = chain.frames.clone();
            frames.extend_from_slice(&outer);
            if !children.is_empty() {
                met.extend_from_slice(&children);
                work.extend(children.into_iter().map(|child| (child, frames.clone())));
                continue;
            }
            out.push(self.describe(chain, frames)?);
        }
        Ok(())
    }

    /// `frames`: those of `chain` and of the tasks that await it.
    fn describe(&mut self, chain: Chain, frames: Vec<RawFrame>) -> Result<Suspended, Torn> {
        let mark = self.mark(&chain);
        self.vouch(&frames);
        let chain = Chain { frames, ..chain };
        let found = match chain.is_greenlet {
            true => self.switched_for(&chain),
            false => self.waits_for(&chain),
        };
        self.vouch(&chain.frames);
        let frames = &chain.frames;
        let mut shown = Vec::with_capacity(frames.len());
        self.emit(frames.len(), MOST_FRAMES, &mut shown)?;
        Ok(Suspended {
            task: chain.task,
            kind: found.kind,
            lock: found.lock,
            ended_by: found.by,
            fd: found.fd,
            timeout_ns: found.timeout_ns,
            frames: shown,
            mark,
        })
    }

    /// Verifies the code objects of `chain`. Code objects that were not known before must be on it
    /// afterwards, too.
    fn vouch_for(&mut self, chain: &Chain) -> Result<(), Torn> {
        self.codes.begin_frames();
        self.vouch(&chain.frames);
        let known = chain.frames.iter().all(|frame| self.codes.id(frame.code).is_some());
        let sure = self.codes.unsure().is_empty()
            || (self.has_frames_again(chain)
                && self.codes.confirm(&self.mem, &self.layout, |_| true));
        if known && sure {
            return Ok(());
        }
        self.codes.forget_unsure();
        self.counters.torn_stacks += 1;
        Err(CODE_GONE)
    }

    /// Whether the task still has the frames of `chain` whose code objects were not known before.
    fn has_frames_again(&mut self, chain: &Chain) -> bool {
        let Ok(again) = self.chain_once(chain.task) else { return false };
        let is_same = |a: &RawFrame, b: &RawFrame| (a.address, a.code) == (b.address, b.code);
        let mut frames = chain.frames.iter().filter(|f| self.codes.unsure().contains(&f.code));
        frames.all(|frame| again.frames.iter().any(|now| is_same(frame, now)))
    }

    fn mark(&self, chain: &Chain) -> Mark {
        let frame = chain.frames.first().map_or(0, |frame| frame.address);
        let place = frame.wrapping_add(self.layout.frame_instruction);
        let instruction = if frame == 0 { 0 } else { self.mem.word(place).unwrap_or(0) };
        let (task, waiter, is_greenlet) = (chain.task, chain.waiter, chain.is_greenlet);
        Mark { task, waiter, frame, instruction, is_greenlet }
    }

    /// Makes `frames` the ones under consideration and verifies their code objects.
    pub(super) fn vouch(&mut self, frames: &[RawFrame]) {
        self.walker.take(frames);
        self.verify_codes();
    }

    /// The chain two walks agree on.
    pub(super) fn chain(&mut self, task: usize) -> Result<Chain, Torn> {
        let mut last = self.chain_once(task);
        for _ in 0..TRIES {
            let again = self.chain_once(task);
            if again == last {
                return again;
            }
            last = again;
        }
        self.counters.torn_stacks += 1;
        Err(Torn("task moved at every try"))
    }

    /// Whether `kind` is a task of the layout known.
    pub(super) fn is_task(&self, kind: Option<Type>) -> bool {
        kind.is_some_and(|kind| self.tasks.is_of(kind))
    }

    /// Whether the future or task at `address` has no result yet.
    pub(super) fn is_pending(&self, address: usize) -> bool {
        let mut state = [0u8; 4];
        let read = self.mem.read(address.wrapping_add(self.tasks.state), &mut state);
        read.is_ok() && int_at(&state, 0) == 0
    }

    pub(super) fn chain_once(&mut self, task: usize) -> Result<Chain, Torn> {
        if self.is_greenlet(task) {
            return self.greenlet_once(task);
        }
        let kind = self.objects.type_of(&self.mem, &self.layout, task);
        if !self.is_task(kind) {
            return Err(Torn("task gone"));
        }
        let mut head = [0u8; 192];
        let head = head.get_mut(..self.tasks.size).ok_or(Torn("task layout"))?;
        self.mem.read(task, head).map_err(|_| Torn("task gone"))?;
        if int_at(head, self.tasks.state) != 0 {
            return Err(Torn("task done"));
        }
        let mut chain = Chain {
            task,
            event_loop: word_at(head, FUTURE_LOOP),
            waiter: word_at(head, self.tasks.waiter),
            running: false,
            is_greenlet: false,
            frames: Vec::new(),
        };
        let coroutine = word_at(head, self.tasks.coroutine);
        self.links(coroutine, &mut chain);
        chain.frames.reverse();
        Ok(chain)
    }

    pub(super) fn links(&mut self, first: usize, chain: &mut Chain) {
        let mut next = first;
        for _ in 0..MOST_LINKS {
            let mut bytes = [0u8; LINK_BYTES];
            // A small object may end shortly before memory that is not mapped.
            let short = 24;
            if next % 8 != 0
                || (self.mem.read(next, &mut bytes).is_err()
                    && self.mem.read(next, &mut bytes[..short]).is_err())
            {
                return;
            }
            let kind = self.objects.type_in(&self.mem, &self.layout, &bytes);
            let Some(sort) = kind.map(|kind| kind.sort) else { return };
            let awaited = match sort {
                Sort::Passing => Some(word_at(&bytes, 16)),
                Sort::Coroutine | Sort::Generator | Sort::AsyncGenerator => {
                    self.link(next, &bytes, chain)
                }
                _ => None,
            };
            let Some(awaited) = awaited else { return };
            if sort == Sort::Generator && self.layout.generator_state == ABSENT {
                let inner = self.objects.type_of(&self.mem, &self.layout, awaited);
                if inner.is_some_and(|inner| inner.sort == Sort::Generator) {
                    return;
                }
            }
            next = awaited;
        }
    }

    /// Takes the frame of the coroutine at `address`; what it awaits, if it is suspended there.
    fn link(&mut self, address: usize, bytes: &[u8], chain: &mut Chain) -> Option<usize> {
        let layout = &self.layout;
        if !layout.has_chunks() {
            return self.link_object(word_at(bytes, layout.generator_frame), chain);
        }
        let state = bytes.get(layout.generator_state).copied()?;
        let running = layout.generator_running as u8;
        if state as i8 > running as i8 {
            return None;
        }
        chain.running |= state == running;
        let place = address.wrapping_add(layout.generator_frame);
        let head = bytes.get(layout.generator_frame..)?;
        chain.frames.push(parse_frame(layout, place, head));
        if state != layout.generator_awaiting as u8 {
            return None;
        }
        let word = |slot: usize| match head.get(slot..slot.checked_add(8)?) {
            Some(_) => Some(word_at(head, slot)),
            None => self.mem.word(place.wrapping_add(slot)).ok(),
        };
        if !layout.has_tags() {
            let depth = usize::try_from(int_at(head, layout.frame_top)).ok()?.checked_sub(1)?;
            return word(layout.frame_locals.checked_add(depth.checked_mul(8)?)?);
        }
        let top = word_at(head, layout.frame_top).wrapping_sub(place);
        let slots = (1..=ABOVE_AWAITED + 1).map(|depth| top.wrapping_sub(8 * depth));
        let mut slots = slots.filter(|slot| *slot >= layout.frame_locals);
        slots.find_map(|slot| word(slot).map(|word| layout.untagged(word)).filter(|a| *a != 0))
    }

    /// Up to 3.10 the frame is an object of its own.
    fn link_object(&mut self, frame: usize, chain: &mut Chain) -> Option<usize> {
        let layout = &self.layout;
        let mut head = [0u8; 128];
        self.mem.read(frame, &mut head).ok()?;
        if word_at(&head, object::REFERENCES) == 0 {
            return None;
        }
        let raw = parse_frame(layout, frame, &head);
        chain.frames.push(raw);
        let values = word_at(&head, layout.frame_value_stack);
        let top = match layout.instruction_unit {
            1 => word_at(&head, layout.frame_top),
            _ => match usize::try_from(int_at(&head, layout.frame_top)) {
                Ok(depth) => values.wrapping_add(depth * 8),
                Err(_) => 0,
            },
        };
        if top == 0 {
            chain.running = true;
            return None;
        }
        if raw.offset < 0 || top <= values {
            return None;
        }
        self.mem.word(top.wrapping_sub(8)).ok()
    }

    /// The locals and the live value stack of a suspended frame.
    pub(super) fn live_slots(&self, frame: &RawFrame) -> Vec<usize> {
        let count = live_count(&self.mem, &self.layout, frame).unwrap_or(0);
        self.slots(frame, 0, count)
    }
}

fn live_count(mem: &Reader, layout: &Layout, frame: &RawFrame) -> Option<usize> {
    let word = |offset: usize| mem.word(frame.address.wrapping_add(offset)).ok();
    let top = word(layout.frame_top)?;
    if layout.has_chunks() && !layout.has_tags() {
        return usize::try_from(top as u32 as i32).ok();
    }
    let locals = frame.address.wrapping_add(layout.frame_locals);
    let end = match layout.instruction_unit {
        1 => top,
        _ if layout.has_tags() => top,
        _ => {
            let values = word(layout.frame_value_stack)?;
            values.wrapping_add(usize::try_from(top as u32 as i32).ok()? * 8)
        }
    };
    let count = end.wrapping_sub(locals) / 8;
    (count < 1 << 16).then_some(count)
}

#[cfg(test)]
#[path = "awaits_tests.rs"]
mod tests;
