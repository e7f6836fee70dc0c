//! `dashcam export`: a capture in a format that other tools open.
//!
//! Where it goes: to the file of `-o`; else to stdout when that is a pipe or a file; else, at a
//! terminal, to a file beside the capture, whose name is printed. A file is there whole or not at
//! all, whenever we are interrupted.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use capture::read::Capture;
use clap::ValueEnum;
use export::{Format, Value};
use sys::whole_file::WholeFile;

use crate::read::{self, USAGE};

/// `--to`.
#[derive(Clone, Copy, ValueEnum)]
pub enum To {
    /// go tool pprof (gzipped profile.proto).
    Pprof,
    /// speedscope.app.
    Speedscope,
    /// flamegraph.pl and its kin: a line a stack.
    Folded,
    /// chrome://tracing (trace event JSON).
    Chrome,
    /// ui.perfetto.dev (protobuf).
    Perfetto,
}

impl From<To> for Format {
    fn from(to: To) -> Format {
        match to {
            To::Pprof => Format::Pprof,
            To::Speedscope => Format::Speedscope,
            To::Folded => Format::Folded,
            To::Chrome => Format::Chrome,
            To::Perfetto => Format::Perfetto,
        }
    }
}

/// `--value`.
#[derive(Clone, Copy, ValueEnum)]
pub enum By {
    /// Wall time, ns.
    Wall,
    /// CPU time, ns.
    Cpu,
    /// Time off the CPU, any reason, ns.
    OffCpu,
    /// Number of samples.
    Samples,
}

impl From<By> for Value {
    fn from(by: By) -> Value {
        match by {
            By::Wall => Value::Wall,
            By::Cpu => Value::Cpu,
            By::OffCpu => Value::OffCpu,
            By::Samples => Value::Samples,
        }
    }
}

/// Captures smaller than this are over before a line about them is read.
const TELL_BYTES: u64 = 8 << 20;

/// Where the export goes.
enum Place {
    Stdout,
    File(PathBuf),
}

/// Exports the capture at `path`, or the newest in that folder.
pub fn export(path: &Path, to: To, by: Option<By>, output: Option<&Path>) -> ExitCode {
    let format = Format::from(to);
    if by.is_some() && !format.has_one_value() {
        eprintln!(
            "dashcam: --value: {} holds every value already; it is for folded and speedscope",
            format.name()
        );
        return ExitCode::from(USAGE);
    }
    let teller = Teller::new(path);
    teller.line(|| format!("reading {}", path.display()));
    let (file, capture) = match read::open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    for what in &capture.damage {
        eprintln!("dashcam: {}: {what}; what is whole is exported", file.display());
    }
    let place = match place(&file, format, output, io::stdout().is_terminal()) {
        Ok(place) => place,
        Err(wrong) => {
            eprintln!("dashcam: {wrong}");
            return ExitCode::from(USAGE);
        }
    };
    let value = by.map_or(Value::default(), Value::from);
    let written = match &place {
        Place::Stdout => to_writer(&capture, format, value, &mut io::stdout().lock(), teller),
        Place::File(target) => to_file(&capture, format, value, target, teller),
    };
    match (written, place) {
        (Ok(()), Place::File(target)) if output.is_none() => println!("{}", target.display()),
        (Ok(()), _) => (),
        // Whoever read our output has seen enough.
        (Err(error), Place::Stdout) if error.kind() == io::ErrorKind::BrokenPipe => (),
        (Err(error), place) => {
            let target = match place {
                Place::Stdout => "stdout".to_owned(),
                Place::File(target) => target.display().to_string(),
            };
            eprintln!(
                "dashcam: cannot write {target}: {error}; give another place with -o; nothing \
                 half is left"
            );
            return ExitCode::from(USAGE);
        }
    }
    ExitCode::SUCCESS
}

fn place(
    capture: &Path,
    format: Format,
    output: Option<&Path>,
    terminal: bool,
) -> Result<Place, String> {
    match output {
        Some(dash) if dash == Path::new("-") => match terminal && format.is_binary() {
            true => Err(format!(
                "-o -: stdout is a terminal and {} is binary; wanted a file (-o FILE), a pipe, or \
                 no -o for a file beside the capture",
                format.name()
            )),
            false => Ok(Place::Stdout),
        },
        Some(target) if target.is_dir() => {
            Err(format!("-o {}: is a folder, wanted the name of a file", target.display()))
        }
        Some(target) if same_file(target, capture) => Err(format!(
            "-o {}: is the capture itself, which would be lost; wanted another name",
            target.display()
        )),
        Some(target) => Ok(Place::File(target.to_owned())),
        None if terminal => Ok(Place::File(capture.with_extension(format.extension()))),
        None => Ok(Place::Stdout),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

fn to_file(
    capture: &Capture,
    format: Format,
    value: Value,
    target: &Path,
    teller: Teller,
) -> io::Result<()> {
    // A device or a named pipe cannot be replaced by a file.
    if fs::metadata(target).is_ok_and(|kind| !kind.is_file()) {
        let mut out = fs::OpenOptions::new().write(true).open(target)?;
        return to_writer(capture, format, value, &mut out, teller);
    }
    let mut out = WholeFile::create(target)?;
    to_writer(capture, format, value, &mut out, teller)?;
    out.keep()
}

fn to_writer(
    capture: &Capture,
    format: Format,
    value: Value,
    out: &mut dyn Write,
    mut teller: Teller,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut progress = |done, all| teller.tell(format, done, all);
    export::write(capture, format, value, &mut out, &mut progress)?;
    out.flush()
}

/// Tells on stderr how far we are, if somebody sits there and it takes long.
struct Teller {
    on: bool,
    told: Instant,
}

impl Teller {
    fn new(path: &Path) -> Teller {
        let large = fs::metadata(path).is_ok_and(|m| m.is_dir() || m.len() >= TELL_BYTES);
        Teller { on: large && io::stderr().is_terminal(), told: Instant::now() }
    }

    fn line(&self, text: impl Fn() -> String) {
        if self.on {
            eprint!("\r\x1b[Kdashcam: {}", text());
        }
    }

    fn tell(&mut self, format: Format, done: u64, all: u64) {
        if self.on && self.told.elapsed() >= Duration::from_millis(100) {
            self.told = Instant::now();
            let percent = done.saturating_mul(100) / all.max(1);
            self.line(|| format!("writing {}: {percent} %", format.name()));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if self.on {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_goes_to_no_terminal_and_nothing_goes_over_the_capture() {
        let folder = std::env::temp_dir();
        let capture = folder.join(format!("dashcam-export-{}.dashcam", std::process::id()));
        fs::write(&capture, "x").expect("written");
        let to = |format, output: Option<&Path>, terminal| {
            place(&capture, format, output, terminal).map(|place| match place {
                Place::Stdout => "-".to_owned(),
                Place::File(path) => path.display().to_string(),
            })
        };
        let dash = Some(Path::new("-"));
        assert!(to(Format::Pprof, dash, true).is_err_and(|e| e.contains("binary")));
        assert!(to(Format::Perfetto, dash, true).is_err());
        assert_eq!(to(Format::Folded, dash, true), Ok("-".to_owned()));
        assert_eq!(to(Format::Pprof, None, false), Ok("-".to_owned()));
        let beside = to(Format::Pprof, None, true).expect("a file");
        assert!(beside.ends_with(".pb.gz") && beside.starts_with(&*folder.to_string_lossy()));
        assert!(to(Format::Folded, Some(&folder), true).is_err_and(|e| e.contains("folder")));
        let itself = to(Format::Folded, Some(&capture), false);
        assert!(itself.is_err_and(|e| e.contains("capture itself")));
        fs::remove_file(&capture).expect("removed");
    }
}
