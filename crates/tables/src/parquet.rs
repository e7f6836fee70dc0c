//! A table as a Parquet file.
//!
//! Snappy, one row group for each million rows at most, columns named and typed as in Arrow. The
//! same capture gives the same bytes.

use std::io::Write;

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::{Halt, Source, Table};

/// Rows that are gathered, encoded and compressed before they are written.
const GROUP_ROWS: usize = 1 << 20;

/// Writes `table` of `source` into `out`. Errors are those of `out`.
pub fn write<W: Write + Send>(source: &Source, table: &Table, out: W) -> Result<(), Halt> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(format!("dashcam {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    table.write(source, &mut |batch| Ok(writer.write(&batch)?))?;
    writer.close()?;
    Ok(())
}
