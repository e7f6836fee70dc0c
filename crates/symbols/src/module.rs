//! One binary: the function and line of an offset, and how to unwind its frames.
//!
//! How it works: the sections with symbols, debug information and unwind tables are read into
//! memory; the rest of the file is not. Debug information in a separate file is searched under
//! /usr/lib/debug/.build-id.
//!
//! What it promises: a file that is not the build that ran is refused. Missing on purpose: a
//! download of debug information.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

use gimli::{BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianRcSlice, RegisterRule};
use gimli::{Register, RunTimeEndian, UnwindContext, UnwindSection};
use object::read::ReadCache;
use object::{Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::prologue;

type Slice = EndianRcSlice<RunTimeEndian>;
type Elf<'d> = object::File<'d, &'d ReadCache<File>>;

/// At most this many bytes of a binary's debug information, unpacked; a larger one is ignored, and
/// symbols name the functions. While it is read it is in memory twice.
const MOST_DEBUG_BYTES: u64 = 512 << 20;
/// At most this many bytes of any other section.
const MOST_SECTION_BYTES: u64 = 128 << 20;
/// At most this many symbols of functions.
const MOST_SYMBOLS: usize = 2_000_000;
/// Assumed length of a symbol without a size, where there are no unwind tables.
const MOST_UNSIZED_BYTES: u64 = 4096;
/// At most this many functions inlined into one another.
const MOST_INLINED: usize = 64;
/// DWARF's numbers of the frame pointer and the stack pointer on x86-64.
const RBP: Register = Register(6);
const RSP: Register = Register(7);

/// One line of source for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The function, demangled.
    pub function: String,
    /// Its file; None without debug information.
    pub file: Option<String>,
    /// The line; 0: not known.
    pub line: u32,
    /// The column; 0: not known.
    pub column: u32,
}

/// What the unwind tables say about a frame. Distances are words of 8 bytes, upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It was called.
    Return {
        /// The base of the distance.
        base: Base,
        /// Words from the base to the return address.
        words: i64,
        /// The caller's frame pointer.
        fp: CallersFp,
    },
    /// It was not called: a thread begins here.
    Outermost,
    /// It depends on something else, or there are no tables.
    Unknown,
}

/// The base of a frame's distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The frame's stack pointer.
    Sp,
    /// The frame pointer.
    Fp,
}

/// Where a frame keeps its caller's frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallersFp {
    /// In the register: the frame did not touch it.
    Kept,
    /// Saved, this far from the base.
    At(i64),
    /// Not known.
    Lost,
}

/// A binary in memory.
pub struct Module {
    file: File,
    /// When it was built, as far as its file says.
    pub built: SystemTime,
    segments: Vec<Segment>,
    plt: Vec<(u64, u64)>,
    /// Function symbols by address.
    symbols: Vec<Symbol>,
    /// Variable symbols by address.
    variables: Vec<Symbol>,
    lines: Option<addr2line::Context<Slice>>,
    unwind: Option<Unwind>,
    /// What was ignored, as the end of a sentence.
    pub note: Option<String>,
}

struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

struct Unwind {
    frames: EhFrame<Slice>,
    index: Option<gimli::ParsedEhFrameHdr<Slice>>,
    bases: BaseAddresses,
    context: Box<UnwindContext<usize>>,
}

impl Module {
    /// Opens the binary at `path` if it is the build that `tag` names (`build:HEX`,
    /// `file:SIZE:MTIME_NS`). Cost: reads its symbols, debug information and unwind tables. Errors:
    /// one sentence with the reason why it cannot be used.
    pub fn open(path: &str, tag: &str) -> Result<Module, String> {
        let said = |error: io::Error| error.to_string();
        let meta = std::fs::metadata(path).map_err(said)?;
        if !meta.is_file() {
            return Err("it is no regular file".to_owned());
        }
        let file = File::open(path).map_err(said)?;
        let cache = ReadCache::new(file.try_clone().map_err(said)?);
        if !tag.starts_with("build:") {
            same_build(tag, &file_tag(&meta))?;
        }
        let elf = parse(&cache)?;
        if tag.starts_with("build:") {
            same_build(tag, &build_tag(&elf))?;
        }
        let split =
            if elf.section_by_name(".debug_info").is_some() { None } else { split_off(&elf) };
        let split_cache = split.map(ReadCache::new);
        let split_elf = split_cache.as_ref().and_then(|cache| parse(cache).ok());
        let split_elf = split_elf.filter(|s| s.build_id().ok() == elf.build_id().ok());
        let with_lines = split_elf.as_ref().unwrap_or(&elf);
        let of = |kind| {
            let mut found = Vec::new();
            take_symbols(&elf, kind, &mut found);
            if let Some(split) = &split_elf {
                take_symbols(split, kind, &mut found);
            }
            found.sort_by_key(|s| s.address);
            found
        };
        let (symbols, variables) = (of(SymbolKind::Text), of(SymbolKind::Data));
        let segments = elf.segments().map(|s| {
            let (offset, size) = s.file_range();
            Segment { offset, size, address: s.address() }
        });
        let plt = elf.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".plt")));
        let (lines, note) = match lines(with_lines) {
            Ok(lines) => (Some(lines), None),
            Err(why) => (None, Some(why)),
        };
        Ok(Module {
            note,
            segments: segments.collect(),
            plt: plt.map(|s| (s.address(), s.address().saturating_add(s.size()))).collect(),
            symbols,
            variables,
            lines,
            unwind: unwind(&elf),
            built: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            file,
        })
    }

    /// The address, as the binary counts, of an offset in the file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| (s.offset..s.offset.saturating_add(s.size)).contains(&offset);
        let segment = self.segments.iter().find(inside)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// The lines of an address, innermost first: inlined functions, then the compiled one. Empty
    /// when nothing is known.
    pub fn lines(&self, address: u64) -> Vec<Line> {
        let mut found = Vec::new();
        if let Some(lines) = &self.lines {
            if let Ok(mut frames) = lines.find_frames(address).skip_all_loads() {
                while let Ok(Some(frame)) = frames.next() {
                    let name = frame.function.as_ref();
                    let name = name.and_then(|f| f.demangle().ok().map(|n| n.into_owned()));
                    let place = frame.location;
                    let file = place.as_ref().and_then(|l| l.file).map(str::to_owned);
                    let column = place.as_ref().and_then(|l| l.column).unwrap_or(0);
                    let line = place.and_then(|l| l.line).unwrap_or(0);
                    let function = match name {
                        Some(name) => name,
                        // Line tables only, without functions.
                        None => self.symbol(address).unwrap_or_else(|| format!("{address:#x}")),
                    };
                    found.push(Line { function, file, line, column });
                    if found.len() == MOST_INLINED {
                        break;
                    }
                }
            }
        }
        let symbol = self.symbol(address);
        match (found.last_mut(), symbol) {
            // Line tables only: the symbol has the function's modules and enclosing functions too.
            (Some(outer), Some(symbol))
                if symbol.contains("::") && !outer.function.contains("::") =>
            {
                outer.function = symbol;
            }
            (None, Some(function)) => {
                found.push(Line { function, file: None, line: 0, column: 0 });
            }
            _ => {}
        }
        found
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let behind = self.symbols.partition_point(|s| s.address <= address);
        // Aliases have one address: the first that reaches as far is used.
        let mut before = self.symbols[..behind].iter().rev().take(16);
        // Hand-written assembly has symbols without a size. Such a symbol must lie in the function
        // that the unwind tables show, or near, or it would name any code that has no symbol.
        let start = self.function(address);
        let fits = |s: &&Symbol| match (s.size, start) {
            (0, Some(start)) => s.address >= start,
            (0, None) => address - s.address < MOST_UNSIZED_BYTES,
            (size, _) => address - s.address < size,
        };
        let found = before.find(fits)?;
        let name = addr2line::demangle_auto(found.name.as_str().into(), None);
        Some(name.into_owned())
    }

    /// The variable that lies `offset` bytes behind the binary's first page in memory, by its
    /// symbol.
    pub fn variable(&self, offset: u64) -> Option<String> {
        let address = self.first_page()?.checked_add(offset)?;
        let behind = self.variables.partition_point(|s| s.address <= address);
        let mut before = self.variables[..behind].iter().rev().take(16);
        let found = before.find(|s| address - s.address < s.size)?;
        Some(addr2line::demangle_auto(found.name.as_str().into(), None).into_owned())
    }

    fn first_page(&self) -> Option<u64> {
        /// Memory segments begin at a multiple of this.
        const PAGE: u64 = 4096;
        self.segments.iter().map(|s| s.address / PAGE * PAGE).min()
    }

    /// How to get from the frame that runs at `address` to its caller.
    pub fn step(&mut self, address: u64) -> Step {
        let Some(unwind) = &mut self.unwind else { return Step::Unknown };
        unwind.step(address).unwrap_or(Step::Unknown)
    }

    /// The begin of the function around `address`, by unwind tables.
    pub fn function(&self, address: u64) -> Option<u64> {
        let unwind = self.unwind.as_ref()?;
        unwind.entry(address).map(|entry| entry.initial_address())
    }

    /// For the function around `address` with a frame pointer: words from the stack pointer to the
    /// return address, by the function's first instructions (`prologue`). Cost: one read of the
    /// file.
    pub fn frame_words(&self, address: u64) -> Option<i64> {
        let begin = self.function(address)?;
        let fits = |s: &&Segment| (s.address..s.address.saturating_add(s.size)).contains(&begin);
        let segment = self.segments.iter().find(fits)?;
        let mut code = [0u8; prologue::MOST_BYTES];
        // Not past the address itself, which lies behind the prologue.
        let length = code.len().min(usize::try_from(address.checked_sub(begin)?).ok()?);
        // A damaged file's numbers may be anything.
        let offset = segment.offset.checked_add(begin - segment.address)?;
        self.file.read_exact_at(&mut code[..length], offset).ok()?;
        prologue::words(&code[..length])
    }

    /// The target of the direct call that ends at `offset` of the file, if one does.
    pub fn called(&self, offset: u64) -> Option<u64> {
        let mut code = [0u8; 5];
        self.file.read_exact_at(&mut code, offset.checked_sub(5)?).ok()?;
        let distance = i32::from_le_bytes([code[1], code[2], code[3], code[4]]);
        let direct = code[0] == 0xe8;
        direct.then(|| self.address(offset))?.map(|a| a.wrapping_add_signed(i64::from(distance)))
    }

    /// Whether an address lies in a table of jumps to other binaries.
    pub fn jumps_elsewhere(&self, address: u64) -> bool {
        self.plt.iter().any(|(start, end)| (*start..*end).contains(&address))
    }
}

fn parse(cache: &ReadCache<File>) -> Result<Elf<'_>, String> {
    let elf = object::File::parse(cache).map_err(|e| format!("it is no whole ELF file: {e}"))?;
    match elf.architecture() {
        Architecture::X86_64 if elf.is_64() && elf.is_little_endian() => Ok(elf),
        other => Err(format!("it is for {other:?}, wanted x86-64")),
    }
}

fn build_tag(elf: &Elf<'_>) -> String {
    let id = elf.build_id().ok().flatten().unwrap_or_default();
    format!("build:{}", id.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

fn file_tag(meta: &std::fs::Metadata) -> String {
    let ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    format!("file:{}:{ns}", meta.size())
}

/// Whether the file is the build that ran.
fn same_build(wanted: &str, found: &str) -> Result<(), String> {
    if wanted.is_empty() {
        return Err("the capture does not name its build".to_owned());
    }
    match found == wanted {
        true => Ok(()),
        false => {
            let (found, wanted) = (short(found), short(wanted));
            Err(format!("it is another build now: found {found}, wanted {wanted}"))
        }
    }
}

/// The first dozen digits of a build's id, which are enough to see that it is another.
fn short(tag: &str) -> &str {
    match tag.starts_with("build:") {
        true => tag.get(..18).unwrap_or(tag),
        false => tag,
    }
}

/// Debug information in a separate file, as distributions package it.
fn split_off(elf: &Elf<'_>) -> Option<File> {
    let id = elf.build_id().ok().flatten()?;
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
    let path = format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug");
    Path::new(&path).is_file().then(|| File::open(path).ok())?
}

fn take_symbols(elf: &Elf<'_>, kind: SymbolKind, out: &mut Vec<Symbol>) {
    let all = elf.symbols().chain(elf.dynamic_symbols());
    let wanted = all.filter(|s| s.kind() == kind && s.is_definition());
    for symbol in wanted.take(MOST_SYMBOLS) {
        if let Ok(name) = symbol.name() {
            let name = name.to_owned();
            out.push(Symbol { address: symbol.address(), size: symbol.size(), name });
        }
    }
}

/// A section's bytes, unpacked; empty when it is missing, damaged or larger than `most`.
fn section(elf: &Elf<'_>, name: &str, most: u64) -> (u64, Rc<[u8]>) {
    let Some(section) = elf.section_by_name(name) else { return (0, Rc::from([])) };
    let data = section.compressed_data().ok().filter(|d| d.uncompressed_size <= most);
    let bytes = data.and_then(|d| d.decompress().ok()).unwrap_or_default();
    (section.address(), Rc::from(&*bytes))
}

/// The debug information. The error is the reason why the file's own cannot be used.
fn lines(elf: &Elf<'_>) -> Result<addr2line::Context<Slice>, String> {
    let size = |id: gimli::SectionId| {
        let section = elf.section_by_name(id.name());
        section.map_or(0, |s| s.compressed_data().map_or(0, |d| d.uncompressed_size))
    };
    let mut total = 0u64;
    let dwarf = gimli::Dwarf::load(|id| {
        total = total.saturating_add(size(id));
        let most = if total <= MOST_DEBUG_BYTES { MOST_DEBUG_BYTES } else { 0 };
        let (_, bytes) = section(elf, id.name(), most);
        Ok::<_, gimli::Error>(Slice::new(bytes, RunTimeEndian::Little))
    });
    if total > MOST_DEBUG_BYTES {
        let (found, most) = (total >> 20, MOST_DEBUG_BYTES >> 20);
        return Err(format!("found {found} MiB of debug information, wanted at most {most}"));
    }
    let read = dwarf.and_then(addr2line::Context::from_dwarf);
    read.map_err(|error| format!("its debug information cannot be read: {error}"))
}

fn unwind(elf: &Elf<'_>) -> Option<Unwind> {
    let part = |name| section(elf, name, MOST_SECTION_BYTES);
    let (at, frames) = part(".eh_frame");
    let (index_at, index) = part(".eh_frame_hdr");
    let address = |name| elf.section_by_name(name).map_or(0, |s| s.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(at)
        .set_eh_frame_hdr(index_at)
        .set_text(address(".text"))
        .set_got(address(".got"));
    let slice = |bytes| Slice::new(bytes, RunTimeEndian::Little);
    let mut section = EhFrame::from(slice(frames));
    section.set_address_size(8);
    let index = EhFrameHdr::from(slice(index)).parse(&bases, 8).ok();
    Some(Unwind { frames: section, index, bases, context: Box::new(UnwindContext::new()) })
}

impl Unwind {
    fn entry(&self, address: u64) -> Option<gimli::FrameDescriptionEntry<Slice>> {
        let cie = EhFrame::cie_from_offset;
        if let Some(table) = self.index.as_ref().and_then(|index| index.table()) {
            return table.fde_for_address(&self.frames, &self.bases, address, cie).ok();
        }
        self.frames.fde_for_address(&self.bases, address, cie).ok()
    }

    fn step(&mut self, address: u64) -> Option<Step> {
        let entry = self.entry(address)?;
        let back = entry.cie().return_address_register();
        let row =
            entry.unwind_info_for_address(&self.frames, &self.bases, &mut self.context, address);
        let row = row.ok()?;
        let back = match row.register(back) {
            RegisterRule::Undefined => return Some(Step::Outermost),
            RegisterRule::Offset(at) => at,
            _ => return None,
        };
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let base = match register {
            RSP => Base::Sp,
            RBP => Base::Fp,
            _ => return None,
        };
        let words = |at: i64| offset.checked_add(at).filter(|b| b % 8 == 0).map(|b| b / 8);
        let fp = match row.register(RBP) {
            RegisterRule::Undefined | RegisterRule::SameValue => CallersFp::Kept,
            RegisterRule::Offset(at) => words(at).map_or(CallersFp::Lost, CallersFp::At),
            _ => CallersFp::Lost,
        };
        Some(Step::Return { base, words: words(back)?, fp })
    }
}
