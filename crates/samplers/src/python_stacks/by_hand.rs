//! A reader of memory that a test lays out by hand.
//!
//! How it works: a runtime with one interpreter, its GIL and no thread; types and objects are
//! vectors of words whose addresses are handed out. What it promises: enough for `PythonStacks` to
//! exist. What is missing on purpose: threads; a test lays out what it reads.

use crate::python_stacks::frames::walker::Walker;
use crate::python_stacks::layout::Layout;
use crate::python_stacks::objects::sorts::TYPE_NAME;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::threads::Threads;
use crate::python_stacks::types::{RuntimeInfo, Subject, TypeAddresses};
use sys::mem::Reader;

/// A reader, and the memory that it reads.
pub(crate) struct ByHand {
    pub stacks: PythonStacks,
    words: Vec<Vec<usize>>,
}

impl ByHand {
    pub fn new(version_hex: u32) -> ByHand {
        let layout = Layout::of(version_hex).expect("a known version");
        let mem = Reader::new().expect("a process may read itself");
        let mut words = vec![vec![5000, 0, 0, 0, 0], vec![0; 1024], vec![0; 256]];
        let (gil, interpreter) = (at(&words[0]), at(&words[1]));
        words[1][layout.interpreter_gil / 8] = gil;
        words[2][layout.runtime_interpreters / 8] = interpreter;
        words[2][layout.runtime_main / 8] = interpreter;
        let [code, lock, rlock, builtin_method] = [8, 16, 24, 32];
        let types = TypeAddresses { code, lock, rlock, builtin_method };
        let info = RuntimeInfo { version_hex, runtime: at(&words[2]), types };
        let threads =
            Threads::new(&mem, &layout, info.runtime, &Subject::Own).expect("the runtime above");
        let walker = Walker::new().expect("address space");
        let stacks = PythonStacks::with(&info, mem, layout, threads, walker);
        ByHand { stacks, words }
    }

    /// Memory with these words.
    pub fn words(&mut self, words: &[usize]) -> usize {
        self.words.push(words.to_vec());
        self.words.last().map_or(0, |words| at(words))
    }

    /// A static type; the name ends in a zero.
    pub fn kind(&mut self, name: &'static [u8]) -> usize {
        let mut words = [0; 40];
        words[TYPE_NAME / 8] = name.as_ptr() as usize;
        self.words(&words)
    }

    /// An object with these words behind its head.
    pub fn object(&mut self, kind: usize, body: &[usize]) -> usize {
        self.words(&[&[1, kind], body].concat())
    }

    /// Changes a word.
    pub fn put(&mut self, address: usize, word: usize) {
        let inside =
            |words: &&mut Vec<usize>| (at(words)..at(words) + words.len() * 8).contains(&address);
        let words = self.words.iter_mut().find(inside).expect("memory of this test");
        let index = (address - at(words)) / 8;
        words[index] = word;
    }
}

fn at(words: &[usize]) -> usize {
    words.as_ptr() as usize
}
