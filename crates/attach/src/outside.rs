//! A process whose interpreter is read from outside, and not asked for anything.
//!
//! How it works: the same inspection as before attaching, up to the interpreter. What it promises:
//! nothing is written, and nothing is stopped. What is missing on purpose: reading its stacks
//! (crates/dump does).

use std::io;
use std::path::{Path, PathBuf};

use crate::interpreter::Interpreter;
use crate::memory::ProcessMemory;
use crate::preflight::{self, Own};
use crate::refusal::Refusal;
use crate::target::Target;

/// What is needed to read it.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Its number as it sees itself.
    pub own_pid: u32,
    /// Its folder in /proc.
    pub folder: PathBuf,
    /// Words of its command line.
    pub words: Vec<String>,
    /// The text of its list of mappings.
    pub maps: Vec<u8>,
    /// The program, as it sees it.
    pub program: PathBuf,
    /// `PY_VERSION_HEX`.
    pub version_hex: u32,
    /// The address of `_PyRuntime`.
    pub runtime: u64,
    /// The addresses of the types of code objects and of builtin methods.
    pub types: [u64; 2],
}

impl Outside {
    /// Inspects process `pid`.
    pub fn open(pid: u32) -> Result<Outside, Refusal> {
        let proc = Path::new("/proc");
        let own = Own::read(proc);
        let target = Target::read(proc, pid)?;
        preflight::check_reading(&target, &own)?;
        let denied = |error: io::Error| preflight::denied(&own, &error);
        let memory = ProcessMemory::open_to_read(&target.folder).map_err(denied)?;
        let maps = target.maps().map_err(denied)?;
        let (found, types) = Interpreter::with_types(&memory, &maps)?;
        Ok(Outside {
            own_pid: target.own_pid,
            program: std::fs::read_link(target.folder.join("exe")).map_err(denied)?,
            folder: target.folder,
            words: target.words,
            maps,
            version_hex: found.version_hex,
            runtime: found.runtime,
            types,
        })
    }
}
