//! CPython 3.14 and later: the words of `sys.remote_exec`, written from outside.
//!
//! How it works: as PEP 768 has it. Each thread's state has room for the path of a script and a
//! flag that asks for it; a bit of its eval breaker makes the thread see the flag at its next safe
//! point. Where these words lie is read from the process (`_Py_DebugOffsets`); only the positions
//! in that table are known here, one row a minor version.
//!
//! ```text
//!   path > flag > bit of the eval breaker, in every thread of the main interpreter
//! ```
//!
//! Unlike `sys.remote_exec` this writes while the process is stopped: threads do not end under the
//! writer, and no other bit of an eval breaker is lost. All threads get it, since a thread that is
//! blocked would not see it: the script runs in whichever comes first, once (`script`).
//!
//! What it promises: nothing is written when the process forbids it (`-X disable-remote-debug`), or
//! a word is not as expected. `withdraw` takes the flags back. What is missing on purpose:
//! sub-interpreters; minor versions whose table is not known.

use std::io;

use crate::interpreter::{Interpreter, SUPPORTED};
use crate::memory::Memory;
use crate::refusal::{refused, Refusal};

/// Longest list of threads that is followed.
const MAX_THREADS: usize = 100_000;
/// `_PY_EVAL_PLEASE_STOP_BIT`.
const PLEASE_STOP: u64 = 1 << 5;
/// What a published offset may be at most: no structure is as large.
const MAX_OFFSET: u64 = 1 << 24;

/// Positions in the table of offsets, in words.
struct Positions {
    main_interpreter_is_behind_head: usize,
    threads_head: usize,
    thread_next: usize,
    thread_interpreter: usize,
    eval_breaker: usize,
    support: usize,
    enabled: usize,
    pending: usize,
    path: usize,
    path_size: usize,
}

const V3_14: Positions = Positions {
    main_interpreter_is_behind_head: 5,
    threads_head: 9,
    thread_next: 24,
    thread_interpreter: 25,
    eval_breaker: 89,
    support: 90,
    enabled: 91,
    pending: 92,
    path: 93,
    path_size: 94,
};

const V3_15: Positions = Positions {
    eval_breaker: 105,
    support: 106,
    enabled: 107,
    pending: 108,
    path: 109,
    path_size: 110,
    ..V3_14
};

/// The words of a live interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    main: u64,
    first_thread: u64,
    thread_next: u64,
    thread_interpreter: u64,
    eval_breaker: u64,
    pending: u64,
    path: u64,
    path_size: u64,
}

impl Remote {
    /// Finds them, and checks that they may be written. Reads only.
    pub fn find(memory: &dyn Memory, interpreter: Interpreter) -> Result<Remote, Refusal> {
        let positions = match interpreter.minor {
            14 => V3_14,
            15 => V3_15,
            _ => {
                let found = interpreter.version();
                return Err(refused("version", found, SUPPORTED, "nothing was changed"));
            }
        };
        Remote::locate(memory, interpreter.runtime, &positions)
            .map_err(|error| unexpected("interpreter", &error.to_string(), "readable"))?
    }

    fn locate(
        memory: &dyn Memory,
        runtime: u64,
        at: &Positions,
    ) -> io::Result<Result<Remote, Refusal>> {
        let word = |position: usize| memory.word(runtime + 8 * position as u64);
        let positions = [
            at.main_interpreter_is_behind_head,
            at.threads_head,
            at.thread_next,
            at.thread_interpreter,
            at.eval_breaker,
            at.support,
            at.enabled,
            at.pending,
            at.path,
        ];
        for position in positions {
            let offset = word(position)?;
            if offset > MAX_OFFSET {
                let found = format!("{offset} in word {position}");
                return Ok(Err(unexpected("table of offsets", &found, "offsets")));
            }
        }
        // The main interpreter's address lies behind that of the first one.
        let main = memory.word(runtime + word(at.main_interpreter_is_behind_head)? + 8)?;
        let support = word(at.support)?;
        let remote = Remote {
            main,
            first_thread: main + word(at.threads_head)?,
            thread_next: word(at.thread_next)?,
            thread_interpreter: word(at.thread_interpreter)?,
            eval_breaker: word(at.eval_breaker)?,
            pending: support + word(at.pending)?,
            path: support + word(at.path)?,
            path_size: word(at.path_size)?,
        };
        if !(64..=4096).contains(&remote.path_size) {
            let found = remote.path_size.to_string();
            return Ok(Err(unexpected("room for a script's path", &found, "64 to 4096 bytes")));
        }
        Ok(match memory.int(main + word(at.enabled)?)? {
            1 => remote.threads(memory)?.map(|_| remote),
            0 => Err(refused(
                "remote debugging",
                "turned off (-X disable-remote-debug, PYTHON_DISABLE_REMOTE_DEBUG or the build)",
                "on",
                "nothing was changed; start the service without it, or with `dashcam run`",
            )),
            other => Err(unexpected("switch of remote debugging", &other.to_string(), "0 or 1")),
        })
    }

    /// The states of the main interpreter's threads.
    fn threads(&self, memory: &dyn Memory) -> io::Result<Result<Vec<u64>, Refusal>> {
        let mut found = Vec::new();
        let mut thread = memory.word(self.first_thread)?;
        while thread != 0 && found.len() < MAX_THREADS {
            let mine = memory.word(thread + self.thread_interpreter)? == self.main;
            if !mine || !(0..=1).contains(&memory.int(thread + self.pending)?) {
                let found = "other words than expected";
                return Ok(Err(unexpected(
                    "a thread's state",
                    found,
                    "a flag and its interpreter",
                )));
            }
            found.push(thread);
            thread = memory.word(thread + self.thread_next)?;
        }
        match found.is_empty() {
            true => Ok(Err(unexpected("list of threads", "none", "one"))),
            false => Ok(Ok(found)),
        }
    }

    /// Asks every thread to run the script at `path`. Only while the process is stopped.
    pub fn write(&self, memory: &dyn Memory, path: &str) -> Result<(), Refusal> {
        if path.len() as u64 >= self.path_size {
            let found = format!("{} bytes", path.len());
            return Err(unexpected("path of the script", &found, "a shorter one"));
        }
        self.write_all(memory, path)
            .map_err(|error| unexpected("a thread's state", &error.to_string(), "writable"))?
    }

    fn write_all(&self, memory: &dyn Memory, path: &str) -> io::Result<Result<(), Refusal>> {
        let threads = match self.threads(memory)? {
            Ok(threads) => threads,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for thread in &threads {
            if memory.int(thread + self.pending)? != 0 {
                let found = "a script of another tool that was not run yet";
                let remedy = "wait until its thread runs Python code, and try again";
                return Ok(Err(refused("remote debugging", found, "none", remedy)));
            }
        }
        let mut bytes = path.as_bytes().to_vec();
        bytes.push(0);
        for thread in threads {
            memory.write(thread + self.path, &bytes)?;
            memory.write(thread + self.pending, &1i32.to_le_bytes())?;
            let breaker = memory.word(thread + self.eval_breaker)? | PLEASE_STOP;
            memory.write(thread + self.eval_breaker, &breaker.to_le_bytes())?;
        }
        Ok(Ok(()))
    }

    /// Takes the request back where it was not seen yet. Only while the process is stopped.
    pub fn withdraw(&self, memory: &dyn Memory, path: &str) -> io::Result<()> {
        let mut bytes = path.as_bytes().to_vec();
        bytes.push(0);
        let Ok(threads) = self.threads(memory)? else { return Ok(()) };
        for thread in threads {
            let mut there = vec![0; bytes.len()];
            memory.read(thread + self.path, &mut there)?;
            if there == bytes && memory.int(thread + self.pending)? == 1 {
                memory.write(thread + self.pending, &0i32.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

fn unexpected(thing: &str, found: &str, wanted: &str) -> Refusal {
    let remedy =
        "nothing was changed; this build of CPython may differ from the known ones: start \
                  the service with `dashcam run`";
    refused(thing, found, wanted, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Laid;

    const RUNTIME: u64 = 0x1000;
    const MAIN: u64 = 0x2000;
    const THREADS: [u64; 2] = [0x3000, 0x4000];
    const PATH: &str = "/tmp/dashcam-attach-1/script.py";

    /// An interpreter with two threads, whose offsets are unlike any real one's.
    fn laid(enabled: i32) -> (Laid, Interpreter) {
        let memory = Laid::new(RUNTIME, 0x5000);
        let table = [
            (5, 0x300),
            (9, 0x40),
            (24, 8),
            (25, 0x18),
            (89, 0x20),
            (90, 0x100),
            (91, 0x80),
            (92, 4),
            (93, 8),
            (94, 512),
        ];
        table.iter().for_each(|(word, value)| memory.put(RUNTIME + 8 * word, *value));
        memory.put(RUNTIME + 0x308, MAIN);
        memory.put(MAIN + 0x40, THREADS[0]);
        memory.put_int(MAIN + 0x80, enabled);
        memory.put(THREADS[0] + 8, THREADS[1]);
        for thread in THREADS {
            memory.put(thread + 0x18, MAIN);
            memory.put(thread + 0x20, 0x700);
        }
        (memory, Interpreter { runtime: RUNTIME, minor: 14, version_hex: 0, run_string: 0 })
    }

    fn flags(memory: &Laid) -> [i32; 2] {
        THREADS.map(|thread| memory.int(thread + 0x104).expect("laid"))
    }

    #[test]
    fn every_thread_is_asked_and_no_bit_of_its_eval_breaker_is_lost() {
        let (memory, interpreter) = laid(1);
        let remote = Remote::find(&memory, interpreter).expect("as expected");
        assert_eq!(memory.writes(), 0, "finding writes nothing");
        remote.write(&memory, PATH).expect("written");
        assert_eq!(flags(&memory), [1, 1]);
        for thread in THREADS {
            assert_eq!(memory.word(thread + 0x20).expect("laid"), 0x720);
            let mut path = [0; PATH.len() + 1];
            memory.read(thread + 0x108, &mut path).expect("laid");
            assert_eq!(path.strip_suffix(&[0]), Some(PATH.as_bytes()));
        }
    }

    #[test]
    fn what_was_not_seen_is_taken_back_and_anothers_request_is_left_alone() {
        let (memory, interpreter) = laid(1);
        let remote = Remote::find(&memory, interpreter).expect("as expected");
        remote.write(&memory, PATH).expect("written");
        memory.put_int(THREADS[0] + 0x104, 0); // this thread has run it
        remote.withdraw(&memory, "/tmp/other.py").expect("readable");
        assert_eq!(flags(&memory), [0, 1]);
        let again = remote.write(&memory, PATH).expect_err("a script waits");
        assert!(again.to_string().contains("script of another tool"), "{again}");
        remote.withdraw(&memory, PATH).expect("readable");
        assert_eq!(flags(&memory), [0, 0]);
    }

    #[test]
    fn a_process_that_forbids_it_and_strange_tables_are_refused_before_a_write() {
        let (memory, interpreter) = laid(0);
        let refusal = Remote::find(&memory, interpreter).expect_err("turned off");
        assert!(refusal.to_string().contains("-X disable-remote-debug"), "{refusal}");
        let strange: [(u64, u64); 5] = [
            (RUNTIME + 8 * 94, 1 << 40), // room for the path
            (RUNTIME + 8 * 89, 1 << 40), // an offset
            (THREADS[1] + 0x18, 7),      // a thread of another interpreter
            (THREADS[1] + 0x104, 9),     // no flag
            (MAIN + 0x40, 0),            // no thread
        ];
        for (at, value) in strange {
            let (memory, interpreter) = laid(1);
            memory.put(at, value);
            assert!(Remote::find(&memory, interpreter).is_err(), "{at:#x}");
            assert_eq!(memory.writes(), 0);
        }
        let other = Interpreter { minor: 16, ..interpreter };
        assert!(Remote::find(&memory, other).expect_err("unknown").to_string().contains("3.16"));
    }
}
