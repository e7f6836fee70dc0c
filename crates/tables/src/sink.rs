//! Rows in, batches out.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};

use crate::cell::{schema, Cell, Column, Kind};

/// A batch has at most this many rows.
pub const BATCH_ROWS: usize = 32_768;
/// A batch has at most this many bytes of text: an Arrow text column counts its bytes with 32 bits.
const BATCH_TEXT: usize = 32 << 20;

/// Why a table was not written to its end.
pub type Halt = Box<dyn std::error::Error + Send + Sync>;

enum Builder {
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Utc(TimestampMicrosecondBuilder),
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        match kind {
            Kind::Int => Builder::Int(Int64Builder::new()),
            Kind::Float => Builder::Float(Float64Builder::new()),
            Kind::Bool => Builder::Bool(BooleanBuilder::new()),
            Kind::Text => Builder::Text(StringBuilder::new()),
            Kind::Utc => Builder::Utc(TimestampMicrosecondBuilder::new()),
        }
    }

    /// Appends a value; a value of another type than the column's becomes NULL.
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Builder::Int(b), Cell::Int(v)) => b.append_value(v),
            (Builder::Utc(b), Cell::Int(v)) => b.append_value(v),
            (Builder::Float(b), Cell::Float(v)) => b.append_value(v),
            (Builder::Bool(b), Cell::Bool(v)) => b.append_value(v),
            (Builder::Text(b), Cell::Text(v)) => b.append_value(v),
            (Builder::Int(b), _) => b.append_null(),
            (Builder::Utc(b), _) => b.append_null(),
            (Builder::Float(b), _) => b.append_null(),
            (Builder::Bool(b), _) => b.append_null(),
            (Builder::Text(b), _) => b.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Int(b) => Arc::new(b.finish()),
            Builder::Float(b) => Arc::new(b.finish()),
            Builder::Bool(b) => Arc::new(b.finish()),
            Builder::Text(b) => Arc::new(b.finish()),
            Builder::Utc(b) => Arc::new(b.finish()),
        }
    }
}

/// Takes the rows of one table and emits batches.
pub struct Sink<'s> {
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
    text: usize,
    batches: usize,
    each: &'s mut dyn FnMut(RecordBatch) -> Result<(), Halt>,
}

impl<'s> Sink<'s> {
    pub(crate) fn new(
        columns: &[Column],
        each: &'s mut dyn FnMut(RecordBatch) -> Result<(), Halt>,
    ) -> Sink<'s> {
        let builders = columns.iter().map(|c| Builder::new(c.kind)).collect();
        Sink { schema: schema(columns), builders, rows: 0, text: 0, batches: 0, each }
    }

    /// Appends a row: a value for each column, in their order.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell<'_>; N]) -> Result<(), Halt> {
        if N != self.builders.len() {
            let wanted = self.builders.len();
            return Err(format!("a row of {N} values, wanted {wanted}: a defect").into());
        }
        for (builder, cell) in self.builders.iter_mut().zip(cells) {
            if let Cell::Text(text) = cell {
                self.text = self.text.saturating_add(text.len());
            }
            builder.push(cell);
        }
        self.rows += 1;
        match self.rows >= BATCH_ROWS || self.text >= BATCH_TEXT {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Halt> {
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        (self.rows, self.text) = (0, 0);
        self.batches += 1;
        (self.each)(batch.map_err(|e: ArrowError| Box::new(e) as Halt)?)
    }

    /// Emits the rest; an empty batch when there was no row at all.
    pub(crate) fn finish(mut self) -> Result<(), Halt> {
        match self.rows > 0 || self.batches == 0 {
            true => self.flush(),
            false => Ok(()),
        }
    }
}
