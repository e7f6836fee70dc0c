//! The tables of a capture that is read in parts, so that memory does not depend on its size.
//!
//! How it works: a first walk over the parts gathers what their rows need to know of each other
//! (`Whole`). Then the parts are read once for each section of a table, and what a part owns is
//! written. Rows that are ordered by thread or request wait in a file (`Spool`).
//!
//! What it promises: the rows of the capture in memory, in the same order, but that a state or a
//! wait that lies over a border of parts may be two rows, where its halves were sampled at
//! different stacks. The verdict rests on what `dashcam why` reads.

use arrow_array::RecordBatch;
use capture::read::{Capture, Wanted};

use crate::counts::{Counts, Of};
use crate::halt::Halt;
use crate::join::Joiner;
use crate::sink::Sink;
use crate::source::{Limit, Source};
use crate::spool::Spool;
use crate::table::{Rows, Table, Write};
use crate::whole::Whole;

/// A capture that can be read in parts again and again.
pub trait InParts {
    /// Calls `each` with what is wanted of every part, from the first to the last. An error of
    /// `each` ends the walk and is returned.
    fn each(
        &mut self,
        wanted: Wanted,
        each: &mut dyn FnMut(&mut Capture) -> Result<(), Halt>,
    ) -> Result<(), Halt>;

    /// The part that was read last.
    fn last(&mut self) -> &mut Capture;
}

/// The tables of a capture in parts.
pub struct Divided<'p> {
    parts: &'p mut dyn InParts,
    /// The part that was read last, in turn.
    source: Source,
    judged: Source,
}

impl<'p> Divided<'p> {
    /// Walks over the parts. `judged`: what `dashcam why` reads of the capture; stacks past
    /// `last_stack` are not those of the file and may have other ids in the parts.
    pub fn new(
        parts: &'p mut dyn InParts,
        file: String,
        limit_ns: Limit,
        (mut judged, last_stack): (Source, u32),
    ) -> Result<Divided<'p>, Halt> {
        judged.last_stack = last_stack;
        let mut whole = Whole::default();
        parts.each(Wanted::Bare, &mut |part| {
            whole.take(part, &limit_ns);
            Ok(())
        })?;
        whole.typical.settle();
        let mut source = Source::new(Capture::default(), file, limit_ns);
        source.whole = Some(whole);
        Ok(Divided { parts, source, judged })
    }

    /// As `Table::write`.
    pub fn write(
        &mut self,
        table: &Table,
        each: &mut dyn FnMut(RecordBatch) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let mut sink = Sink::new(table.columns, each);
        match &table.rows {
            Rows::Judged(write) => write(&self.judged, &mut sink)?,
            Rows::Once(write) => self.once(*write, &mut sink)?,
            Rows::InTime(sections) => {
                for (of, write) in *sections {
                    if self.has(*of) {
                        self.walk(Wanted::Bare, *write, &mut sink)?;
                    }
                }
            }
            Rows::Attributes(sections) => {
                for (of, write) in *sections {
                    if self.has(*of) {
                        self.walk(Wanted::All, *write, &mut sink)?;
                    }
                }
            }
            Rows::Keyed(of, write) => {
                if self.has(*of) {
                    let mut spool = Spool::default();
                    self.walk(Wanted::Bare, *write, &mut Sink::spooled(table.columns, &mut spool))?;
                    spool.each(&mut |_, row| sink.values(row))?;
                }
            }
            Rows::Joined(write, join) => {
                let mut spool = Spool::default();
                self.walk(Wanted::Bare, *write, &mut Sink::spooled(table.columns, &mut spool))?;
                let none = Default::default();
                let borders = self.source.whole.as_ref().map_or(&none, |whole| &whole.borders);
                let mut joiner = Joiner::new(table.columns, join, borders);
                let mut each = |row: Vec<_>| sink.values(row);
                spool.each(&mut |key, row| joiner.take(key, row, &mut each))?;
                joiner.finish(&mut each)?;
            }
        }
        sink.finish()
    }

    fn has(&self, of: Of) -> bool {
        self.source.whole.as_ref().is_some_and(|whole| whole.counts[of] > 0)
    }

    /// Writes what a section has of each part.
    fn walk(&mut self, wanted: Wanted, write: Write, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let Divided { parts, source, .. } = self;
        source.before = Counts::default();
        source.carried = Vec::new();
        if let Some(whole) = &mut source.whole {
            whole.last_stacks.clear();
        }
        parts.each(wanted, &mut |part| {
            std::mem::swap(&mut source.capture, part);
            let written = write(source, sink);
            source.leave_part();
            std::mem::swap(&mut source.capture, part);
            written
        })
    }

    /// Writes what the last part, with the tables that all share, and the counts of all say.
    fn once(&mut self, write: Write, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let Divided { parts, source, .. } = self;
        std::mem::swap(&mut source.capture, parts.last());
        let written = write(source, sink);
        std::mem::swap(&mut source.capture, parts.last());
        written
    }
}

impl Source {
    /// What the next part needs to know of this one.
    fn leave_part(&mut self) {
        let until_ns = self.capture.part.map_or(u64::MAX, |part| part.to_ns);
        let spans = self.capture.spans.iter().enumerate();
        let going_on = spans.filter(|(_, span)| span.end_ns >= until_ns);
        self.carried = going_on.map(|(i, _)| self.span_row(i)).collect();
        self.before.add(&self.capture);
        if let Some(whole) = &mut self.whole {
            whole.note_stacks(&self.capture);
        }
    }
}
