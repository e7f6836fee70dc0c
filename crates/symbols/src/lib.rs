//! Names for native stacks: turns the addresses in a capture into functions, files and lines.
//!
//! How it works: the host records words that may be return addresses, as offsets in files
//! (`format::region::code_flag::NATIVE`). The reader of the capture opens each file, if it is still
//! the build that ran. The file's unwind tables separate callers from leftovers (`walk`); its debug
//! information or symbols name them (`module`). The named stacks replace the native stacks in the
//! capture's tables, so that all later steps see ordinary frames.
//!
//! Native code called by Python: its frames become the inner part of the Python stack. They are cut
//! at the interpreter's loop. The interpreter's own frames between its loop and a library are left
//! out.
//!
//! A lock in static memory is named by its variable's symbol.
//!
//! What it promises: no file causes a panic, only regular files are opened, memory is bounded. What
//! it does not promise: a frame whose frame pointer is not known is a guess (`walk`); without the
//! binary a frame is `libfoo.so+0x1234`, and leftovers may remain among the frames. Missing on
//! purpose: debug information from servers; architectures other than x86-64.

mod module;
mod prologue;
mod source;
mod text;
mod walk;

use std::collections::{BTreeSet, HashMap};

use capture::read::{Capture, Code, StackNode};
use format::record::TARGET_IS_NAME;
use format::region::code_flag::{GAP_BITS, LINK_BITS, RUNNING};
use format::symbols::{self, Placed, Symbols, OF_TABLE, OWN};

use module::{Line, Module, Step};
use source::Source;
use text::{clean, is_interpreter, is_recorder, is_runtime, is_system};
use walk::{frames, Candidate, Leads};

/// At most this many words of a stack are examined; the host records fewer.
const MOST_WORDS: usize = 256;
/// Prefix of the name of the function that runs Python code.
const INTERPRETER_LOOP: &str = "_PyEval_EvalFrame";
/// Functions of the recorder in which a thread copies its own stack (`sys::waker`, the facade's
/// `watch`), and the ends of their files: with lines alone a function's name is without its module.
const COPIED_IN: [(&str, &str); 3] = [
    ("clone_of_poll", "src/process/waker.rs"),
    ("woken", "src/api/watch.rs"),
    ("wake", "src/api/watch.rs"),
];
/// At most this many binaries are opened.
const MOST_MODULES: usize = 512;

/// Replaces the native stacks of a capture by named ones. Returns notes for the user, a sentence
/// each. Cost: reads the binaries' debug information, if the capture has native stacks.
pub fn name_native(capture: &mut Capture) -> Vec<String> {
    named(capture).notes
}

/// The same; also returns the names for the chunk `SYMS`. With that chunk the capture reads the
/// same where the binaries are missing.
pub fn resolve(capture: &mut Capture) -> (Symbols, Vec<String>) {
    let from = (capture.names.len(), capture.codes.len(), capture.stacks.len());
    let namer = named(capture);
    (namer.symbols(capture, from), namer.notes)
}

fn named(capture: &mut Capture) -> Namer {
    let mut namer = Namer::default();
    namer.name_locks(capture);
    if !capture.codes.iter().any(|code| code.native) {
        return namer;
    }
    let mut samples = std::mem::take(&mut capture.samples);
    // In order, so that ids, and with them the output of exports, are the same each time.
    let mut threads: Vec<_> = samples.iter_mut().collect();
    threads.sort_unstable_by_key(|(tid, _)| **tid);
    let stacks = threads.into_iter().flat_map(|(_, own)| own);
    for sample in stacks.filter(|sample| sample.stack != 0) {
        let stack = namer.renamed(capture, sample.stack);
        if stack != sample.stack {
            namer.samples.push(Placed { tid: sample.tid, t_ns: sample.t_ns, stack });
        }
        sample.stack = stack;
    }
    capture.samples = samples;
    let mut wakers = std::mem::take(&mut capture.waker_stacks);
    let mut stacks: Vec<_> = wakers.iter_mut().collect();
    stacks.sort_unstable_by_key(|(waking, _)| **waking);
    for ((tid, t_ns), stack) in stacks {
        *stack = namer.renamed(capture, *stack);
        namer.wakings.push(Placed { tid: *tid, t_ns: *t_ns, stack: *stack });
    }
    capture.waker_stacks = wakers;
    namer.name_awaits(capture);
    namer
}

#[derive(Default)]
struct Namer {
    binaries: Binaries,
    /// Replaced stacks.
    stacks: HashMap<u32, u32>,
    /// Lines by binary and offset.
    lines: HashMap<(usize, u64), Vec<Line>>,
    names: HashMap<String, u32>,
    codes: HashMap<(u32, u32, bool), u32>,
    nodes: HashMap<(u32, u32, u32), u32>,
    notes: Vec<String>,
    /// Samples and wakings whose stacks were named, and names of locks.
    samples: Vec<Placed>,
    wakings: Vec<Placed>,
    locks: Vec<u32>,
}

#[derive(Default)]
struct Binaries {
    /// By the text that the host recorded.
    by_text: HashMap<String, usize>,
    all: Vec<Binary>,
    /// Sources that were asked for; None: they cannot be read.
    sources: HashMap<String, Option<Source>>,
}

struct Binary {
    path: String,
    module: Option<Module>,
}

impl Namer {
    /// Locks in static memory, which the host recorded as `path TAB tag TAB 0xOFFSET`, get their
    /// variable's name: `CACHE in libfoo.so`; without the binary `libfoo.so+0x4040`.
    fn name_locks(&mut self, capture: &mut Capture) {
        let locks = capture.samples.values().flatten().map(|sample| sample.lock);
        let named = locks.filter(|lock| lock & TARGET_IS_NAME != 0).map(|lock| lock as u32);
        let ids: BTreeSet<u32> = named.collect();
        for id in ids {
            let Some((text, offset)) = capture.name(id).rsplit_once('\t') else { continue };
            let digits = offset.strip_prefix("0x");
            let Some(offset) = digits.and_then(|hex| u64::from_str_radix(hex, 16).ok()) else {
                continue;
            };
            let text = text.to_owned();
            let path = text.split('\t').next().unwrap_or_default();
            let base = path.rsplit('/').next().unwrap_or(path).to_owned();
            let binary =
                self.open(&text).and_then(|index| self.binaries.all[index].module.as_ref());
            let name = match binary.and_then(|binary| binary.variable(offset)) {
                Some(variable) => format!("{} in {base}", clean(&variable)),
                None => format!("{base}+{offset:#x}"),
            };
            if let Some(slot) = capture.names.get_mut(id as usize) {
                *slot = name;
                self.locks.push(id);
            }
        }
    }

    /// The stacks in which native tasks wait, and those of threads that woke them.
    fn name_awaits(&mut self, capture: &mut Capture) {
        let rows = capture.awaits.values().flatten();
        let ids: BTreeSet<u32> = rows.map(|row| row.stack).filter(|stack| *stack != 0).collect();
        let mut named = HashMap::new();
        for id in ids {
            let stack = self.renamed(capture, id);
            if stack != id {
                let t_ns = u64::from(id);
                self.samples.push(Placed { tid: OF_TABLE, t_ns, stack });
                named.insert(id, stack);
            }
        }
        for row in capture.awaits.values_mut().flatten() {
            row.stack = named.get(&row.stack).copied().unwrap_or(row.stack);
        }
        capture.settle_awaits();
    }

    /// The new names, for a capture whose tables had `from` names, codes and stack nodes before.
    fn symbols(&self, capture: &Capture, from: (usize, usize, usize)) -> Symbols {
        let (first_name, first_code, first_node) = (from.0 as u32, from.1 as u32, from.2 as u32);
        let stack = |id: u32| if id > first_node { OWN | (id - first_node - 1) } else { id };
        let placed = |one: &Placed| Placed { stack: stack(one.stack), ..*one };
        let code = |code: &Code| symbols::Code {
            function: code.function - first_name,
            file: code.file - first_name,
            inner: code.inner,
        };
        let node = |node: &StackNode| symbols::Node {
            parent: stack(node.parent),
            code: node.code - first_code - 1,
            line: node.line,
        };
        let mut names = capture.names[from.0..].to_vec();
        let own = names.len() as u32..;
        let renamed = self.locks.iter().copied().zip(own).collect();
        names.extend(self.locks.iter().map(|id| capture.name(*id).to_owned()));
        Symbols {
            names,
            codes: capture.codes[from.1..].iter().map(code).collect(),
            nodes: capture.stacks[from.2..].iter().map(node).collect(),
            samples: self.samples.iter().map(placed).collect(),
            wakings: self.wakings.iter().map(placed).collect(),
            renamed,
        }
    }

    fn renamed(&mut self, capture: &mut Capture, stack: u32) -> u32 {
        let is_native = |code: u32| {
            let code = (code as usize).checked_sub(1).and_then(|i| capture.codes.get(i));
            code.is_some_and(|code| code.native)
        };
        let leaf = (stack as usize).checked_sub(1).and_then(|i| capture.stacks.get(i));
        if !leaf.is_some_and(|node| is_native(node.code)) {
            return stack;
        }
        if let Some(known) = self.stacks.get(&stack) {
            return *known;
        }
        let words = self.candidates(capture, stack);
        let python = capture.without_native(stack);
        let inner = python != stack;
        let mut named: Vec<Line> = Vec::new();
        // How many frames, from the innermost outwards, are not the interpreter's.
        let mut kept = 0;
        for index in frames(&words, &mut self.binaries) {
            let Some(binary) = words[index].module else { continue };
            let before = named.len();
            let called = index > 0 && !words[index].running;
            self.add_lines(binary, &words[index], called, &mut named);
            let loops = |line: &Line| line.function.starts_with(INTERPRETER_LOOP);
            if inner && named[before..].iter().any(loops) {
                break;
            }
            if !(inner && is_interpreter(&self.binaries.all[binary].path)) {
                kept = named.len();
            }
        }
        named.truncate(kept);
        // A thread that copied its own stack did so in the recorder's code.
        let copies = |line: &Line| {
            let file = line.file.as_deref().unwrap_or_default();
            let symbol = line.function.contains("sys::process::waker::clone_of_poll");
            let of =
                |(name, end): &(&str, &str)| line.function.contains(name) && file.ends_with(end);
            symbol || COPIED_IN.iter().any(of)
        };
        if let Some(outermost) = named.iter().rposition(copies) {
            named.drain(..=outermost);
        }
        let mut parent = if inner { python } else { 0 };
        for line in named.iter().rev() {
            parent = self.node(capture, parent, line, inner);
        }
        self.stacks.insert(stack, parent);
        parent
    }

    /// The words of a stack, innermost first.
    fn candidates(&mut self, capture: &Capture, stack: u32) -> Vec<Candidate> {
        let mut position = -1i64;
        let frames = capture.frames(stack).take_while(|f| f.native).take(MOST_WORDS);
        let mut words = Vec::new();
        for frame in frames {
            let hex = frame.function.strip_prefix("0x");
            let offset = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
            let module = offset.and_then(|_| self.open(frame.file));
            words.push(Candidate {
                module,
                offset: offset.unwrap_or(0),
                position,
                link: i64::from(frame.line >> GAP_BITS & ((1 << LINK_BITS) - 1)),
                pointer: frame.function == "fp",
                running: frame.line & RUNNING != 0,
            });
            position += i64::from(frame.line & ((1 << GAP_BITS) - 1));
        }
        words
    }

    /// The binary of `path TAB tag`; if it cannot be read, says why once.
    fn open(&mut self, text: &str) -> Option<usize> {
        if let Some(known) = self.binaries.by_text.get(text) {
            return Some(*known);
        }
        if self.binaries.all.len() >= MOST_MODULES {
            return None;
        }
        let (path, tag) = text.split_once('\t').unwrap_or((text, ""));
        let module = match path.strip_suffix(" (deleted)") {
            Some(_) => Err("the file was replaced or removed while it ran".to_owned()),
            None => Module::open(path, tag),
        };
        if let Ok(Module { note: Some(note), .. }) = &module {
            self.notes.push(format!("{path}: {note}; its functions are named without lines"));
        }
        // The recorder's own code is never to blame, and its binary is another build after each
        // update of dashcam.
        if let Some(why) = module.as_ref().err().filter(|_| !is_recorder(path)) {
            self.notes.push(format!("{path}: {why}; its functions are shown as offsets"));
        }
        let binary = Binary { path: path.to_owned(), module: module.ok() };
        self.binaries.all.push(binary);
        let index = self.binaries.all.len() - 1;
        self.binaries.by_text.insert(text.to_owned(), index);
        Some(index)
    }

    /// Appends the lines of an address. `called`: the address follows a call; the call is the line
    /// wanted.
    fn add_lines(&mut self, binary: usize, word: &Candidate, called: bool, out: &mut Vec<Line>) {
        let offset = word.offset;
        // After a system call as after a call: the instruction before the address is the one that
        // runs.
        let at = if word.running { offset } else { offset.saturating_sub(1) };
        let Binaries { all, sources, .. } = &mut self.binaries;
        let lines = self.lines.entry((binary, at)).or_insert_with(|| {
            let binary = &all[binary];
            let mut lines =
                named_lines(binary, at).unwrap_or_else(|| vec![unnamed(binary, offset)]);
            lines.iter_mut().for_each(|line| name_part(binary, sources, line));
            lines
        });
        for line in lines.iter() {
            // Frames that the linker put around `main`, and the compiler around Rust's.
            let inner = out.last().and_then(|inner| inner.file.as_deref());
            let around_rust = inner.is_some_and(|file| file.starts_with("/rustc/"));
            let shim = match line.function.as_str() {
                "_start" => true,
                "main" => around_rust,
                _ => false,
            };
            if shim && called && line.line == 0 {
                continue;
            }
            out.push(line.clone());
        }
    }

    fn node(&mut self, capture: &mut Capture, parent: u32, line: &Line, inner: bool) -> u32 {
        let function = self.name(capture, &line.function);
        let file = self.name(capture, line.file.as_deref().unwrap_or("?"));
        let code = *self.codes.entry((function, file, inner)).or_insert_with(|| {
            let (first_line, releases, native) = (0, false, false);
            let code = Code { function, file, first_line, releases, native, inner };
            capture.codes.push(code);
            capture.codes.len() as u32
        });
        *self.nodes.entry((parent, code, line.line)).or_insert_with(|| {
            capture.stacks.push(StackNode { parent, code, line: line.line });
            capture.stacks.len() as u32
        })
    }

    fn name(&mut self, capture: &mut Capture, text: &str) -> u32 {
        if let Some(id) = self.names.get(text) {
            return *id;
        }
        capture.names.push(text.to_owned());
        let id = capture.names.len() as u32 - 1;
        self.names.insert(text.to_owned(), id);
        id
    }
}

/// The binary's answer for the instruction at `offset`; None: none. A missing file becomes the
/// binary's path, or "?" for code of the language itself.
fn named_lines(binary: &Binary, offset: u64) -> Option<Vec<Line>> {
    let module = binary.module.as_ref()?;
    let mut lines = module.lines(module.address(offset)?);
    for line in &mut lines {
        line.function = clean(&line.function);
        let in_source = line.file.take().filter(|_| !is_system(&binary.path));
        if in_source.is_none() {
            line.line = 0;
        }
        line.file = Some(match in_source {
            Some(file) if !is_runtime(&line.function) || file.starts_with('/') => file,
            _ if is_runtime(&line.function) => "?".to_owned(),
            _ => binary.path.clone(),
        });
    }
    (!lines.is_empty()).then_some(lines)
}

/// `price::{async_fn#0}` for `{async_fn#0}`: a part of a function, without the name, gets
/// that from the source.
fn name_part(binary: &Binary, sources: &mut HashMap<String, Option<Source>>, line: &mut Line) {
    let (Some(module), Some(file)) = (&binary.module, &line.file) else { return };
    if !line.function.starts_with('{') || !file.ends_with(".rs") {
        return;
    }
    let source = sources.entry(file.clone()).or_insert_with(|| Source::open(file, module.built));
    if let Some(name) = source.as_ref().and_then(|s| s.around(line.line, line.column)) {
        line.function = format!("{name}::{}", line.function);
    }
}

/// `libfoo.so+0x1234`.
fn unnamed(binary: &Binary, offset: u64) -> Line {
    let base = binary.path.rsplit('/').next().unwrap_or(&binary.path);
    let base = base.strip_suffix(" (deleted)").unwrap_or(base);
    let function = format!("{}+{offset:#x}", base.replace('.', "_"));
    Line { function, file: Some(binary.path.clone()), line: 0, column: 0 }
}

impl Binaries {
    fn at(&mut self, word: Candidate, called: bool) -> Option<(&mut Module, u64)> {
        let module = self.all.get_mut(word.module?)?.module.as_mut()?;
        let address = module.address(word.offset.checked_sub(u64::from(called))?)?;
        Some((module, address))
    }
}

impl walk::Code for Binaries {
    fn step(&mut self, at: Candidate, called: bool) -> Step {
        self.at(at, called).map_or(Step::Unknown, |(module, address)| module.step(address))
    }

    fn frame_words(&mut self, at: Candidate, called: bool) -> Option<i64> {
        self.at(at, called).and_then(|(module, address)| module.frame_words(address))
    }

    fn leads(&mut self, caller: Candidate, at: Candidate, called: bool) -> Leads {
        let start = self.at(at, called).and_then(|(module, address)| module.function(address));
        let same_binary = caller.module == at.module;
        let Some((module, _)) = self.at(caller, true) else { return Leads::Perhaps };
        match module.called(caller.offset) {
            Some(target) if same_binary && Some(target) == start => Leads::Here,
            Some(target) if module.jumps_elsewhere(target) && !same_binary => Leads::Perhaps,
            Some(_) => Leads::Elsewhere,
            None => Leads::Perhaps,
        }
    }
}
