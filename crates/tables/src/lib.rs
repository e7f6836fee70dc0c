//! A capture as tables: Arrow batches for Python and DuckDB, files of Parquet for the rest.
//!
//! How it works: a table is a list of columns, and a function that walks the capture and writes the
//! table's rows, in order, into a `Sink`. The sink fills builders and hands out a batch at a time:
//! to a channel that a reader empties (`Reader`), to a Parquet writer (`parquet`), to a closure.
//!
//! ```text
//!   capture -> Source -> Table::rows -> Sink -> RecordBatch -> Reader (Arrow C stream) -> Python
//!                                                           -> parquet::write          -> a folder
//! ```
//!
//! What it promises: names, order and types of columns are those of docs/tables.md (a test compares
//! them); times are i64 ns of CLOCK_MONOTONIC, `..._utc` the same instant by the wall clock; the
//! same capture gives the same rows in the same order; a number past i64 is cut to its end, never
//! wrapped; every readable capture gives tables. Besides the capture a table costs the memory of a
//! few batches of at most `BATCH_ROWS` rows, and the cost that the file of its rows states.
//!
//! A capture in parts (`parts`) gives the same rows in the memory of a part.
//!
//! Missing on purpose: no I/O except through the writer that is passed in and a temporary file;
//! and no rules of its own: states, claimed segments and causes are the diagnosis's.

mod cell;
mod counts;
pub mod doc;
mod halt;
mod join;
#[cfg(feature = "parquet")]
pub mod parquet;
mod parts;
mod reader;
mod rows;
mod sink;
mod source;
mod spool;
pub mod summary;
mod table;
mod whole;

pub use cell::{Column, Kind};
pub use halt::Halt;
pub use parts::{Divided, InParts};
pub use reader::Reader;
pub use rows::{all, named};
pub use sink::{Sink, BATCH_ROWS};
pub use source::{Limit, Source, Verdict};
pub use table::Table;
