//! Running tasks: the name of the asyncio task that runs on a thread.
//!
//! How it works: asyncio keeps one dict of event loop -> running task for the whole process. Its
//! few entries are read behind the stack. A task runs on the thread exactly if its coroutine's
//! frame is one of the frames just read, so no map from loops to threads is needed, and any loop
//! will do:
//!
//! ```text
//!   dict -> keys: | hash, loop, task | ... |
//!                               `-> task | coroutine | name |
//!   stack: ..., frame of a coroutine, ...    `-> frame: is it one of those?
//! ```
//!
//! Of several (a loop that runs inside of a callback of another) the innermost is taken. A
//! coroutine inside a wrapper of ours is searched behind that. From 3.14 on there is no dict: each
//! thread state has its running task.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | running tasks, their coroutines, names | the name, or the coroutine's code | 3.9-3.15 |
//!
//! All of this is read by one call, from the addresses of the sample before; the pointers must
//! agree. Tasks that come and go often reuse the same memory. What has moved is read in further
//! calls.
//!
//! What it promises: nothing is read for a stack without a generator's frame. All that was read of
//! the task is read again behind its name; the coroutine must be running, in the code and at the
//! instruction of the stack; else there is no answer. One guarded call, or up to five. A name that
//! asyncio made up (`Task-17`, or the number alone since 3.12) does not count.
//!
//! What it does not promise: a thread that runs on may end a task between the stack and the dict,
//! and begin the next in the same memory, with the same function at the same instruction: then the
//! name is the next one's. What is missing on purpose: loops of subinterpreters, which have a dict
//! of their own; tasks written in Python (`asyncio.tasks._PyTask`); coroutines of Cython.

use crate::python_stacks::frames::frame::parse_frame;
use crate::python_stacks::layout::words::{
    decode, int_at, kind_of, read_each, read_string, text_bytes, word_at,
};
use crate::python_stacks::layout::{object, Layout};
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::objects::{dict_entries, DICT_KEYS, KEYS_HEAD};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::task_tables::running_tasks::{Candidate, Found};
use crate::python_stacks::types::{CodeId, RunningTasks};
use sys::mem::Extent;

/// Loops that are read at once.
const MOST_LOOPS: usize = 64;
/// Entries of the dict, deleted ones included.
const MOST_ENTRIES: usize = 4 * MOST_LOOPS;
/// Longer names are cut here.
const MOST_NAME: usize = 64;
/// A dict's head, to the end of what is read.
const DICT_HEAD: usize = DICT_KEYS + 16;
const DICT_USED: usize = 16;
/// The keys of a small dict: no dict has less room.
const SMALL_KEYS: usize = 168;
/// Holds a name of `MOST_NAME` ASCII characters.
const NAME_BYTES: usize = 128;
/// The dict's head and small keys.
const FIRST: usize = DICT_HEAD + SMALL_KEYS;
/// No version's task is larger; nor what is read of a coroutine.
const MOST_TASK: usize = 192;
const MOST_COROUTINE: usize = 256;
/// Tasks that are read ahead.
const AHEAD: usize = 4;
const COPIED: usize = FIRST + (AHEAD + 1) * MOST_TASK + MOST_COROUTINE + NAME_BYTES;
/// A head of an object and the word behind it.
const SHORT_HEAD: usize = 24;

/// The task that runs on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running<'s> {
    /// The name that the program gave it, at most 64 bytes of it; None: it gave none.
    pub name: Option<&'s str>,
    /// What its coroutine runs.
    pub code: CodeId,
}

impl PythonStacks {
    /// Notes the frames of coroutines of the stack that was just read.
    pub(crate) fn note_generators(&mut self, state: usize) {
        // Those of a subinterpreter are called by the main one's, which come behind them.
        if !self.threads.is_foreign(state) {
            self.running.generators.clear();
            self.running.state = state;
            self.running.innermost = self.walker.generators(state, &mut self.running.generators);
        }
    }

    /// The task that runs on the thread whose stack was read last. None: none, or it is not known.
    pub fn running_task(&mut self, tasks: RunningTasks) -> Option<Running<'_>> {
        if self.running.generators.is_empty() || tasks.by_loop == 0 {
            return None;
        }
        if let Some(lists) = self.tasks.lists {
            return self.running_of_state(lists.running, tasks.kind);
        }
        let expected = self.expected();
        let before = std::mem::take(&mut self.running.values);
        let ahead = if before.len() <= AHEAD { &before[..] } else { &[] };
        let mut copy = [0u8; COPIED];
        let got = self.read_first(tasks.by_loop, ahead, expected, &mut copy);
        let (first, more) = copy.split_at_mut(FIRST);
        self.read_values(got.min(FIRST), first)?;
        let (heads, proof) = more.split_at_mut(ahead.len() * self.tasks.size);
        let known = got >= FIRST + heads.len() && self.running.values == ahead;
        let candidates =
            if known { self.live(tasks.kind, heads) } else { self.candidates(tasks.kind) };
        let found = match expected {
            // Up to 3.10, and behind a wrapper, its coroutine would have to be read first.
            Some(expected) if candidates == [expected.one] => expected,
            _ => self.on_stack(&candidates).or_else(|| self.behind(&candidates))?,
        };
        let read = if known { got.saturating_sub(FIRST + heads.len()) } else { 0 };
        self.conclude(found, expected, proof, read)
    }

    /// The task found, if what is read of it once more confirms it. Of `proof` the first `read`
    /// bytes were read already, if it is the expected one.
    fn conclude(
        &mut self,
        found: Found,
        expected: Option<Found>,
        proof: &mut [u8],
        mut read: usize,
    ) -> Option<Running<'_>> {
        let same = |e: Found| (e.one, e.coroutine) == (found.one, found.coroutine);
        if read == 0 || !expected.is_some_and(same) {
            read = self.mem.read_extents(&self.proof(&found), proof);
        }
        let named = self.confirm(&found, proof.get(..read)?)?;
        self.running.keep(found);
        let code = self.codes.id(found.frame.code).unwrap_or(CodeId::UNKNOWN);
        Some(Running { name: named.then_some(&*self.running.name), code })
    }

    /// The same from the thread state, which has the running task at `place` (3.14 and later). One
    /// guarded call if the task is the one of the sample before, else up to four.
    fn running_of_state(&mut self, place: usize, kind: usize) -> Option<Running<'_>> {
        let size = self.tasks.size;
        let expected = self.expected();
        let word = Extent { address: self.running.state.wrapping_add(place), length: 8 };
        let mut extents = vec![word];
        if let Some(found) = expected {
            extents.push(Extent { address: found.one.task, length: size });
            extents.extend(self.proof(&found));
        }
        let mut copy = [0u8; COPIED];
        let got = self.mem.read_extents(&extents, &mut copy);
        let (word, rest) = copy.split_at_mut(8);
        let (head, proof) = rest.split_at_mut(size.min(MOST_TASK));
        let task = word_at(word, 0);
        if got < 8 || task == 0 {
            return None;
        }
        let known = expected.is_some_and(|found| found.one.task == task) && got >= 8 + size;
        if !known {
            self.mem.read(task, head).ok()?;
        }
        self.running.values.clear();
        self.running.values.push(task);
        let candidates = self.live(kind, head);
        let found = match expected {
            Some(expected) if candidates == [expected.one] => expected,
            _ => self.on_stack(&candidates).or_else(|| self.behind(&candidates))?,
        };
        let read = if known { got.saturating_sub(8 + size) } else { 0 };
        self.conclude(found, expected, proof, read)
    }

    /// The task that had the frame of one of the stack's coroutines before, with its frame now.
    fn expected(&self) -> Option<Found> {
        let memory = &self.running;
        memory.generators.iter().find_map(|frame| {
            let known = memory.lately.iter().find(|found| found.frame.address == frame.address)?;
            Some(Found { frame: *frame, ..*known })
        })
    }

    /// Reads the dict, its keys at their last address, the tasks that ran at the last sample, and
    /// the words that show whether the expected one does. Returns the bytes read.
    fn read_first(
        &self,
        dict: usize,
        ahead: &[usize],
        expected: Option<Found>,
        copy: &mut [u8; COPIED],
    ) -> usize {
        let none = Extent { address: 0, length: 0 };
        let mut extents = [none; 2 + AHEAD + 3];
        extents[0] = Extent { address: dict, length: DICT_HEAD };
        extents[1] = Extent { address: self.running.keys, length: SMALL_KEYS };
        let mut count = 2;
        let heads = ahead.iter().map(|task| Extent { address: *task, length: self.tasks.size });
        let proof = expected.map(|found| self.proof(&found));
        for (place, extent) in extents[2..].iter_mut().zip(heads.chain(proof.into_iter().flatten()))
        {
            (*place, count) = (extent, count + 1);
        }
        self.mem.read_extents(&extents[..count], copy)
    }

    /// Finds the values of the dict, of which `got` bytes were read ahead.
    fn read_values(&mut self, got: usize, first: &mut [u8]) -> Option<()> {
        let memory = &mut self.running;
        let (head, small) = first.split_at_mut(DICT_HEAD);
        let keys = word_at(head, DICT_KEYS);
        // Values that lie apart from the keys are an instance's.
        if got < DICT_HEAD || word_at(head, DICT_USED) == 0 || word_at(head, DICT_KEYS + 8) != 0 {
            return None;
        }
        if keys != memory.keys || got < FIRST {
            self.mem.read(keys, small).ok()?;
            memory.keys = keys;
        }
        let (start, entries, step) = dict_entries(memory.minor, small.get(..KEYS_HEAD)?)?;
        let end = start.checked_add(entries.min(MOST_ENTRIES) * step)?;
        let entries = match small.get(start..end) {
            Some(entries) => entries,
            None => {
                memory.bytes.resize(end.checked_sub(start)?, 0);
                self.mem.read(keys.wrapping_add(start), &mut memory.bytes).ok()?;
                &memory.bytes
            }
        };
        let values = entries.chunks_exact(step).map(|entry| word_at(entry, step - 8));
        memory.values.clear();
        memory.values.extend(values.filter(|value| *value != 0).take(MOST_LOOPS));
        Some(())
    }

    /// The values that are live tasks.
    fn candidates(&mut self, kind: usize) -> Vec<Candidate> {
        let mut heads = std::mem::take(&mut self.running.bytes);
        read_each(&self.mem, &self.running.values, self.tasks.size, &mut heads);
        let found = self.live(kind, &heads);
        self.running.bytes = heads;
        found
    }

    /// The same by the `heads` of all values.
    fn live(&mut self, kind: usize, heads: &[u8]) -> Vec<Candidate> {
        let heads = self.running.values.iter().zip(heads.chunks_exact(self.tasks.size));
        let live = heads.filter_map(|(task, head)| Candidate::of(*task, &self.tasks, head));
        let mut found: Vec<Candidate> = live.collect();
        found.retain(|one| {
            let mut own = || self.objects.type_of(&self.mem, &self.layout, one.task);
            one.kind == kind || own().is_some_and(|kind| self.tasks.is_of(kind))
        });
        found
    }

    /// The innermost one whose coroutine's frame is on the stack, by addresses alone.
    fn on_stack(&self, candidates: &[Candidate]) -> Option<Found> {
        if !self.layout.has_chunks() {
            return None;
        }
        let place = |coroutine: usize| coroutine.wrapping_add(self.layout.generator_frame);
        let places = candidates.iter().map(|one| (*one, one.coroutine, place(one.coroutine)));
        self.innermost_of(places)
    }

    /// The same where the frame, or the coroutine, has to be read.
    fn behind(&mut self, candidates: &[Candidate]) -> Option<Found> {
        let coroutines: Vec<usize> = candidates.iter().map(|one| one.coroutine).collect();
        let mut bytes = std::mem::take(&mut self.running.bytes);
        read_each(&self.mem, &coroutines, SHORT_HEAD, &mut bytes);
        let mut places = Vec::with_capacity(coroutines.len());
        for (one, head) in candidates.iter().zip(bytes.chunks_exact(SHORT_HEAD)) {
            let mut coroutine = one.coroutine;
            let mut frame = word_at(head, self.layout.generator_frame);
            match self.sort_in(head) {
                Some(Sort::Passing) => {
                    coroutine = word_at(head, object::SIZE);
                    let at = coroutine.wrapping_add(self.layout.generator_frame);
                    frame = match self.layout.has_chunks() {
                        true => at,
                        false => self.mem.word(at).unwrap_or(0),
                    };
                }
                Some(Sort::Coroutine | Sort::Generator) if !self.layout.has_chunks() => {}
                _ => continue,
            }
            places.push((*one, coroutine, frame));
        }
        self.running.bytes = bytes;
        self.innermost_of(places.into_iter())
    }

    fn innermost_of(
        &self,
        places: impl Iterator<Item = (Candidate, usize, usize)>,
    ) -> Option<Found> {
        let frames = &self.running.generators;
        let place = |address: usize| frames.iter().position(|frame| frame.address == address);
        let found = places.filter_map(|(one, coroutine, at)| Some((place(at)?, one, coroutine)));
        let (at, one, coroutine) = found.min_by_key(|(at, ..)| *at)?;
        Some(Found { one, coroutine, frame: frames[at] })
    }

    /// The reads that confirm a task, in this order: its coroutine (up to 3.10 the coroutine's
    /// frame), its name, and the task once more.
    fn proof(&self, found: &Found) -> [Extent; 3] {
        let layout = &self.layout;
        let coroutine = match layout.has_chunks() {
            true => Extent {
                address: found.coroutine,
                length: layout.generator_frame + layout.frame_locals,
            },
            false => Extent { address: found.frame.address, length: layout.frame_instruction + 8 },
        };
        let name = Extent { address: found.one.name, length: NAME_BYTES };
        [coroutine, name, Extent { address: found.one.task, length: self.tasks.size }]
    }

    /// Checks the bytes read as `proof` lists them; the name is stored in the memory. True: the
    /// program gave the name.
    pub(crate) fn confirm(&mut self, found: &Found, copy: &[u8]) -> Option<bool> {
        let [coroutine, name, task] = self.proof(found).map(|extent| extent.length);
        let (coroutine, rest) = copy.split_at_checked(coroutine)?;
        if !self.runs(coroutine, found) {
            return None;
        }
        let whole = rest.split_at_checked(name).filter(|(_, again)| again.len() == task);
        let Some((name, again)) = whole else { return self.confirm_alone(found.one) };
        self.running.name.clear();
        match self.sort_in(name)? {
            Sort::Int => {}
            Sort::Text => match text_in(&self.layout, name) {
                Some(text) => self.running.name.push_str(cut(&text)),
                None => return self.confirm_alone(found.one),
            },
            _ => return None,
        }
        self.is_still(found.one, again).then(|| is_given(&self.running.name))
    }

    /// The same for a long name, or one behind which memory cannot be read.
    #[cold]
    fn confirm_alone(&mut self, one: Candidate) -> Option<bool> {
        let mut head = [0u8; 16];
        self.mem.read(one.name, &mut head).ok()?;
        self.running.name.clear();
        match self.sort_in(&head)? {
            Sort::Int => {}
            Sort::Text => {
                let text = read_string(&self.mem, &self.layout, one.name)?;
                self.running.name.push_str(cut(&text));
            }
            _ => return None,
        }
        let mut again = [0u8; MOST_TASK];
        let again = again.get_mut(..self.tasks.size)?;
        self.mem.read(one.task, again).ok()?;
        self.is_still(one, again).then(|| is_given(&self.running.name))
    }

    fn is_still(&self, one: Candidate, again: &[u8]) -> bool {
        Candidate::of(one.task, &self.tasks, again) == Some(one)
    }

    /// Whether the coroutine runs and its frame is where the stack has it.
    fn runs(&mut self, head: &[u8], found: &Found) -> bool {
        let layout = self.layout;
        let Found { coroutine, frame, .. } = *found;
        let mut at = head;
        if layout.has_chunks() {
            let sort = self.sort_in(head);
            let is_one = matches!(sort, Some(Sort::Coroutine | Sort::Generator));
            let running = layout.generator_running as u8;
            if !is_one || head.get(layout.generator_state) != Some(&running) {
                return false;
            }
            let place = coroutine.wrapping_add(layout.generator_frame);
            if place != frame.address {
                return false;
            }
            at = head.get(layout.generator_frame..).unwrap_or_default();
        } else if word_at(head, object::REFERENCES) == 0
            || word_at(head, layout.frame_generator) != coroutine
        {
            return false;
        }
        let now = parse_frame(&layout, frame.address, at);
        let is_at_rest = now.offset == frame.offset || frame.address == self.running.innermost;
        now.code == frame.code && now.owner == frame.owner && is_at_rest
    }

    /// What an object is, by its first bytes.
    fn sort_in(&mut self, head: &[u8]) -> Option<Sort> {
        if word_at(head, object::REFERENCES) == 0 {
            return None;
        }
        let kind = word_at(head, object::TYPE);
        if let Some((_, sort)) = self.running.types.iter().find(|(known, _)| *known == kind) {
            return Some(*sort);
        }
        let found = self.objects.type_in(&self.mem, &self.layout, head)?;
        let wanted = [Sort::Coroutine, Sort::Generator, Sort::Text, Sort::Int];
        if found.is_static() && wanted.contains(&found.sort) {
            self.running.types.push((kind, found.sort));
        }
        Some(found.sort)
    }
}

/// The text of a string of which the first bytes are at hand. None: it lies beyond them.
fn text_in(layout: &Layout, bytes: &[u8]) -> Option<String> {
    let length = word_at(bytes, object::STRING_LENGTH);
    let state = int_at(bytes, object::STRING_STATE) as u32;
    let (start, taken) = text_bytes(layout, state, length.min(MOST_NAME))?;
    Some(decode(bytes.get(start..start + taken)?, kind_of(state)))
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MOST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether the program gave this name: asyncio's own are `Task-17`.
fn is_given(name: &str) -> bool {
    let number = name.strip_prefix("Task-").unwrap_or("-");
    !name.is_empty() && (number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_asyncio_made_up_are_none() {
        let given = ["refresh prices", "Task-", "Task-17b", "task-17", "My Task-17", "17"];
        assert!(given.iter().all(|name| is_given(name)));
        assert!(["", "Task-17", "Task-0"].iter().all(|name| !is_given(name)));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"x".repeat(70)), "x".repeat(64));
        assert_eq!(cut(&format!("x{}", "щ".repeat(40))), format!("x{}", "щ".repeat(31)));
    }
}
