//! The black box -> a capture file, without stopping anybody, nor keeping a CPU that others want.
//!
//! A capture has its name when it is whole, so that nobody ever reads half of one, and a process that
//! is killed meanwhile leaves nothing (`sys::whole_file`). The folder's count and size caps are kept
//! by removing the oldest.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use capture::write::CaptureWriter;
use format::region::losses;
use ring::{BlockCopy, Region};
use sys::turns::Turns;
use sys::whole_file::WholeFile;

use crate::config::Config;

/// Writes a capture reaching back to `since_ns`. Errors: the folder or file cannot be written.
pub fn write(
    config: &Config,
    region: &Region,
    meta: &str,
    since_ns: u64,
    number: u64,
) -> io::Result<PathBuf> {
    fs::create_dir_all(&config.out)?;
    let name = free_name(config, number);
    let path = config.out.join(&name);
    let file = WholeFile::create(&path)?;
    fill(file, region, meta, since_ns)?.keep()?;
    keep_caps(config, region, &path);
    Ok(path)
}

/// Numbers begin at 1 with each start: one that was taken in the same second is passed over.
fn free_name(config: &Config, mut number: u64) -> String {
    let (time, pid) = (utc(sys::clock::epoch_ns()), std::process::id());
    loop {
        let name = format!("{}-{time}-{pid}-{number}.dashcam", config.service);
        if !config.out.join(&name).exists() {
            return name;
        }
        number += 1;
    }
}

/// A file written in pieces, between which others get their turn.
struct Paced {
    file: WholeFile,
    turns: Turns,
}

/// Bytes written in one go: some 30 us.
const PIECE: usize = 64 * 1024;
/// A capture is later by at most this, so that the service's threads need not wait for it.
const MOST_REST_NS: u64 = 1_000_000_000;

impl Write for Paced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(PIECE)]);
        self.turns.rest();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn fill(file: WholeFile, region: &Region, meta: &str, since_ns: u64) -> io::Result<WholeFile> {
    let file = Paced { file, turns: Turns::new(MOST_REST_NS) };
    let file = BufWriter::with_capacity(PIECE, file);
    let mut writer = CaptureWriter::new(file, meta)?;
    let mut buffer = BlockCopy::default();
    // Blocks before tables: a record may name what was interned a moment before it, so tables
    // copied afterwards hold every id the blocks refer to. In the file tables stand first, so the
    // copy of the blocks is written behind them: tables are append-only, and those copied first
    // would miss ids. Hence twice: once for readers of cut-off files, once complete at the end.
    writer.tables(&region.copy_tables())?;
    writer.open_spans(&region.copy_open())?;
    let overwritten =
        region.copy_blocks(since_ns, &mut buffer, |block| writer.block(block.words()))?;
    writer.tables(&region.copy_tables())?;
    let buffered = writer.finish(overwritten)?;
    Ok(buffered.into_inner().map_err(io::IntoInnerError::into_error)?.file)
}

/// Removes the oldest captures of this folder until count and size fit. Only files that bear a
/// capture's name are touched; a capture removed by another process meanwhile is no error.
fn keep_caps(config: &Config, region: &Region, newest: &Path) {
    let Ok(entries) = fs::read_dir(&config.out) else {
        return;
    };
    let mut captures: Vec<(std::time::SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "dashcam"))
        .filter_map(|e| {
            let meta = e.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len(), e.path()))
        })
        .collect();
    captures.sort();
    let mut count = captures.len();
    let mut bytes: u64 = captures.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in captures {
        if (count <= config.keep && bytes <= config.keep_bytes) || path == newest {
            break;
        }
        if fs::remove_file(&path).is_ok() {
            region.lose(losses::CAPTURES_REMOVED, 1);
        }
        count -= 1;
        bytes -= size;
    }
}

/// `2026-11-21T10-14-03` of a Unix epoch time.
pub fn utc(epoch_ns: u64) -> String {
    let seconds = epoch_ns / 1_000_000_000;
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    let (h, m, s) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}-{m:02}-{s:02}")
}

/// Days since 1970-01-01 -> year, month, day (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_is_not_given_again() {
        let out = std::env::temp_dir().join(format!("dashcam-names-{}", std::process::id()));
        fs::create_dir_all(&out).expect("a folder");
        let config = Config { out: out.clone(), service: "s".to_owned(), ..Config::default() };
        // The second may change between two names; then it tells them apart.
        let take = || {
            let name = free_name(&config, 1);
            fs::File::create_new(out.join(&name)).expect("a free name");
            name
        };
        let names: std::collections::BTreeSet<String> = (0..5).map(|_| take()).collect();
        fs::remove_dir_all(&out).expect("ours");
        assert_eq!(names.len(), 5, "{names:?}");
    }

    #[test]
    fn names_carry_the_utc_time() {
        assert_eq!(utc(0), "1970-01-01T00-00-00");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29T00-00-00");
        assert_eq!(utc(1_795_256_043_000_000_000), "2026-11-21T10-14-03");
    }
}
