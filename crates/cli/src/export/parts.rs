//! A capture that is read in parts, for what is written as it is read.
//!
//! How it works: the parts are those of `capture::read::Parts`; native stacks of each are named
//! when it is read. What it promises: a note about a binary or about damage is reported once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::read::{Capture, Parts, Wanted};
use export::InParts;

use crate::output::progress;
use crate::read::{failed, file_of};

/// A file, its parts, and the part that was read last.
pub struct Opened {
    /// Its path.
    pub file: PathBuf,
    /// Before the first part is read: what all parts share, without rows.
    pub capture: Capture,
    /// Whether damage is reported on stderr.
    pub reports_damage: bool,
    parts: Parts<File>,
    notes: BTreeSet<String>,
}

/// Opens a capture, or the newest in a folder; reports an error on stderr.
pub fn open(path: &Path) -> Result<Opened, ExitCode> {
    let file = file_of(path)?;
    progress::stage(format!("reading {}", file.display()));
    let opened = Parts::open(&file, &mut progress::at);
    progress::clear();
    match opened {
        Ok((parts, capture)) => {
            Ok(Opened { file, capture, reports_damage: false, parts, notes: BTreeSet::new() })
        }
        Err(error) => Err(failed(&file, &error)),
    }
}

impl Opened {
    /// Calls `each` with every part of the capture.
    pub fn each(
        &mut self,
        each: &mut dyn FnMut(&mut InParts<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Opened { file, capture, reports_damage, parts, notes } = self;
        let count = parts.count();
        let mut next = |capture: &mut Capture| {
            let is_there = parts.next(capture).map_err(|error| {
                io::Error::other(format!("reading {}: {error}", file.display()))
            })?;
            let damage = capture.damage.iter().filter(|_| *reports_damage);
            let text = |what| format!("{}: {what}; what is whole is exported", file.display());
            let damage: Vec<String> = damage.map(text).collect();
            for note in damage.into_iter().chain(symbols::name_native(capture)) {
                if notes.insert(note.clone()) {
                    progress::note(&note);
                }
            }
            Ok(is_there)
        };
        let capture = std::mem::take(capture);
        let mut all = InParts { capture, next: &mut next, count };
        let done = each(&mut all);
        self.capture = all.capture;
        done
    }

    /// Whether it is so small that it is one part.
    pub fn is_one(&self) -> bool {
        self.parts.count() == 1
    }

    /// How many parts there are.
    #[cfg(feature = "parquet")]
    pub fn count(&self) -> usize {
        self.parts.count()
    }

    /// Ids of stacks up to this one are those of the file, whatever part is read.
    #[cfg(feature = "parquet")]
    pub fn own_stacks(&self) -> u32 {
        self.parts.own_stacks()
    }

    /// Everything that lies in a time; of a capture of one part, all of it.
    pub fn between(&mut self, from_ns: u64, to_ns: u64) -> io::Result<&Capture> {
        let read = self.parts.between(&mut self.capture, from_ns, to_ns);
        read.map_err(|error| io::Error::other(error.to_string()))?;
        for note in symbols::name_native(&mut self.capture) {
            progress::note(&note);
        }
        Ok(&self.capture)
    }

    /// Begins anew with the first part.
    pub fn again(&mut self) -> io::Result<()> {
        self.again_for(Wanted::All)
    }

    /// The same, for what is wanted.
    pub fn again_for(&mut self, wanted: Wanted) -> io::Result<()> {
        self.parts.again_for(wanted).map_err(|error| io::Error::other(error.to_string()))
    }
}
