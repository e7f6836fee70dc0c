//! A table: its name, its columns, and the functions that write its rows.
//!
//! How it works: of a capture in memory the rows are written in their order. A capture in parts is
//! read once for each section of a table (`parts`), and what `Rows` says brings them into the same
//! order. Knows no table in particular; `rows` declares them all.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::cell::{self, Column};
use crate::counts::Of;
use crate::halt::Halt;
use crate::join::Join;
use crate::sink::Sink;
use crate::source::Source;

/// Writes rows of the capture or part in a source: those that it owns.
pub(crate) type Write = fn(&Source, &mut Sink<'_>) -> Result<(), Halt>;

/// How the rows of a table come from the parts of a capture.
pub(crate) enum Rows {
    /// From what the last part and the counts of all say.
    Once(Write),
    /// From what a verdict rests on, which is read apart.
    Judged(Write),
    /// Section by section, each part's behind those of the part before. A section has rows if there
    /// are rows of that kind.
    InTime(&'static [(Of, Write)]),
    /// The same, of attributes. Rows of the other tables are read without them.
    Attributes(&'static [(Of, Write)]),
    /// The rows of one key (`Sink::key`) are together, by key.
    Keyed(Of, Write),
    /// The same; what a border of two parts divided is joined.
    Joined(Write, Join),
}

/// A table of every capture.
pub struct Table {
    /// Its name in SQL.
    pub name: &'static str,
    /// What a row is, in one sentence.
    pub about: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
    pub(crate) rows: Rows,
}

impl Table {
    /// Its schema.
    pub fn schema(&self) -> SchemaRef {
        cell::schema(self.columns)
    }

    /// Calls `each` with the table's batches: at least one, which may be empty. An error of `each`
    /// ends the walk and is returned.
    pub fn write(
        &self,
        source: &Source,
        each: &mut dyn FnMut(RecordBatch) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let mut sink = Sink::new(self.columns, each);
        match &self.rows {
            Rows::Once(write)
            | Rows::Judged(write)
            | Rows::Keyed(_, write)
            | Rows::Joined(write, _) => write(source, &mut sink)?,
            Rows::InTime(sections) | Rows::Attributes(sections) => {
                sections.iter().try_for_each(|(_, write)| write(source, &mut sink))?;
            }
        }
        sink.finish()
    }
}
