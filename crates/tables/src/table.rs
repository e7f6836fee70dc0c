//! A table: its name, its columns, and the function that writes its rows.
//!
//! Knows no table in particular; `rows` declares them all.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::cell::{self, Column};
use crate::sink::{Halt, Sink};
use crate::source::Source;

/// A table of every capture.
pub struct Table {
    /// Its name in SQL.
    pub name: &'static str,
    /// What a row is, in one sentence.
    pub about: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
    pub(crate) rows: fn(&Source, &mut Sink<'_>) -> Result<(), Halt>,
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
        (self.rows)(source, &mut sink)?;
        sink.finish()
    }
}
