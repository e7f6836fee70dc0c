//! Rows in, batches out; or rows that wait (`spool`).

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};

use crate::cell::{schema, Cell, Column, Kind};
use crate::halt::Halt;
use crate::spool::{Spool, Value};

/// A batch has at most this many rows.
pub const BATCH_ROWS: usize = 32_768;
/// A batch has at most this many bytes of text: an Arrow text column counts its bytes with 32 bits.
const BATCH_TEXT: usize = 32 << 20;

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

/// Takes the rows of one table.
pub struct Sink<'s> {
    out: Out<'s>,
    columns: usize,
}

enum Out<'s> {
    Batches(Batches<'s>),
    Spool { spool: &'s mut Spool, key: u64 },
}

/// Makes batches of rows.
struct Batches<'s> {
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
        let schema = schema(columns);
        let out = Batches { schema, builders, rows: 0, text: 0, batches: 0, each };
        Sink { out: Out::Batches(out), columns: columns.len() }
    }

    /// A sink whose rows wait in `spool`.
    pub(crate) fn spooled(columns: &[Column], spool: &'s mut Spool) -> Sink<'s> {
        Sink { out: Out::Spool { spool, key: 0 }, columns: columns.len() }
    }

    /// The next rows are of this thread or request: rows with the same key are together, by key.
    pub(crate) fn key(&mut self, of: u64) {
        if let Out::Spool { key, .. } = &mut self.out {
            *key = of;
        }
    }

    /// Appends a row: a value for each column, in their order.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell<'_>; N]) -> Result<(), Halt> {
        if N != self.columns {
            let wanted = self.columns;
            return Err(format!("a row of {N} values, wanted {wanted}: a defect").into());
        }
        match &mut self.out {
            Out::Batches(batches) => batches.row(cells.into_iter()),
            Out::Spool { spool, key } => spool.push(*key, &cells),
        }
    }

    /// Appends a row that waited in a spool.
    pub(crate) fn values(&mut self, row: Vec<Value>) -> Result<(), Halt> {
        match &mut self.out {
            Out::Batches(batches) => batches.row(row.iter().map(Value::cell)),
            Out::Spool { .. } => Ok(()),
        }
    }

    /// Emits the rest; an empty batch when there was no row at all.
    pub(crate) fn finish(self) -> Result<(), Halt> {
        match self.out {
            Out::Batches(batches) => batches.finish(),
            Out::Spool { .. } => Ok(()),
        }
    }
}

impl Batches<'_> {
    fn row<'c>(&mut self, cells: impl Iterator<Item = Cell<'c>>) -> Result<(), Halt> {
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

    fn finish(mut self) -> Result<(), Halt> {
        match self.rows > 0 || self.batches == 0 {
            true => self.flush(),
            false => Ok(()),
        }
    }
}
