//! A table as a Parquet file.
//!
//! Snappy, one row group for each million rows at most, columns named and typed as in Arrow. The
//! same capture gives the same bytes.

use std::io::Write;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::{Halt, Table};

/// Rows that are gathered, encoded and compressed before they are written.
const GROUP_ROWS: usize = 1 << 20;

/// Takes a batch.
pub type Each<'e> = dyn FnMut(RecordBatch) -> Result<(), Halt> + 'e;

/// Writes `table` into `out`; `walk` calls with its batches. Errors are those of `out` and `walk`.
pub fn write<W: Write + Send>(
    table: &Table,
    out: W,
    walk: impl FnOnce(&mut Each<'_>) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(format!("dashcam {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    walk(&mut |batch| Ok(writer.write(&batch)?))?;
    writer.close()?;
    Ok(())
}
