//! Code that a signal interrupted: the handler's return address leads to no caller.
//!
//! How it works: the kernel builds a frame on the interrupted thread's stack and lets the handler
//! return to a few instructions that only ask the kernel to remove that frame, the *restorer*.
//! There is no call in front of them, so the restorer is recognised by its code. Right behind that
//! return address are the registers of the interrupted code:
//!
//! ```text
//!  word  0        1              6..          16    21    22          (of 8 bytes, upwards)
//!        restorer | ucontext ... | r8 r9 ...  rbp | rsp | rip | ...
//! ```
//! (`struct rt_sigframe`, `struct sigcontext` of Linux on x86-64.) The instruction pointer there is
//! kept as a word of the stack, with the stack pointer as its link, and so is the frame pointer.
//!
//! What it promises: a frame is taken for one only if the restorer's code was read. What it does
//! not: of code interrupted on another stack (`sigaltstack`) only the innermost function is known.

use format::region::code_flag::{SIGNAL_FP, SIGNAL_PC};
use sys::mem::Reader;

use super::maps::Maps;
use super::word::{up, word_at, Word};

/// mov $15, %rax; syscall: `rt_sigreturn`, as the C libraries and Go have it; some move to %eax
/// only.
const CODES: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];
const MOST_CODE: usize = 9;
/// Interrupted instructions that get a site for good.
const MOST_SITES: u32 = 2048;

/// The restorers found, and the bound of the sites they lead to.
#[derive(Default)]
pub(super) struct Restorers {
    /// A process has one or two.
    known: Vec<u64>,
    sites: u32,
}

impl Restorers {
    /// Whether the code at `address`, which has no call in front, is a restorer. Cost: a read.
    pub(super) fn learn(&mut self, mem: &Reader, address: u64) -> bool {
        let mut code = [0u8; MOST_CODE];
        let read = mem.read(address as usize, &mut code).is_ok();
        let found = read && CODES.iter().any(|known| code.starts_with(known));
        if found && !self.known.contains(&address) {
            self.known.push(address);
        }
        found
    }

    /// Other code may be there now.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Whether interrupted instructions have all the sites they may have.
    pub(super) fn is_full(&self) -> bool {
        self.sites >= MOST_SITES
    }

    /// `sites` more of them have one.
    pub(super) fn count(&mut self, sites: u32) {
        self.sites += sites;
    }

    /// Adds the interrupted code to `words`, which are of the stack at `sp`, copied in `copied`.
    pub(super) fn add_interrupted(
        &self,
        maps: &Maps,
        sp: u64,
        copied: &[u8],
        words: &mut Vec<Word>,
    ) {
        if self.known.is_empty() {
            return;
        }
        let code = |w: &&Word| !w.pointer && self.known.contains(&w.address);
        let frames: Vec<u32> = words.iter().filter(code).map(|w| w.position).collect();
        for frame in frames {
            let (fp_at, at) = (frame + SIGNAL_FP, frame + SIGNAL_PC);
            let value = |position: u32| word_at(copied, position as usize);
            if maps.find(value(at)).is_none() {
                continue;
            }
            words.retain(|w| w.position != fp_at && w.position != at);
            let link = |position: u32, from: u32| up(sp, copied, value(position), from as usize);
            let interrupted = Word::code(at, value(at), link(at - 1, at));
            words.push(Word { interrupted: true, ..interrupted });
            let fp = Word::code(fp_at, value(fp_at), link(fp_at, fp_at));
            if fp.link > 0 {
                words.push(Word { pointer: true, ..fp });
            }
            words.sort_by_key(|w| w.position);
        }
    }
}
