//! CPython 3.9 to 3.13: a call in the ring of pending calls, written from outside.
//!
//! How it works: what `Py_AddPendingCall` does, done in the memory of the stopped process. The main
//! thread makes the calls of the ring when it next runs Python code. The call is
//! `PyRun_SimpleString` with a text, which lies in cells of the ring that are not in use.
//!
//! ```text
//!   cells: | . . . . [text..............] | function, argument | . . . .
//!                                           `- last          `- last + 1, once it is written
//! ```
//!
//! The order of the writes makes each prefix harmless: text and cell lie outside of the ring until
//! `last` has moved, and a call that nobody was asked to make waits for the next one.
//!
//! What it promises: nothing is written unless every word that is known of the structure is as
//! expected, its lock is free, and no call waits in it, while the process is stopped; what was
//! written is read again. A call that is not to be made any more becomes an empty text
//! (`withdraw`), one byte.
//!
//! What is missing on purpose: 3.13 keeps the number of calls in a word of its own; a process that
//! is killed between two writes (2 us) leaves it one behind, so that the program's own calls are
//! made one call late.

mod layout;

use std::io;

pub use layout::Layout;
use layout::{Breaker, Lock, Place};

use crate::interpreter::{Interpreter, SUPPORTED};
use crate::memory::Memory;
use crate::refusal::{refused, Refusal};

/// Longest list of threads that is followed.
const MAX_THREADS: usize = 100_000;
/// `Py_AddPendingCall` of 3.13: for the main thread only.
const MAIN_THREAD_ONLY: u32 = 1;

/// Why nothing can be written now.
#[derive(Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It changes by itself: the lock is held, calls wait or are being made.
    Busy(&'static str),
    /// It does not change.
    Refused(Refusal),
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Obstacle {
        Obstacle::Refused(unexpected("memory of the interpreter", &error.to_string(), "readable"))
    }
}

impl From<Refusal> for Obstacle {
    fn from(refusal: Refusal) -> Obstacle {
        Obstacle::Refused(refusal)
    }
}

/// The ring of a live interpreter.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    layout: Layout,
    interpreter: Interpreter,
    /// The address of the ring.
    at: u64,
    /// The address of the eval breaker.
    breaker: u64,
}

/// Where a text was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    text: u64,
    cell: u64,
}

impl Ring {
    /// Finds it, and compares every known word around it. Reads only.
    pub fn find(memory: &dyn Memory, interpreter: Interpreter) -> Result<Ring, Refusal> {
        let Some(layout) = Layout::of(interpreter.minor) else {
            let found = interpreter.version();
            return Err(refused("version", found, SUPPORTED, "nothing was changed"));
        };
        let unreadable =
            |error: io::Error| unexpected("interpreter", &error.to_string(), "readable");
        Ring::locate(memory, interpreter, layout).map_err(unreadable)?
    }

    fn locate(
        memory: &dyn Memory,
        interpreter: Interpreter,
        layout: Layout,
    ) -> io::Result<Result<Ring, Refusal>> {
        let runtime = interpreter.runtime;
        if memory.int(runtime + layout.initialized)? != 1 {
            return Ok(Err(unexpected("interpreter", "not initialized", "one that runs")));
        }
        if memory.word(runtime + layout.finalizing)? != 0 {
            return Ok(Err(unexpected("interpreter", "at its end", "one that runs")));
        }
        let main = memory.word(runtime + layout.main_interpreter)?;
        let at = match layout.pending {
            Place::Runtime(offset) => runtime + offset,
            Place::Interpreter(offset) => main + offset,
        };
        let breaker = match layout.breaker {
            Breaker::Flag(offset) => main + offset,
            Breaker::Bit { main_thread, word, .. } => memory.word(main + main_thread)? + word,
        };
        let ring = Ring { layout, interpreter, at, breaker };
        Ok(ring.check_neighbours(memory, main)?.map(|()| ring))
    }

    /// The words beside those that are written: a layout that differs would show here.
    fn check_neighbours(&self, memory: &dyn Memory, main: u64) -> io::Result<Result<(), Refusal>> {
        let Layout { thread_interpreter, .. } = self.layout;
        if !self.knows_main_thread(memory, main)? {
            let found = "without the main thread, or with another interpreter's";
            return Ok(Err(unexpected("list of threads", found, "the main thread in it")));
        }
        if let Some(limit) = self.layout.recursion_limit {
            let limit = memory.int(main + limit)?;
            if !(1..=1 << 30).contains(&limit) {
                let found = limit.to_string();
                return Ok(Err(unexpected("limit of recursion", &found, "a positive number")));
            }
        }
        match self.layout.breaker {
            // The flag itself, and the request to give the GIL away behind it.
            Breaker::Flag(_) => {
                let (flag, other) = (memory.int(self.breaker)?, memory.int(self.breaker + 4)?);
                if !(0..=1).contains(&flag) || !(0..=1).contains(&other) {
                    let found = format!("{flag} and {other}");
                    return Ok(Err(unexpected("eval breaker", &found, "0 or 1")));
                }
            }
            Breaker::Bit { word, .. } => {
                if memory.word(self.breaker - word + thread_interpreter)? != main {
                    let found = "of another interpreter";
                    return Ok(Err(unexpected("main thread's state", found, "the main one's")));
                }
            }
        }
        self.check_ring(memory)
    }

    fn check_ring(&self, memory: &dyn Memory) -> io::Result<Result<(), Refusal>> {
        let cells = self.layout.cells as i32;
        let (first, last) = self.ends(memory)?;
        if !(0..cells).contains(&first) || !(0..cells).contains(&last) {
            let found = format!("{first} to {last}");
            let wanted = format!("0 to {}", cells - 1);
            return Ok(Err(unexpected("ring of pending calls", &found, &wanted)));
        }
        if let Some(max) = self.layout.max {
            let max = memory.int(self.at + max)?;
            if !(1..=cells).contains(&max) {
                let found = max.to_string();
                return Ok(Err(unexpected("limit of pending calls", &found, "1 to 300")));
            }
        }
        let to_do = memory.int(self.at + self.layout.to_do)?;
        if !(0..=cells).contains(&to_do) {
            return Ok(Err(unexpected("pending calls", &to_do.to_string(), "0 or 1")));
        }
        if let Lock::Semaphore(lock) = self.layout.lock {
            let semaphore = memory.word(self.at + lock)?;
            let value = memory.int(semaphore);
            if semaphore == 0 || !value.is_ok_and(|value| (0..=1).contains(&value)) {
                return Ok(Err(unexpected("lock of pending calls", "no semaphore", "one")));
            }
        }
        Ok(Ok(()))
    }

    fn knows_main_thread(&self, memory: &dyn Memory, main: u64) -> io::Result<bool> {
        let wanted = memory.word(self.interpreter.runtime + self.layout.main_thread)?;
        let mut thread = memory.word(main + self.layout.first_thread)?;
        for _ in 0..MAX_THREADS {
            if thread == 0 || memory.word(thread + self.layout.thread_interpreter)? != main {
                return Ok(false);
            }
            if memory.word(thread + self.layout.thread_ident)? == wanted {
                return Ok(wanted != 0);
            }
            thread = memory.word(thread + self.layout.thread_next)?;
        }
        Ok(false)
    }

    fn ends(&self, memory: &dyn Memory) -> io::Result<(i32, i32)> {
        Ok((memory.int(self.at + self.layout.first)?, memory.int(self.at + self.layout.last)?))
    }

    fn cell(&self, index: i32) -> u64 {
        self.at + self.layout.calls + self.layout.cell_bytes * u64::from(index.unsigned_abs())
    }

    /// Adds a call that runs `text`. Only while the process is stopped; after an `Obstacle` nothing
    /// was added.
    pub fn write(&self, memory: &dyn Memory, text: &str) -> Result<Written, Obstacle> {
        // Once more: the process has run since `find`.
        if Ring::find(memory, self.interpreter)?.at != self.at {
            return Err(Obstacle::Busy("the interpreter was replaced"));
        }
        self.check_free(memory)?;
        let (first, last) = self.ends(memory)?;
        if first != last {
            return self.revive(memory, first, last, text);
        }
        let Some(at) = self.room(last, text.len() as u64 + 1) else {
            let found = format!("{} bytes", text.len());
            return Err(unexpected("text for the ring", &found, "a shorter one").into());
        };
        let written = Written { text: at, cell: self.cell(last) };
        self.write_text(memory, at, text)?;
        let mut cell = [self.interpreter.run_string.to_le_bytes(), at.to_le_bytes()].concat();
        if self.layout.cell_bytes == 24 {
            cell.extend_from_slice(&u64::from(MAIN_THREAD_ONLY).to_le_bytes());
        }
        memory.write(written.cell, &cell)?;
        let mut again = vec![0; cell.len()];
        memory.read(written.cell, &mut again)?;
        if again != cell {
            return Err(unexpected("a written cell", "other bytes", "those written").into());
        }
        let next = (last + 1) % self.layout.cells as i32;
        memory.write(self.at + self.layout.last, &next.to_le_bytes())?;
        memory.write(self.at + self.layout.to_do, &1i32.to_le_bytes())?;
        self.ask(memory)?;
        Ok(written)
    }

    fn check_free(&self, memory: &dyn Memory) -> Result<(), Obstacle> {
        let free = match self.layout.lock {
            Lock::Semaphore(lock) => memory.int(memory.word(self.at + lock)?)? == 1,
            Lock::Byte(lock) => {
                let mut byte = [0];
                memory.read(self.at + lock, &mut byte)?;
                byte == [0]
            }
        };
        if !free {
            return Err(Obstacle::Busy("the lock of the pending calls is held"));
        }
        match self.layout.busy {
            Some(busy) if memory.int(self.at + busy)? != 0 => {
                Err(Obstacle::Busy("pending calls are being made"))
            }
            _ => Ok(()),
        }
    }

    /// A call of ours that was withdrawn waits there still: it gets the new text.
    fn revive(
        &self,
        memory: &dyn Memory,
        first: i32,
        last: i32,
        text: &str,
    ) -> Result<Written, Obstacle> {
        let cell = self.cell(first);
        let (function, at) = (memory.word(cell)?, memory.word(cell + 8)?);
        let one = (first + 1) % self.layout.cells as i32 == last;
        let ours = function == self.interpreter.run_string
            && self.room(first, text.len() as u64 + 1) == Some(at);
        let mut begin = [1];
        if !one || !ours || memory.read(at, &mut begin).is_err() || begin != [0] {
            return Err(Obstacle::Busy("other pending calls wait"));
        }
        // From its end: until the first byte is there, it is an empty text.
        self.write_text(memory, at, text)?;
        self.ask(memory)?;
        Ok(Written { text: at, cell })
    }

    /// The place for `bytes`: whole cells that the program's own calls reach last. The same for
    /// every text, so that one can replace another.
    fn room(&self, last: i32, bytes: u64) -> Option<u64> {
        let size = self.layout.cell_bytes;
        let needed = TEXT_BYTES.div_ceil(size);
        let (before, cells) = (u64::from(last.unsigned_abs()), u64::from(self.layout.cells));
        let end = if before >= needed { before } else { cells };
        (bytes <= TEXT_BYTES).then(|| self.at + self.layout.calls + size * (end - needed))
    }

    fn write_text(&self, memory: &dyn Memory, at: u64, text: &str) -> io::Result<()> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        memory.write(at + 1, &bytes[1..])?;
        memory.write(at, &bytes[..1])
    }

    /// Makes the interpreter look for pending calls. Only while the process is stopped.
    fn ask(&self, memory: &dyn Memory) -> io::Result<()> {
        match self.layout.breaker {
            Breaker::Flag(_) => memory.write(self.breaker, &1i32.to_le_bytes()),
            Breaker::Bit { mask, .. } => {
                let word = memory.word(self.breaker)? | mask;
                memory.write(self.breaker, &word.to_le_bytes())
            }
        }
    }

    /// Whether the call waits still.
    fn waits(&self, memory: &dyn Memory, written: Written) -> io::Result<bool> {
        let (first, last) = self.ends(memory)?;
        let cells = self.layout.cells as i32;
        let index = |i: &i32| self.cell(*i) == written.cell;
        let waiting = (first..first + cells).map(|i| i % cells).take_while(|i| *i != last);
        Ok(waiting.into_iter().any(|i| index(&i)))
    }

    /// Asks once more, without stopping the process: a thread that was stopped between reading the
    /// flags and storing their sum has stored a 0 behind our 1. Up to 3.12, where the flag is a
    /// word of its own and a 1 that nobody needs costs one check.
    pub fn remind(&self, memory: &dyn Memory, written: Written) -> io::Result<()> {
        match self.layout.breaker {
            Breaker::Flag(_) if self.waits(memory, written)? && memory.int(self.breaker)? == 0 => {
                memory.write(self.breaker, &1i32.to_le_bytes())
            }
            _ => Ok(()),
        }
    }

    /// Makes the text empty, so that the call does nothing. Needs no stop: one byte.
    pub fn withdraw(&self, memory: &dyn Memory, written: Written) -> io::Result<()> {
        match self.waits(memory, written)? {
            true => memory.write(written.text, &[0]),
            false => Ok(()),
        }
    }
}

/// Room for a text, its NUL included: the same number of cells for every text.
pub const TEXT_BYTES: u64 = 240;

fn unexpected(thing: &str, found: &str, wanted: &str) -> Refusal {
    let remedy =
        "nothing was changed; this build of CPython may differ from the known ones: start \
                  the service with `dashcam run`";
    refused(thing, found, wanted, remedy)
}

// Behind a cell in the first half there is room enough in the second, and the other way round.
const _: () = assert!(32 / 2 > TEXT_BYTES.div_ceil(16));

#[cfg(test)]
mod tests;
