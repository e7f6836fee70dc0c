//! Columns, and the values that rows put into them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Int,
    /// Fractional numbers.
    Float,
    /// True or false.
    Bool,
    /// Text.
    Text,
    /// An instant by the wall clock, UTC, in microseconds: the finest unit that all readers take
    /// (Spark refuses Parquet's nanoseconds). The exact instant is in the `..._ns` column beside
    /// it. It has no time zone: readers that do not know time zones (and DuckDB without its
    /// extension) show it unchanged.
    Utc,
}

impl Kind {
    /// Its Arrow type.
    pub fn data_type(self) -> DataType {
        match self {
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Text => DataType::Utf8,
            Kind::Utc => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// Its word in docs/tables.md.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Int => "int64",
            Kind::Float => "double",
            Kind::Bool => "bool",
            Kind::Text => "text",
            Kind::Utc => "timestamp[us]",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name; it ends with its unit.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// Whether it may hold NULL: the value is not known, or does not apply.
    pub nullable: bool,
    /// What it says, in one line.
    pub about: &'static str,
}

/// The Arrow schema of a list of columns.
pub(crate) fn schema(columns: &[Column]) -> SchemaRef {
    let field = |c: &Column| Field::new(c.name, c.kind.data_type(), c.nullable);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<Field>>()))
}

/// A column that always holds a value.
pub(crate) const fn always(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, nullable: false, about }
}

/// A column that may hold NULL.
pub(crate) const fn maybe(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, nullable: true, about }
}

/// One value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

/// A time, an amount or an id.
pub(crate) fn int<'a>(value: impl TryInto<i64>) -> Cell<'a> {
    Cell::Int(value.try_into().unwrap_or(i64::MAX))
}

/// The same; 0 means that there is none.
pub(crate) fn id<'a>(value: impl TryInto<i64>) -> Cell<'a> {
    match int(value) {
        Cell::Int(0) => Cell::Null,
        cell => cell,
    }
}

/// The same, if there is one.
pub(crate) fn opt<'a>(value: Option<impl TryInto<i64>>) -> Cell<'a> {
    value.map_or(Cell::Null, int)
}

/// Text, if there is any.
pub(crate) fn text(value: Option<&str>) -> Cell<'_> {
    value.map_or(Cell::Null, Cell::Text)
}
