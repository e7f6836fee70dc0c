//! `dashcam export --to parquet`: the tables of a capture, one Parquet file each, in a folder.
//!
//! How it works: a capture that is one part is exported from memory; a larger one is read in parts,
//! once for each section of a table.
//!
//! What it promises: the folder is there whole or not at all, even after an interruption. The
//! folder of an earlier export is replaced; a folder with anything else in it is refused.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::read::{Capture, Wanted};
use sys::whole_folder::WholeFolder;
use tables::parquet::Each;
use tables::{Divided, Halt, InParts, Limit, Source, Table};

use crate::export::parts::{self, Opened};
use crate::export::shared::{not_written, Asked};
use crate::output::exit_code::USAGE;
use crate::output::progress;
use crate::read::{self, judged_by};

/// Suffix of folders that are named after a capture.
const ENDING: &str = "parquet";

/// Exports the capture at `path`, or the newest in that folder.
pub fn export(path: &Path, asked: Asked, output: Option<&Path>) -> ExitCode {
    if asked.refused("parquet", false) {
        return ExitCode::from(USAGE);
    }
    let mut opened = match parts::open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let file = opened.file.clone();
    let target = output.map_or_else(|| file.with_extension(ENDING), Path::to_owned);
    if let Err(wrong) = check(&target) {
        eprintln!("dashcam: {wrong}");
        return ExitCode::from(USAGE);
    }
    let written = match opened.is_one() {
        true => {
            whole(&file).map(|source| write(&target, &mut |table, each| table.write(&source, each)))
        }
        false => in_parts(&mut opened, &target),
    };
    progress::clear();
    let written = match written {
        Ok(written) => written,
        Err(code) => return code,
    };
    match written {
        Ok(()) if output.is_none() => println!("{}", target.display()),
        Ok(()) => (),
        Err(error) => return not_written(&target.display().to_string(), &error),
    }
    ExitCode::SUCCESS
}

/// A capture of one part, in memory; its damage is reported on stderr.
fn whole(file: &Path) -> Result<Source, ExitCode> {
    let (file, capture) = read::open(file)?;
    for what in &capture.damage {
        eprintln!("dashcam: {}: {what}; what is whole is exported", file.display());
    }
    let limit = limit(&capture)?;
    Ok(Source::new(capture, file.display().to_string(), limit))
}

/// Writes a capture of several parts.
fn in_parts(opened: &mut Opened, target: &Path) -> Result<io::Result<()>, ExitCode> {
    let file = opened.file.clone();
    let (_, judged) = read::open_judged(&file, None)?;
    let (limits, own_stacks) = ([limit(&judged)?, limit(&judged)?], opened.own_stacks());
    let [of_judged, of_parts] = limits;
    let name = file.display().to_string();
    let judged = Source::new(judged, name.clone(), of_judged);
    opened.reports_damage = true;
    progress::stage("counting rows");
    let divided = Divided::new(opened, name, of_parts, (judged, own_stacks));
    Ok(divided
        .map_err(io::Error::other)
        .and_then(|mut divided| write(target, &mut |table, each| divided.write(table, each))))
}

fn limit(capture: &Capture) -> Result<Limit, ExitCode> {
    let rules = judged_by(capture, None)?;
    Ok(Box::new(move |name: &str| rules.limit_ns(name)))
}

impl InParts for Opened {
    fn each(
        &mut self,
        wanted: Wanted,
        each: &mut dyn FnMut(&mut Capture) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        self.again_for(wanted)?;
        let all = self.count() as u64;
        let walked = Opened::each(self, &mut |parts| {
            let mut part = 0;
            while (parts.next)(&mut parts.capture)? {
                progress::at(part, all);
                each(&mut parts.capture).map_err(io::Error::other)?;
                part += 1;
            }
            Ok(())
        });
        Ok(walked?)
    }

    fn last(&mut self) -> &mut Capture {
        &mut self.capture
    }
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

/// Calls with the batches of a table.
type Walk<'w> = dyn FnMut(&Table, &mut Each<'_>) -> Result<(), Halt> + 'w;

fn write(target: &Path, walk: &mut Walk<'_>) -> io::Result<()> {
    let mut folder = WholeFolder::create(target);
    for table in tables::all() {
        progress::stage(format!("writing parquet, table {}", table.name));
        let file = folder.file(&file_name(table).display().to_string())?;
        one(table, file, walk)
            .map_err(|e| io::Error::other(format!("table {}: {e}", table.name)))?;
    }
    folder.keep()
}

fn one(table: &Table, file: File, walk: &mut Walk<'_>) -> Result<(), Halt> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    tables::parquet::write(table, &mut out, |each| walk(table, each))?;
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
