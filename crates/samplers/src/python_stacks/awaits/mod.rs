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
//! anyio's, and waits for its messages) waits for that group's tasks; so does one that watches for
//! its client to go away in that block, whatever server's code it does so in.
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

pub(crate) mod awaited_tasks;
pub(crate) mod enders;
pub(crate) mod greenlet_waits;
pub(crate) mod pool_holder;
pub(crate) mod task_holder;
pub(crate) mod waits_for;

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::reader::{PythonStacks, CODE_GONE};
use crate::python_stacks::tasks::chain::{Chain, Mark};
use crate::python_stacks::types::{Frame, Torn};
use format::wait::AwaitKind;

/// Frames of a chain.
const MOST_FRAMES: usize = 512;

/// The await of a task or a greenlet: its frames and what it awaits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// Address of the innermost task.
    pub task: usize,
    /// What it awaits.
    pub kind: AwaitKind,
    /// Address of the lock, queue, Event or plain future awaited, 0 none.
    pub lock: usize,
    /// Address of the object that is entered by `async with`, whose `__aenter__` awaits, 0 none.
    pub entered: usize,
    /// Methods of the awaited object by which another task ends the wait; none when none is known.
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
            // What waits for the client to go away does not wait for the tasks beside it.
            let watch = match children.is_empty() {
                true => 0,
                false => self.frames_that_watch(&chain),
            };
            let mut frames = chain.frames[watch..].to_vec();
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
        let entered = if chain.is_greenlet { 0 } else { self.entered(frames) };
        let mut shown = Vec::with_capacity(frames.len());
        self.emit(frames.len(), MOST_FRAMES, true, &mut shown)?;
        Ok(Suspended {
            task: chain.task,
            kind: found.kind,
            lock: found.lock,
            entered,
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
}
