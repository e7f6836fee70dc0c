//! Python stacks, read by a thread of ours without the GIL and without signals.
//!
//! How it works: CPython's own structures have the position of every thread. `attach` finds their
//! layout and tries it; `threads` walks the interpreters' thread lists; `stack` copies a thread's
//! frames and turns them into (code, line) pairs, each code object named once. Every read of
//! interpreter memory is guarded (`sys::mem::Reader`): freed memory is an error, never a fault.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | `_PyRuntime`, thread states | `PyThread` (native id, ident) | 3.9-3.15 |
//! | data-stack chunks, generator frames | `Frame` (code id, line), innermost first | 3.11-3.15 |
//! | frame objects | the same | 3.9, 3.10 |
//! | code objects, line tables | `CodeInfo`, exact lines | 3.9-3.15 |
//! | the GIL's state | its holder, the futexes of its own | 3.9-3.15 |
//! | lock objects, value stacks | the holder of the lock a thread waits for | 3.9-3.15 |
//! | greenlets | stack and wait of a suspended one (`greenlets`) | 3.9-3.15 |
//! | asyncio tasks | await of a suspended one (`awaits`), the running one (`running`) | 3.9-3.15 |
//!
//! A stack that was seen before is copied in one call and compared with what it was; see `kept`.
//! What it promises: bounded memory and bounded work; a stack that existed at some instant. Only
//! the GIL's holder can change its stack, and the GIL's switch counter shows which thread that
//! could have been: such a thread's stack is read twice and must agree. A thread busy calling small
//! functions never agrees. After `TRIES` its innermost few frames, which are side by side and
//! copied together, are taken as read, and up to 3.10, where they are not, left out:
//! `Outcome::settled` is then false. What cannot be trusted is `Torn`, and counted. A thread that
//! runs code in subinterpreters has its frames on several states: see `nested`.
//! What is missing on purpose: C frames; free-threaded builds; stopping the world.

mod attach;
mod awaits;
mod blocks;
#[cfg(test)]
mod by_hand;
mod codes;
mod enders;
mod exits;
mod frames;
mod greenlets;
mod held;
mod joins;
mod kept;
mod layout;
mod lines;
mod locks;
mod managers;
mod modules;
mod nested;
mod objects;
mod own_memory;
mod published;
mod running;
mod self_test;
mod task_table;
mod texts;
mod threads;
mod types;
mod unsupported;
mod waits_for;
mod words;

pub use awaits::{Mark, Suspended};
pub use codes::MAX_CODES;
pub use locks::{HowKnown, LockHolder, WaitedFor};
pub use own_memory::own_memory;
pub use running::Running;
pub use task_table::find_task_table;
pub use types::{
    AllTasks, CodeId, CodeInfo, Counters, Frame, Held, Outcome, PyThread, RunningTasks,
    RuntimeInfo, Subject, Torn, TypeAddresses,
};
pub use unsupported::Unsupported;
use waits_for::WithoutSocket;
pub use waits_for::UNKNOWN_PEER;

use awaits::TaskLayout;
use codes::Codes;
use frames::{RawFrame, Walker, OWNED_BY_GENERATOR};
use kept::{Kept, Shown};
use layout::Layout;
use objects::Objects;
use sys::mem::Reader;
use threads::{Gil, Threads};

/// How often a moving stack is read again before the last reading is judged.
const TRIES: usize = 4;
/// A moving stack is still taken when no more than this many innermost frames are unconfirmed.
const UNCONFIRMED_FRAMES: usize = 16;
/// Frames that lie no further above the innermost one than this were called from it.
const NEARBY: usize = 4096;

/// Attempts at a stack whose thread runs on through code that was not known, or from one coroutine
/// into another: an attempt learns code and makes the next one quick.
const STACK_TRIES: usize = 4;
const CODE_GONE: Torn = Torn("code object gone before it was read");

/// The reader. One per process and sampling thread; make a new one after a fork.
pub struct PythonStacks {
    mem: Reader,
    layout: Layout,
    types: TypeAddresses,
    tasks: TaskLayout,
    objects: Objects,
    running: running::Memory,
    threads: Threads,
    codes: Codes,
    walker: Walker,
    previous_frames: Vec<RawFrame>,
    unverified: Vec<usize>,
    /// For each frame walked, the number of rows before it.
    shown_at: Vec<u32>,
    last_gil: Option<Gil>,
    no_socket: Vec<WithoutSocket>,
    counters: Counters,
}

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
        let layout = attach::choose(&mem, &info)?;
        let mut walker = Walker::new().map_err(|e| {
            unsupported::refused("address space", e.to_string(), "10 MiB to read into")
        })?;
        let threads = attach::checked_threads(&mem, (&info, subject), &layout, &mut walker)?;
        let mut stacks = PythonStacks::with(&info, mem, layout, threads, walker);
        stacks.find_lock_types();
        Ok(stacks)
    }

    fn with(
        info: &RuntimeInfo,
        mem: Reader,
        layout: Layout,
        threads: Threads,
        walker: Walker,
    ) -> Self {
        PythonStacks {
            codes: Codes::new(info.version_hex, info.types.code, &layout),
            mem,
            layout,
            types: info.types,
            tasks: TaskLayout::of(info.version_hex),
            objects: Objects::new(info.version_hex),
            running: running::Memory::new(info.version_hex),
            threads,
            walker,
            previous_frames: Vec::new(),
            unverified: Vec::new(),
            shown_at: Vec::new(),
            last_gil: None,
            no_socket: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Starts a sampling pass: code objects are verified anew, once each, until the next one.
    pub fn begin_pass(&mut self) {
        self.tasks.learn(&self.mem);
        self.codes.begin_pass();
        self.objects.begin_pass();
        self.walker.begin_pass();
        self.threads.begin_pass();
        self.last_gil = None;
    }

    /// What was refused or lost so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Lists the threads of all interpreters, the main interpreter's last. One guarded read each.
    pub fn threads(&mut self, out: &mut Vec<PyThread>) -> Result<(), Torn> {
        out.clear();
        let mut result = Ok(());
        for _ in 0..TRIES {
            result = self.threads.refresh(&self.mem, &self.layout);
            if result.is_ok() {
                out.extend_from_slice(&self.threads.seen);
                return result;
            }
        }
        self.counters.torn_thread_lists += 1;
        result
    }

    /// Identifies the newest thread of the main interpreter: another answer than at the last
    /// `threads` means that that list is old. Three guarded reads.
    pub fn newest_thread(&self) -> Option<(usize, usize)> {
        self.threads.newest(&self.mem, &self.layout)
    }

    /// The native id of the thread that holds the main interpreter's GIL now.
    pub fn gil_holder(&mut self) -> Option<u32> {
        let gil = self.threads.gil(&self.mem, &self.layout)?;
        if !gil.locked || gil.holder == 0 {
            return None;
        }
        let runner = self.runner_of(gil.holder);
        runner.or_else(|| self.threads.tid_of(&self.mem, &self.layout, gil.holder))
    }

    /// True when a thread in a futex wait at `address` waits for a GIL.
    pub fn is_gil_futex(&self, address: u64) -> bool {
        self.threads.is_gil_futex(&self.layout, address as usize)
    }

    /// What is known of a code object.
    pub fn code(&self, id: CodeId) -> Option<&CodeInfo> {
        self.codes.get(id).map(|code| &code.info)
    }

    /// Reads one thread's stack into `out`, innermost frame first, at most `max_frames`.
    pub fn stack(
        &mut self,
        thread: &PyThread,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        self.counters.stacks += 1;
        let result = match self.threads.has_several(&self.mem, &self.layout) {
            false => self.stack_of(thread.state, max_frames, out),
            true => self.stack_through_interpreters(thread, max_frames, out),
        };
        match result {
            Ok(outcome) => self.counters.unsettled_stacks += u64::from(!outcome.settled),
            Err(_) => {
                out.clear();
                self.counters.torn_stacks += 1;
            }
        }
        result
    }

    fn stack_once(
        &mut self,
        state: usize,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        out.clear();
        self.codes.begin_frames();
        let settled = self.read_settled(state, max_frames);
        let shown = settled.and_then(|_| self.show(state, max_frames, out));
        if !self.codes.unsure().is_empty() && (shown.is_err() || self.has_moved_on(state)) {
            self.confirm_unsure(state, max_frames)?;
        } else if let (Ok(true), Ok(truncated), false) = (settled, shown, self.walker.is_same()) {
            self.keep(state, max_frames, truncated, out);
        }
        Ok(Outcome { truncated: shown?, settled: settled? })
    }

    /// Whether the thread may have run since its stack was read.
    fn has_moved_on(&self, state: usize) -> bool {
        let now = self.threads.gil(&self.mem, &self.layout);
        !self.threads.gil_tells() || Gil::may_have_run(self.last_gil, now, state)
    }

    /// Walks once more: a code object that still has one of its frames was alive when it was read,
    /// if it is the same one. One without a frame belonged to a kept stack, and is unchanged. What
    /// is not confirmed is taken back.
    fn confirm_unsure(&mut self, state: usize, max_frames: usize) -> Result<(), Torn> {
        self.walker.stand_alone(&self.layout, state);
        std::mem::swap(&mut self.previous_frames, &mut self.walker.frames);
        let limit = max_frames.saturating_add(1);
        let walked = self.walker.walk(&self.mem, &self.layout, state, limit);
        if walked.is_err() {
            self.codes.forget_unsure();
        }
        walked?;
        let (before, now) = (&self.previous_frames, &self.walker.frames);
        let is_same = |a: &RawFrame, b: &RawFrame| (a.address, a.code) == (b.address, b.code);
        let still_there = |code: usize| {
            let mut frames = before.iter().filter(|frame| frame.code == code).peekable();
            frames.peek().is_none()
                || frames.any(|frame| now.iter().any(|again| is_same(frame, again)))
        };
        match self.codes.confirm(&self.mem, &self.layout, still_there) {
            true => Ok(()),
            false => Err(CODE_GONE),
        }
    }

    /// Walks a stack all of whose code objects are known, or are none.
    fn walk_known(&mut self, state: usize, most: usize) -> Result<(), Torn> {
        for _ in 0..TRIES {
            self.walker.walk(&self.mem, &self.layout, state, most)?;
            self.codes.begin_frames();
            self.verify_codes();
            if self.codes.unsure().is_empty() {
                return Ok(());
            }
            // What could not be confirmed is read again by the next walk, or is gone.
            let _ = self.confirm_unsure(state, most);
        }
        Err(CODE_GONE)
    }

    /// Walks until the stack is known to have existed at one instant; true when all of it was
    /// confirmed.
    fn read_settled(&mut self, state: usize, max_frames: usize) -> Result<bool, Torn> {
        // One more than requested: a frame still in its prologue is dropped later.
        let limit = max_frames.saturating_add(1);
        let (mem, layout) = (&self.mem, &self.layout);
        let before = self.last_gil.or_else(|| self.threads.gil(mem, layout));
        let mut result = self.walker.again(mem, layout, state, limit);
        let after = match self.walker.gil_behind(state) {
            Some(bytes) => Some(Gil::parse(layout, bytes)),
            None => self.threads.gil(mem, layout),
        };
        self.last_gil = after;
        if self.threads.gil_tells() && !Gil::may_have_run(before, after, state) {
            return result.map(|()| true);
        }
        let mut confirmed = result.is_ok();
        // Frame objects are freed into a list that breaks the chain: more tries, as they are short.
        let tries = if layout.has_chunks() { TRIES } else { 3 * TRIES };
        for _ in 0..tries {
            let was_same = self.walker.is_same();
            if was_same {
                self.walker.spread(layout, state, &mut self.previous_frames);
            } else {
                std::mem::swap(&mut self.previous_frames, &mut self.walker.frames);
            }
            result = self.walker.again(mem, layout, state, limit);
            if self.walker.lacks_root(state) {
                result = Err(Torn("generator yielded meanwhile"));
            }
            if result.is_err() {
                confirmed = false;
                continue;
            }
            if confirmed && was_same && self.walker.is_same() {
                return Ok(true);
            }
            let unconfirmed = match self.walker.same(state) {
                Some(kept) => {
                    let frames: Vec<RawFrame> = kept.frames(layout).collect();
                    frames::settle(&self.previous_frames, &frames)
                }
                None => frames::settle(&self.previous_frames, &self.walker.frames),
            };
            if confirmed && unconfirmed == 0 {
                return Ok(true);
            }
            confirmed = true;
        }
        result?;
        self.walker.stand_alone(layout, state);
        self.judge_moving(state)
    }

    /// Judges the last walk of a stack that moved at every try, by the present innermost frame.
    /// Deeper: the walked frames are still below it. A frame that was walked: that frame is the
    /// innermost. Elsewhere: the walked frames may never have been on the stack together.
    fn judge_moving(&mut self, state: usize) -> Result<bool, Torn> {
        if !self.layout.has_chunks() {
            return self.keep_confirmed();
        }
        let now = frames::innermost_now(&self.mem, &self.layout, state).unwrap_or(0);
        let walked = &mut self.walker.frames;
        let left = walked.iter().position(|frame| frame.address == now);
        let leaf = walked.first().map_or(0, |frame| frame.address);
        match left {
            Some(left) => drop(walked.drain(..left)),
            None if now > leaf && now - leaf < NEARBY => {}
            None => return Err(Torn("stack moved at every try")),
        }
        if frames::settle(&self.previous_frames, walked) > UNCONFIRMED_FRAMES {
            return Err(Torn("too much of the stack moved"));
        }
        Ok(false)
    }

    /// Frame objects lie anywhere and are read one after the other, and the next call reuses their
    /// memory: unconfirmed ones may have belonged to different stacks, and are dropped.
    fn keep_confirmed(&mut self) -> Result<bool, Torn> {
        let walked = &mut self.walker.frames;
        let unconfirmed = frames::settle(&self.previous_frames, walked);
        walked.drain(..unconfirmed);
        if walked.is_empty() {
            return Err(Torn("stack moved at every try"));
        }
        Ok(false)
    }

    /// Verifies the code objects of the walked frames.
    fn verify_codes(&mut self) {
        self.verify_codes_of(self.walker.frames.len());
    }

    /// The same for the innermost `count` frames.
    fn verify_codes_of(&mut self, count: usize) {
        self.unverified.clear();
        let mut last = 0;
        for frame in self.walker.frames.iter().take(count) {
            if frame.code != last && self.codes.id(frame.code).is_none() {
                self.unverified.push(frame.code);
            }
            last = frame.code;
        }
        self.verify_unverified();
    }

    fn verify_unverified(&mut self) {
        if self.unverified.is_empty() {
            return;
        }
        self.unverified.sort_unstable();
        self.unverified.dedup();
        self.codes.verify(&self.mem, &self.layout, &self.unverified, &mut self.counters);
    }

    /// Whether all code objects of the kept stack are the ones they were; verified in this pass.
    fn kept_codes_hold(&mut self, state: usize) -> bool {
        self.unverified.clear();
        let Some((kept, _)) = self.walker.tail(state) else { return false };
        let fresh = |(code, _): &&(usize, CodeId)| self.codes.id(*code).is_none();
        self.unverified.extend(kept.shown().codes.iter().filter(fresh).map(|(code, _)| *code));
        self.verify_unverified();
        let Some((kept, _)) = self.walker.tail(state) else { return false };
        let hold = kept.shown().codes.iter().all(|(code, id)| self.codes.id(*code) == Some(*id));
        if !hold {
            // Perhaps no frame on the stack confirms what is there now.
            self.codes.forget_unsure();
        }
        hold
    }

    /// Turns the walked stack into `out`; true when it goes on beyond the limit.
    fn show(&mut self, state: usize, most: usize, out: &mut Vec<Frame>) -> Result<bool, Torn> {
        if !self.kept_codes_hold(state) {
            self.walker.stand_alone(&self.layout, state);
        }
        if let Some(kept) = self.walker.same(state) {
            self.counters.same_stacks += 1;
            out.extend_from_slice(&kept.shown().frames);
            return Ok(kept.shown().cut);
        }
        let known = self.known_tail(state).map_or(0, |(kept, count)| kept.tail_frames(count));
        let fresh = self.walker.frames.len() - known;
        self.verify_codes_of(fresh);
        let cut = self.emit(fresh, most, out)?;
        let mut at = std::mem::take(&mut self.shown_at);
        let Some((kept, count)) = self.known_tail(state).filter(|_| !cut) else {
            self.shown_at = at;
            return Ok(cut);
        };
        let (tail, before) = (kept.tail_shown(count), out.len());
        let fits = tail.len().min(most - before);
        out.extend_from_slice(&tail[..fits]);
        at.extend(kept.tail_shown_at(count).map(|shown| shown + before as u32));
        let cut = fits < tail.len();
        self.shown_at = at;
        Ok(cut)
    }

    /// The kept stack and how many of its outermost links can be shown as they were.
    fn known_tail(&self, state: usize) -> Option<(&Kept, usize)> {
        self.walker.tail(state).filter(|(kept, _)| !kept.shown().cut)
    }

    /// Keeps what was just shown for the next sample.
    fn keep(&mut self, state: usize, most: usize, cut: bool, out: &[Frame]) {
        let walked = &self.walker.frames;
        let of = |frame: &RawFrame| Some((frame.code, self.codes.id(frame.code)?));
        let mut codes: Vec<(usize, CodeId)> = match self.known_tail(state) {
            Some((kept, count)) if kept.shown().codes.len() <= walked.len() => {
                let fresh = &walked[..walked.len() - kept.tail_frames(count)];
                fresh.iter().filter_map(of).chain(kept.shown().codes.iter().copied()).collect()
            }
            _ => walked.iter().filter_map(of).collect(),
        };
        codes.sort_unstable();
        codes.dedup();
        codes.shrink_to_fit();
        let at = std::mem::take(&mut self.shown_at);
        let shown = Shown { frames: out.to_vec(), at, codes, cut };
        let limit = most.saturating_add(1);
        let gil = self.threads.gil_piece(&self.layout);
        let kept = self.walker.keep(&self.layout, (state, gil), limit, shown);
        self.counters.stacks_not_kept += u64::from(!kept);
    }

    /// Turns the innermost `count` walked frames into `out`; true when the stack goes on beyond the
    /// limit.
    fn emit(&mut self, count: usize, most: usize, out: &mut Vec<Frame>) -> Result<bool, Torn> {
        let mut last: Option<(RawFrame, Frame)> = None;
        self.shown_at.clear();
        for raw in self.walker.frames.iter().take(count) {
            self.shown_at.push(out.len() as u32);
            // Recursion repeats the same place: the answer is then the one before.
            let repeated = last.filter(|(seen, _)| {
                (seen.code, seen.offset, seen.owner) == (raw.code, raw.offset, raw.owner)
            });
            let frame = match repeated {
                Some((_, frame)) => frame,
                None => match self.frame(raw)? {
                    Some(frame) => frame,
                    None => continue,
                },
            };
            if out.len() >= most {
                return Ok(true);
            }
            last = Some((*raw, frame));
            out.push(frame);
        }
        Ok(self.walker.truncated)
    }

    fn frame(&self, raw: &RawFrame) -> Result<Option<Frame>, Torn> {
        let id = self.codes.id(raw.code).ok_or(CODE_GONE)?;
        let code = self.codes.get(id).ok_or(Torn("code id"))?;
        let started = raw.owner == OWNED_BY_GENERATOR || code.is_complete(raw.offset);
        Ok(started.then(|| Frame { code: id, line: code.line(raw.offset) }))
    }
}
