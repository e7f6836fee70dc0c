//! `dashcam export --to parquet`: the tables of a capture, one Parquet file each, in a folder.
//!
//! What it promises: the folder is there whole or not at all, even after an interruption. The
//! folder of an earlier export is replaced; a folder with anything else in it is refused.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::read::Capture;
use sys::whole_folder::WholeFolder;
use tables::{Source, Table};

use crate::exit_code::USAGE;
use crate::export_shared::{not_written, Asked};
use crate::progress;
use crate::read::{self, judged_by};

/// Suffix of folders that are named after a capture.
const ENDING: &str = "parquet";

/// Exports the capture at `path`, or the newest in that folder.
pub fn export(path: &Path, asked: Asked, output: Option<&Path>) -> ExitCode {
    if asked.refused("parquet", false) {
        return ExitCode::from(USAGE);
    }
    let (file, capture) = match open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let target = output.map_or_else(|| file.with_extension(ENDING), Path::to_owned);
    if let Err(wrong) = check(&target) {
        eprintln!("dashcam: {wrong}");
        return ExitCode::from(USAGE);
    }
    let source = match source(capture, &file) {
        Ok(source) => source,
        Err(code) => return code,
    };
    let written = write(&source, &target);
    progress::clear();
    match written {
        Ok(()) if output.is_none() => println!("{}", target.display()),
        Ok(()) => (),
        Err(error) => return not_written(&target.display().to_string(), &error),
    }
    ExitCode::SUCCESS
}

/// Opens the capture, and reports its damage on stderr.
fn open(path: &Path) -> Result<(PathBuf, Capture), ExitCode> {
    let (file, capture) = read::open(path)?;
    for what in &capture.damage {
        eprintln!("dashcam: {}: {what}; what is whole is exported", file.display());
    }
    Ok((file, capture))
}

fn source(capture: Capture, file: &Path) -> Result<Source, ExitCode> {
    let rules = judged_by(&capture, None)?;
    let limit = Box::new(move |name: &str| rules.limit_ns(name));
    Ok(Source::new(capture, file.display().to_string(), limit))
}

/// Whether the folder may be written or replaced.
fn check(target: &Path) -> Result<(), String> {
    let shown = target.display();
    if target == Path::new("-") {
        return Err("-o -: parquet is a folder of files, one a table; wanted its name".to_owned());
    }
    let Ok(kind) = fs::metadata(target) else { return Ok(()) };
    if !kind.is_dir() {
        return Err(format!("-o {shown}: is a file, wanted the name of a folder for the tables"));
    }
    let entries = fs::read_dir(target).map_err(|error| format!("-o {shown}: {error}"))?;
    let foreign = entries.flatten().map(|entry| entry.file_name()).find(|name| {
        let table = name.to_str().and_then(|n| n.strip_suffix(".parquet"));
        table.and_then(tables::named).is_none()
    });
    foreign.map_or(Ok(()), |name| {
        let name = name.to_string_lossy().into_owned();
        Err(format!(
            "-o {shown}: holds {name:?}, which is no table of an earlier export; wanted a new \
             name or an empty folder"
        ))
    })
}

fn write(source: &Source, target: &Path) -> io::Result<()> {
    let mut folder = WholeFolder::create(target);
    for table in tables::all() {
        progress::stage(format!("writing parquet, table {}", table.name));
        let file = folder.file(&file_name(table).display().to_string())?;
        one(source, table, file)
            .map_err(|e| io::Error::other(format!("table {}: {e}", table.name)))?;
    }
    folder.keep()
}

fn one(source: &Source, table: &Table, file: File) -> Result<(), tables::Halt> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    tables::parquet::write(source, table, &mut out)?;
    out.flush()?;
    Ok(())
}

fn file_name(table: &Table) -> PathBuf {
    PathBuf::from(format!("{}.parquet", table.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_an_earlier_export_are_replaced() {
        let folder = std::env::temp_dir().join(format!("dashcam-parquet-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        assert_eq!(check(&folder), Ok(()), "empty");
        assert_eq!(check(&folder.join("new")), Ok(()));
        fs::write(folder.join("requests.parquet"), "x").expect("written");
        assert_eq!(check(&folder), Ok(()));
        fs::write(folder.join("diary.parquet"), "x").expect("written");
        assert!(check(&folder).is_err_and(|e| e.contains("\"diary.parquet\"")));
        assert!(check(&folder.join("diary.parquet")).is_err_and(|e| e.contains("is a file")));
        assert!(check(Path::new("-")).is_err_and(|e| e.contains("a folder of files")));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
