//! Stacks of threads that run native code (Rust, C, C++), read from outside.
//!
//! How it works: the kernel gives a blocked thread's stack pointer and instruction pointer
//! (`sys::task::TaskCall`). The innermost 16 KiB of its stack are copied by guarded reads. Of a
//! running thread the kernel copies registers and these bytes itself (`sys::perf::Watch`).
//! Kept are the words that point behind a call instruction in an executable mapping of a file:
//! return addresses, and some that were return addresses before; and beside them what may be saved
//! frame pointers. Which words are real is decided where the capture is read, by the files' unwind
//! tables: none of that runs in the host.
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | stack memory | `Frame`: site, gap, innermost first | words of 8 bytes | x86-64 |
//! | bytes in front of an address, once each | sites: file, offset in the file | bytes | x86-64 |
//! | registers behind a signal handler's frame | `Frame`s interrupted | | Linux, x86-64 |
//! | /proc/self/maps, at most once a second | files by address | | any |
//! | ELF header and notes, once a file | build id | | 64-bit ELF |
//!
//! What it promises: reads that cannot fault; at most `MOST_FRAMES` words of a stack, `MOST_SITES`
//! addresses (those of running threads' instruction pointers are not kept). A running thread's
//! stack is of one moment. What it does not promise: that every frame is a caller; that a blocked
//! thread is still where it was when the kernel reported its pointers (if it woke since, the first
//! frame is right and the rest may be of another moment).
//!
//! What is missing on purpose: code outside of files (JIT, vdso), other architectures.

mod call;
pub(crate) mod maps;
pub(crate) mod module;
pub(crate) mod owner;
mod signal;
mod variables;
mod word;

use std::collections::HashMap;
use sys::mem::Reader;
use sys::own_stack::Registers;
use sys::perf::Seen;

use call::{ends_in_call, BEFORE};
use maps::Maps;
use signal::Restorers;
use word::{up, word_at, Word};

/// Most frames of a stack, the innermost ones.
pub const MOST_FRAMES: usize = 96;
/// Bytes of a stack that are read.
const WINDOW: usize = 16 << 10;
/// A stack is copied in parts of this size, so that its end needs not be known.
const READ_BYTES: usize = 512;
/// The list of mappings is read at most this often when the innermost address is unknown...
const REFRESH_NS: u64 = 1_000_000_000;
/// ... and this often in any case.
const RENEW_NS: u64 = 30_000_000_000;
/// If a stack had no new frames, as when a library was loaded since, the list is read again after
/// this many times as long as reading takes: twice as many each time that nothing was new. Programs
/// load most libraries early.
const DOUBT: std::ops::RangeInclusive<u64> = 100..=2_000;
/// Addresses whose meaning is remembered, code or not; beyond these they are checked again each
/// time.
const MOST_ADDRESSES: usize = 32 * 1024;
/// Distinct sites for the life of the reader.
pub const MOST_SITES: usize = 24 * 1024;

/// One word of a stack that may be a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Index of its site; `NO_SITE` when it lies in no file (the innermost frame only);
    /// `FRAME_POINTER`.
    pub site: u32,
    /// Words from this one to the next of the stack (0: it is the last). The innermost frame, the
    /// instruction pointer, counts as the word below the stack pointer.
    pub gap: u32,
    /// Words from this one to where a frame pointer points: the one saved in this word
    /// (`FRAME_POINTER`) or in the word before it, where functions save their caller's. 0: none.
    pub link: u32,
    /// It is the instruction that a signal interrupted, saved behind the handler's frame; its link
    /// is of the stack pointer at that time. Not a return address.
    pub interrupted: bool,
}

/// Stands for an address outside of files.
pub const NO_SITE: u32 = u32::MAX;
/// Stands for a word that points further up the stack: registers are saved away from return
/// addresses too, the frame pointer among them.
pub const FRAME_POINTER: u32 = u32::MAX - 1;
/// Words from the stack pointer on that are checked for such words, and how many are kept.
const POINTER_WORDS: usize = 64;
const MOST_POINTERS: usize = 16;
/// Further up, a word is kept as such only if it points right below an address of code, as the
/// frame pointer of a function that has one does; this many at most.
const MOST_FAR_POINTERS: usize = 16;

/// An address in a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Index of the file's text.
    file: u32,
    /// Bytes from the begin of the file.
    pub offset: u64,
}

/// The reader. One per process and sampling thread; make a new one after a fork.
pub struct NativeStacks {
    maps: Maps,
    /// Texts by index in `maps.files`, for files that were needed.
    files: HashMap<usize, u32>,
    /// The size of files in memory, by index in `maps.files`, for files that were needed.
    extents: HashMap<usize, u64>,
    /// `path TAB tag` of every file met.
    texts: Vec<String>,
    read_ns: u64,
    took_ns: u64,
    /// After how many times the reading time a doubted list is read again.
    doubt: u64,
    /// A stack had nothing new since.
    doubted: bool,
    /// The result for an address: a site, or None: no call is in front of it.
    known: HashMap<u64, Option<u32>>,
    restorers: Restorers,
    sites: Vec<Site>,
    ids: HashMap<Site, u32>,
    most_sites: usize,
    bytes: Vec<u8>,
    words: Vec<Word>,
}

/// The result of reading a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Outer frames are missing, beyond the limits.
    pub truncated: bool,
    /// Sites that were refused because there are `MOST_SITES` already.
    pub refused: u64,
}

impl NativeStacks {
    /// None on an architecture whose stacks are not understood. `most_sites` is lowered to
    /// `MOST_SITES`.
    pub fn new(most_sites: usize) -> Option<NativeStacks> {
        cfg!(all(target_arch = "x86_64", target_pointer_width = "64")).then(|| NativeStacks {
            maps: Maps::default(),
            files: HashMap::new(),
            extents: HashMap::new(),
            texts: Vec::new(),
            read_ns: 0,
            took_ns: 0,
            doubt: *DOUBT.start(),
            doubted: false,
            known: HashMap::new(),
            restorers: Restorers::default(),
            sites: Vec::new(),
            ids: HashMap::new(),
            most_sites: most_sites.min(MOST_SITES),
            bytes: Vec::new(),
            words: Vec::new(),
        })
    }

    /// A site's file, as `path TAB tag` (see `module::tag`), and its offset in it.
    pub fn site(&self, site: u32) -> Option<(&str, u64)> {
        let site = self.sites.get(site as usize)?;
        Some((self.texts.get(site.file as usize)?, site.offset))
    }

    /// Puts the stack of a blocked thread into `out`, innermost first. Cost: 5-15 us once its
    /// addresses are known, less for a shallow stack. Never fails: with nothing readable there is
    /// the innermost frame alone.
    pub fn read(
        &mut self,
        mem: &Reader,
        (sp, pc): (u64, u64),
        now_ns: u64,
        out: &mut Vec<Frame>,
    ) -> Outcome {
        out.clear();
        self.refresh(pc, now_ns);
        let mut outcome = Outcome { truncated: false, refused: 0 };
        let full = self.copy(mem, sp);
        let begin = (sp % READ_BYTES as u64) as usize;
        self.pick(sp, begin);
        let site = self.site_of(mem, pc, &mut outcome);
        out.push(Frame { site: site.unwrap_or(NO_SITE), gap: 0, link: 0, interrupted: false });
        self.keep(mem, (sp, begin, full), &mut outcome, out);
        outcome
    }

    /// Puts the stack of a thread that was running into `out`, innermost first, from a copy of its
    /// innermost bytes that begins at `seen.sp`. The first frame has no site: `place` gives the
    /// instruction pointer's file and offset; its link is the frame pointer's. Cost: 5-10 us once
    /// its addresses are known. Never fails.
    pub fn read_running(
        &mut self,
        mem: &Reader,
        seen: &Seen,
        stack: &[u8],
        out: &mut Vec<Frame>,
    ) -> Outcome {
        out.clear();
        self.refresh(seen.pc, seen.t_ns);
        let mut outcome = Outcome { truncated: false, refused: 0 };
        self.bytes.clear();
        if seen.sp % 8 == 0 {
            self.bytes.extend_from_slice(&stack[..stack.len().min(WINDOW)]);
        }
        self.pick(seen.sp, 0);
        let distance = seen.fp.wrapping_sub(seen.sp);
        let inside = distance < self.bytes.len() as u64 && distance % 8 == 0;
        // The instruction pointer counts as the word below the stack pointer.
        let link = if inside { distance as u32 / 8 + 1 } else { 0 };
        out.push(Frame { site: NO_SITE, gap: 0, link, interrupted: false });
        self.keep(mem, (seen.sp, 0, seen.is_cut), &mut outcome, out);
        outcome
    }

    /// The same of a stack that a thread copied itself (`native_tasks`), where the innermost frame
    /// is kept as a site.
    pub fn read_copied(
        &mut self,
        mem: &Reader,
        (at, now_ns): (Registers, u64),
        stack: &[u8],
        out: &mut Vec<Frame>,
    ) -> Outcome {
        let is_cut = stack.len() >= WINDOW;
        let seen = Seen { t_ns: now_ns, pc: at.pc, sp: at.sp, fp: at.fp, is_cut };
        let mut outcome = self.read_running(mem, &seen, stack, out);
        let site = self.site_of(mem, at.pc, &mut outcome);
        if let (Some(innermost), Some(site)) = (out.first_mut(), site) {
            innermost.site = site;
        }
        outcome
    }

    /// Index of the file that an address of code lies in, for `text`, and where in it. None: in no
    /// file, as far as the mappings were read.
    pub fn place(&mut self, mem: &Reader, address: u64) -> Option<(u32, u64)> {
        let range = self.maps.find(address)?;
        let file = match self.files.get(&range.file) {
            Some(file) => *file,
            None => self.name_file(mem, range.file),
        };
        Some((file, address - range.start + range.offset))
    }

    /// A file as `path TAB tag`, see `module::tag`.
    pub fn text(&self, file: u32) -> Option<&str> {
        self.texts.get(file as usize).map(String::as_str)
    }

    /// Whether an address lies in the program or library of a Python interpreter. Reads the
    /// mappings anew, as for a stack, when the address is not known.
    pub fn in_interpreter(&mut self, address: u64, now_ns: u64) -> bool {
        self.refresh(address, now_ns);
        let file = self.maps.find(address).map(|range| &self.maps.files[range.file]);
        file.is_some_and(|file| owner::is_interpreter(&file.path))
    }

    /// Whether a stack may have frames that are neither an interpreter's nor the C library's: only
    /// then it adds something to the Python stack around it. If not, its addresses may be of a
    /// library that was loaded since the list of mappings was read, so the list is read again soon.
    pub fn has_more(&mut self, mem: &Reader, pc: u64, frames: &[Frame]) -> bool {
        let innermost = self.place(mem, pc).map(|(file, _)| file);
        let sites = frames.iter().filter_map(|frame| self.sites.get(frame.site as usize));
        let mut files = innermost.into_iter().chain(sites.map(|site| site.file));
        let library =
            |file: u32| self.texts.get(file as usize).is_some_and(|t| owner::is_library(t));
        let more = files.any(library);
        self.doubted |= !more;
        more
    }

    /// Whether a return address of a stack lies in a Python interpreter.
    pub fn pass_interpreter(&self, frames: &[Frame]) -> bool {
        let mut sites = frames.iter().filter_map(|frame| self.sites.get(frame.site as usize));
        let path = |file: u32| self.texts.get(file as usize).and_then(|t| t.split('\t').next());
        sites.any(|site| path(site.file).is_some_and(owner::is_interpreter))
    }

    /// Appends the words that `pick` found and that point behind calls to `out`, and the code that
    /// signals interrupted. `begin`: where in the copy the stack pointer points; `full`: the stack
    /// goes on.
    fn keep(
        &mut self,
        mem: &Reader,
        (sp, begin, full): (u64, usize, bool),
        outcome: &mut Outcome,
        out: &mut Vec<Frame>,
    ) {
        self.verify(mem);
        // If the stack was gone, nothing was copied.
        let copied = self.bytes.get(begin..).unwrap_or_default();
        self.restorers.add_interrupted(&self.maps, sp, copied, &mut self.words);
        let mut last = -1i64;
        for i in 0..self.words.len() {
            let Word { position, address, link, pointer, interrupted } = self.words[i];
            if !pointer && !interrupted && self.known.get(&address) == Some(&None) {
                continue;
            }
            if out.len() == MOST_FRAMES {
                outcome.truncated = true;
                return;
            }
            let site = match self.known.get(&address) {
                _ if pointer => FRAME_POINTER,
                _ if interrupted => {
                    let Some(site) = self.interrupted_site(mem, address, outcome) else { continue };
                    site
                }
                Some(Some(site)) => *site,
                _ => {
                    let Some(site) = self.site_of(mem, address, outcome) else { continue };
                    self.known.insert(address, Some(site));
                    site
                }
            };
            if let Some(inner) = out.last_mut() {
                inner.gap = (i64::from(position) - last) as u32;
            }
            last = i64::from(position);
            out.push(Frame { site, gap: 0, link, interrupted });
        }
        outcome.truncated = full;
    }

    /// The site of an interrupted instruction: it may be any in the program, so only a bounded
    /// number of them get a site for good.
    fn interrupted_site(
        &mut self,
        mem: &Reader,
        address: u64,
        outcome: &mut Outcome,
    ) -> Option<u32> {
        let before = self.sites.len();
        if self.restorers.is_full() && !self.has_site(mem, address) {
            outcome.refused += 1;
            return None;
        }
        let site = self.site_of(mem, address, outcome);
        self.restorers.count((self.sites.len() - before) as u32);
        site
    }

    fn has_site(&mut self, mem: &Reader, address: u64) -> bool {
        let site = self.place(mem, address).map(|(file, offset)| Site { file, offset });
        site.is_some_and(|site| self.ids.contains_key(&site))
    }

    /// Puts the words of the copied stack that may matter into `words`; `begin`: where in the copy
    /// the stack pointer points.
    fn pick(&mut self, sp: u64, begin: usize) {
        self.words.clear();
        let copied = self.bytes.get(begin..).unwrap_or_default();
        let up = |value: u64, from: usize| up(sp, copied, value, from);
        let word_at = |index: usize| word_at(copied, index);
        let (mut before, mut pointers, mut far_pointers) = (0, 0, 0);
        for index in 0..copied.len() / 8 {
            let address = word_at(index);
            let position = index as u32;
            if self.maps.find(address).is_some() {
                let link = up(before, index);
                self.words.push(Word::code(position, address, link));
            } else {
                let link = up(address, index);
                let near = index < POINTER_WORDS && pointers < MOST_POINTERS;
                let frames = || self.maps.find(word_at(index + link as usize + 1)).is_some();
                if link > 0 && (near || far_pointers < MOST_FAR_POINTERS && frames()) {
                    match near {
                        true => pointers += 1,
                        false => far_pointers += 1,
                    }
                    self.words.push(Word { pointer: true, ..Word::code(position, address, link) });
                }
            }
            before = address;
        }
    }

    /// Copies the stack from the part that contains `sp` on; true when it may go on behind.
    fn copy(&mut self, mem: &Reader, sp: u64) -> bool {
        self.bytes.resize(WINDOW, 0);
        let first = (sp - sp % READ_BYTES as u64) as usize;
        let mut places = [0usize; WINDOW / READ_BYTES];
        for (i, place) in places.iter_mut().enumerate() {
            *place = first.saturating_add(i * READ_BYTES);
        }
        let read = match sp % 8 {
            0 => mem.read_many(&places, READ_BYTES, &mut self.bytes),
            // Compiled code has no such stack pointer.
            _ => 0,
        };
        self.bytes.truncate(read * READ_BYTES);
        read == places.len()
    }

    fn refresh(&mut self, pc: u64, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.read_ns);
        let known = self.maps.find(pc).is_some();
        let doubted = self.doubted && age_ns >= self.took_ns.saturating_mul(self.doubt);
        let due = self.read_ns == 0 || age_ns >= RENEW_NS;
        if !due && (age_ns < REFRESH_NS || known && !doubted) {
            return;
        }
        (self.read_ns, self.doubted) = (now_ns.max(1), false);
        let began_ns = sys::clock::now_ns();
        let read = Maps::read();
        self.took_ns = sys::clock::now_ns().saturating_sub(began_ns);
        let Ok(maps) = read else { return };
        if maps == self.maps {
            self.doubt = (self.doubt * 2).min(*DOUBT.end());
            return;
        }
        self.doubt = *DOUBT.start();
        if !self.maps.still_hold_in(&maps) {
            self.known.clear();
            self.restorers.forget();
        }
        // Files have new numbers; texts stay, since sites refer to them.
        self.files.clear();
        self.extents.clear();
        self.maps = maps;
    }

    /// Checks which of `words` point behind a call; all that are not known yet are read at once.
    fn verify(&mut self, mem: &Reader) {
        if self.known.len() >= MOST_ADDRESSES {
            self.known.clear();
        }
        let code = self.words.iter().filter(|word| !word.pointer).map(|word| word.address);
        let mut new: Vec<u64> = code.filter(|address| !self.known.contains_key(address)).collect();
        new.sort_unstable();
        new.dedup();
        for chunk in new.chunks(MOST_FRAMES) {
            let mut fronts = [0usize; MOST_FRAMES];
            for (front, address) in fronts.iter_mut().zip(chunk) {
                *front = (*address as usize).saturating_sub(BEFORE);
            }
            let mut code = [0u8; MOST_FRAMES * BEFORE];
            let read = mem.read_many(&fronts[..chunk.len()], BEFORE, &mut code);
            for (i, (address, code)) in chunk.iter().zip(code.chunks_exact(BEFORE)).enumerate() {
                let calls = code.try_into().is_ok_and(ends_in_call);
                if i >= read || !calls && !self.restorers.learn(mem, *address) {
                    self.known.insert(*address, None);
                }
            }
        }
    }

    /// The site of an address; None outside of files, or when there are too many sites.
    fn site_of(&mut self, mem: &Reader, address: u64, outcome: &mut Outcome) -> Option<u32> {
        let (file, offset) = self.place(mem, address)?;
        let site = Site { file, offset };
        let id = match self.ids.get(&site) {
            Some(id) => *id,
            None if self.sites.len() >= self.most_sites => {
                outcome.refused += 1;
                return None;
            }
            None => {
                self.sites.push(site);
                self.ids.insert(site, self.sites.len() as u32 - 1);
                self.sites.len() as u32 - 1
            }
        };
        Some(id)
    }

    fn name_file(&mut self, mem: &Reader, file: usize) -> u32 {
        let mapped = &self.maps.files[file];
        let text = format!("{}\t{}", mapped.path, module::tag(mem, mapped));
        let index = self.texts.iter().position(|t| *t == text).unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        self.files.insert(file, index as u32);
        index as u32
    }
}
