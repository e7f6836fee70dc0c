//! The CPython interpreter in a process: where its state lies, its version, its build.
//!
//! How it works: every library and program mapped in the process is asked for the symbol
//! `_PyRuntime`. The version is the one of the code that runs: the exported `Py_Version` (from 3.11
//! on), else a function that came with 3.10 or 3.9. From 3.13 on the state's first words say
//! whether the build has the GIL.
//!
//! What it promises: a process without CPython, an unknown version, a debug or a free-threaded
//! build is refused, by the reason. No file is read. What is missing on purpose: a second
//! interpreter library in the same process; the first one found counts.

use crate::elf::Exports;
use crate::memory::Memory;
use crate::refusal::{refused, Refusal};

/// The first bytes of the state from 3.13 on.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// Versions that can be attached to.
pub const SUPPORTED: &str = "CPython 3.9 to 3.15 with the GIL";

/// The interpreter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The address of `_PyRuntime`.
    pub runtime: u64,
    /// 3.11 is 11.
    pub minor: u32,
    /// `PY_VERSION_HEX`; before 3.11, which does not export it, of the minor version's first
    /// release.
    pub version_hex: u32,
    /// The address of `PyRun_SimpleString`.
    pub run_string: u64,
}

impl Interpreter {
    /// Finds it by the text of /proc/PID/maps.
    pub fn find(memory: &dyn Memory, maps: &[u8]) -> Result<Interpreter, Refusal> {
        Interpreter::with_types(memory, maps).map(|(found, _)| found)
    }

    /// The same, and the addresses of the types of code objects and of builtin methods; 0: not
    /// exported.
    pub fn with_types(
        memory: &dyn Memory,
        maps: &[u8],
    ) -> Result<(Interpreter, [u64; 2]), Refusal> {
        // A file's first bytes are mapped where it begins.
        let mut files: Vec<_> = sys::mapped::files(maps).filter(|line| line.offset == 0).collect();
        let is_python = |path: &[u8]| path.windows(6).any(|word| word == b"python");
        files.sort_by_key(|line| !is_python(line.path));
        let images = files.iter().filter_map(|line| Exports::of(memory, line.start));
        let found = images.into_iter().find_map(|image| {
            let runtime = image.find("_PyRuntime")?;
            Some((image, runtime))
        });
        let Some((image, runtime)) = found else {
            return Err(not_supported("program", "no CPython in it (no symbol _PyRuntime)"));
        };
        let version_hex = version_hex(memory, &image)?;
        let minor = (version_hex >> 16) & 0xff;
        if minor >= 13 {
            published(memory, runtime, minor)?;
        }
        if image.find("_Py_NegativeRefcount").is_some() {
            return Err(not_supported("build", "a debug build"));
        }
        let Some(run_string) = image.find("PyRun_SimpleString") else {
            return Err(not_supported("program", "no PyRun_SimpleString in it"));
        };
        let types = ["PyCode_Type", "PyCFunction_Type"].map(|name| image.find(name).unwrap_or(0));
        Ok((Interpreter { runtime, minor, version_hex, run_string }, types))
    }

    /// `3.11`.
    pub fn version(&self) -> String {
        format!("3.{}", self.minor)
    }
}

fn not_supported(thing: &str, found: &str) -> Refusal {
    refused(
        thing,
        found,
        SUPPORTED,
        "nothing was changed; dashcam can neither record nor read this interpreter",
    )
}

fn version_hex(memory: &dyn Memory, image: &Exports<'_>) -> Result<u32, Refusal> {
    let hex = image.find("Py_Version").and_then(|at| memory.int(at).ok());
    let hex = match hex {
        Some(hex) if hex >> 24 == 3 => hex as u32,
        Some(hex) => return Err(not_supported("Py_Version", &format!("{hex:#010x}"))),
        None if image.find("PyIter_Send").is_some() => 0x030a_00f0,
        None if image.find("PyModule_AddType").is_some() => 0x0309_00f0,
        None => return Err(not_supported("version", "an older one than 3.9")),
    };
    match (hex >> 16) & 0xff {
        9..=15 => Ok(hex),
        minor => Err(not_supported("version", &format!("3.{minor}"))),
    }
}

/// Checks what the state of 3.13 and later says about itself.
fn published(memory: &dyn Memory, runtime: u64, minor: u32) -> Result<(), Refusal> {
    let mut words = [0u8; 24];
    let read = memory.read(runtime, &mut words);
    if read.is_err() || &words[..8] != COOKIE {
        return Err(not_supported("_PyRuntime", "without its table of offsets"));
    }
    let word =
        |i: usize| u64::from_le_bytes(words[8 * i..8 * i + 8].try_into().unwrap_or_default());
    if word(1) >> 16 != 0x0300 | u64::from(minor) {
        return Err(not_supported("_PyRuntime", &format!("the offsets of {:#010x}", word(1))));
    }
    match word(2) {
        0 => Ok(()),
        _ => Err(not_supported("build", "a free-threaded build")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Laid;

    fn state(words: [u64; 3]) -> Result<(), String> {
        let memory = Laid::new(0x1000, 64);
        words.iter().enumerate().for_each(|(i, word)| memory.put(0x1000 + 8 * i as u64, *word));
        published(&memory, 0x1000, 14).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn free_threaded_builds_and_foreign_tables_are_refused() {
        let cookie = u64::from_le_bytes(*COOKIE);
        assert_eq!(state([cookie, 0x030e_0af0, 0]), Ok(()));
        let threaded = state([cookie, 0x030e_0af0, 1]).expect_err("no GIL");
        assert!(threaded.starts_with("build: found a free-threaded build, wanted CPython 3.9 to"));
        let other = state([cookie, 0x030d_00f0, 0]).expect_err("another version's");
        assert!(other.contains("the offsets of 0x030d00f0"), "{other}");
        assert!(state([7, 0x030e_0af0, 0]).expect_err("no cookie").contains("without its table"));
    }

    #[test]
    fn a_process_without_cpython_is_refused() {
        let memory = Laid::new(0x1000, 4096);
        let maps = b"1000-2000 r-xp 00000000 08:01 1234   /usr/bin/x\n";
        let refusal = Interpreter::find(&memory, maps).expect_err("no ELF there");
        assert!(refusal.to_string().starts_with("program: found no CPython in it"), "{refusal}");
    }
}
