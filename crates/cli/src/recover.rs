//! `dashcam recover`: a capture out of the black box of a process that was killed.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::region::DeadRegion;

use crate::read::{NOTHING, UNREADABLE};

/// Recovers `file`, or lists the boxes that are there.
pub fn recover(file: Option<&Path>, output: Option<&Path>) -> ExitCode {
    let Some(file) = file else { return list() };
    match recover_file(file, output) {
        Ok(path) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("dashcam: {}: {error}", file.display());
            ExitCode::from(UNREADABLE)
        }
    }
}

fn recover_file(file: &Path, output: Option<&Path>) -> Result<PathBuf, String> {
    let bytes = fs::read(file).map_err(|e| e.to_string())?;
    let region = DeadRegion::parse(&bytes).map_err(|e| e.to_string())?;
    if Path::new(&format!("/proc/{}", region.pid())).exists() {
        eprintln!(
            "dashcam: process {} is still running; what it writes meanwhile may be missing",
            region.pid()
        );
    }
    let stem = file.file_stem().map_or_else(|| "recovered".into(), |s| s.to_os_string());
    let path = output.map_or_else(|| PathBuf::from(stem).with_extension("dashcam"), Path::to_owned);
    let partial = path.with_extension("dashcam.part");
    let written = File::create(&partial)
        .and_then(|out| region.write_capture(BufWriter::new(out)))
        .and_then(|blocks| fs::rename(&partial, &path).map(|()| blocks));
    match written {
        Ok(blocks) => {
            let until = clock(region.reaches_epoch_ns());
            eprintln!(
                "dashcam: {blocks} blocks recovered, up to {until}; now: dashcam why {}",
                path.display()
            );
            Ok(path)
        }
        Err(error) => {
            let _ = fs::remove_file(&partial);
            Err(format!("cannot write {}: {error}", path.display()))
        }
    }
}

/// `10:14:03.123 UTC` of a Unix epoch time.
fn clock(epoch_ns: u64) -> String {
    let ms = epoch_ns / 1_000_000 % 86_400_000;
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{h:02}:{m:02}:{s:02}.{:03} UTC", ms % 1000)
}

fn list() -> ExitCode {
    let mut found = false;
    for folder in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        if !folder.file_name().to_string_lossy().starts_with("dashcam-") {
            continue;
        }
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|x| x == "box") {
                println!("{}", entry.path().display());
                found = true;
            }
        }
    }
    if found {
        return ExitCode::SUCCESS;
    }
    eprintln!("dashcam: no black box of a dead process is left on this host");
    ExitCode::from(NOTHING)
}
