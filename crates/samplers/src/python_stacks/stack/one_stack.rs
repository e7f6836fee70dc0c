//! The stack that hangs on one thread state: read until two walks agree, verified, shown.
//!
//! How it works: the walker gives raw frames; the GIL's switch counter shows whether the thread
//! could have changed them meanwhile, and if so they are read again and compared. Then every code
//! object is verified, and frames become rows. A kept stack that is unchanged is shown as it was.
//!
//! What it promises: a stack on which two readings agreed, or `Torn`; what that proves, and what
//! not, is on the folder's page. What is missing on purpose: threads with several states
//! (`nested`).

use crate::python_stacks::frames::frame::{settle, RawFrame, OWNED_BY_GENERATOR};
use crate::python_stacks::frames::kept::{Kept, Shown};
use crate::python_stacks::frames::walker::innermost_now;
use crate::python_stacks::reader::{PythonStacks, CODE_GONE, TRIES};
use crate::python_stacks::threads::Gil;
use crate::python_stacks::types::{CodeId, Frame, Outcome, Torn};

/// A moving stack is still taken when no more than this many innermost frames are unconfirmed.
const UNCONFIRMED_FRAMES: usize = 16;
/// Frames that lie no further above the innermost one than this were called from it.
const NEARBY: usize = 4096;

impl PythonStacks {
    pub(crate) fn stack_once(
        &mut self,
        state: usize,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        out.clear();
        self.codes.begin_frames();
        let settled = self.read_settled(state, max_frames);
        let shown = settled.and_then(|settled| self.show(state, max_frames, settled, out));
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
        !self.threads.knows_the_gil() || Gil::may_have_run(self.last_gil, now, state)
    }

    /// Walks once more: a code object that still has one of its frames was alive when it was read,
    /// if it is the same one. One without a frame belonged to a kept stack, and is unchanged. What
    /// is not confirmed is taken back.
    fn confirm_unsure(&mut self, state: usize, max_frames: usize) -> Result<(), Torn> {
        self.walker.standalone(&self.layout, state);
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
    pub(crate) fn walk_known(&mut self, state: usize, most: usize) -> Result<(), Torn> {
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
        if self.threads.knows_the_gil() && !Gil::may_have_run(before, after, state) {
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
            let is_leaf = layout.has_chunks() || {
                let now = innermost_now(mem, layout, state);
                now == Some(self.walker.leaf(state))
            };
            if confirmed && was_same && self.walker.is_same() && is_leaf {
                return Ok(true);
            }
            let unconfirmed = match self.walker.same(state) {
                Some(kept) => {
                    let frames: Vec<RawFrame> = kept.frames(layout).collect();
                    settle(&self.previous_frames, &frames)
                }
                None => settle(&self.previous_frames, &self.walker.frames),
            };
            if confirmed && unconfirmed == 0 && is_leaf {
                return Ok(true);
            }
            confirmed = true;
        }
        result?;
        self.walker.standalone(layout, state);
        self.judge_moving(state)
    }

    /// Judges the last walk of a stack that moved at every try, by the present innermost frame.
    /// Deeper: the walked frames are still below it. A frame that was walked: that frame is the
    /// innermost. Elsewhere: the walked frames may never have been on the stack together.
    fn judge_moving(&mut self, state: usize) -> Result<bool, Torn> {
        if !self.layout.has_chunks() {
            return self.keep_confirmed(state);
        }
        let now = innermost_now(&self.mem, &self.layout, state).unwrap_or(0);
        let walked = &mut self.walker.frames;
        let left = walked.iter().position(|frame| frame.address == now);
        let leaf = walked.first().map_or(0, |frame| frame.address);
        match left {
            Some(left) => drop(walked.drain(..left)),
            None if now > leaf && now - leaf < NEARBY => {}
            None => return Err(Torn("stack moved at every try")),
        }
        if settle(&self.previous_frames, walked) > UNCONFIRMED_FRAMES {
            return Err(Torn("too much of the stack moved"));
        }
        Ok(false)
    }

    /// Frame objects lie anywhere and are read one after the other, and the next call reuses their
    /// memory: unconfirmed ones may have belonged to different stacks, and are dropped. So is the
    /// innermost one if the thread has left it: its caller may have moved on before it was read.
    fn keep_confirmed(&mut self, state: usize) -> Result<bool, Torn> {
        let now = innermost_now(&self.mem, &self.layout, state).unwrap_or(0);
        let walked = &mut self.walker.frames;
        let unconfirmed = settle(&self.previous_frames, walked);
        let left = walked.iter().position(|frame| frame.address == now).unwrap_or(1);
        walked.drain(..unconfirmed.max(left).min(walked.len()));
        if walked.is_empty() {
            return Err(Torn("stack moved at every try"));
        }
        Ok(false)
    }

    /// Verifies the code objects of the walked frames.
    fn verify_codes(&mut self) {
        self.verify_codes_of(self.walker.frames.len());
    }

    /// Makes `frames` the ones under consideration and verifies their code objects.
    pub(crate) fn vouch(&mut self, frames: &[RawFrame]) {
        self.walker.take(frames);
        self.verify_codes();
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
    fn show(
        &mut self,
        state: usize,
        most: usize,
        settled: bool,
        out: &mut Vec<Frame>,
    ) -> Result<bool, Torn> {
        if !self.kept_codes_hold(state) {
            self.walker.standalone(&self.layout, state);
        }
        if let Some(kept) = self.walker.same(state) {
            self.counters.same_stacks += 1;
            out.extend_from_slice(&kept.shown().frames);
            return Ok(kept.shown().cut);
        }
        let known = self.known_tail(state).map_or(0, |(kept, count)| kept.tail_frames(count));
        let fresh = self.walker.frames.len() - known;
        self.verify_codes_of(fresh);
        let cut = self.emit(fresh, most, settled, out)?;
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
    pub(crate) fn keep(&mut self, state: usize, most: usize, cut: bool, out: &[Frame]) {
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
        let gil = self.threads.gil_extent(&self.layout);
        let kept = self.walker.keep(&self.layout, (state, gil), limit, shown);
        self.counters.stacks_not_kept += u64::from(!kept);
    }

    /// Turns the innermost `count` walked frames into `out`; true when the stack goes on beyond the
    /// limit.
    pub(crate) fn emit(
        &mut self,
        count: usize,
        most: usize,
        settled: bool,
        out: &mut Vec<Frame>,
    ) -> Result<bool, Torn> {
        let mut at = std::mem::take(&mut self.shown_at);
        at.clear();
        let frames = self.walker.frames.iter().take(count);
        let cut = rows(frames, |raw| self.frame(raw), (most, settled), &mut at, out);
        self.shown_at = at;
        Ok(cut? || self.walker.truncated)
    }

    pub(crate) fn frame(&self, raw: &RawFrame) -> Result<Option<Frame>, Torn> {
        let id = self.codes.id(raw.code).ok_or(CODE_GONE)?;
        let code = self.codes.get(id).ok_or(Torn("code id"))?;
        let started = raw.owner == OWNED_BY_GENERATOR || code.is_complete(raw.offset);
        Ok(started.then(|| Frame { code: id, line: code.line(raw.offset) }))
    }
}

/// Appends the rows of `frames`, innermost first, to `out`, and for each frame the number of rows
/// before it to `at`. True when there are more than `most`. A frame that has not begun has no row,
/// as CPython's own tracebacks have it. In a stack that is not settled it was called after the
/// frames inside of it were there: those have no rows, either.
fn rows<'f>(
    frames: impl Iterator<Item = &'f RawFrame>,
    row: impl Fn(&RawFrame) -> Result<Option<Frame>, Torn>,
    (most, settled): (usize, bool),
    at: &mut Vec<u32>,
    out: &mut Vec<Frame>,
) -> Result<bool, Torn> {
    let mut last: Option<(&RawFrame, Frame)> = None;
    for raw in frames {
        at.push(out.len() as u32);
        // Recursion repeats the same place: the answer is then the one before.
        let repeated = last.filter(|(seen, _)| {
            (seen.code, seen.offset, seen.owner) == (raw.code, raw.offset, raw.owner)
        });
        let frame = match repeated {
            Some((_, frame)) => frame,
            None => match row(raw)? {
                Some(frame) => frame,
                None if settled => continue,
                None => {
                    out.clear();
                    continue;
                }
            },
        };
        if out.len() >= most {
            return Ok(true);
        }
        last = Some((raw, frame));
        out.push(frame);
    }
    Ok(false)
}

#[cfg(test)]
#[path = "one_stack_tests.rs"]
mod tests;
