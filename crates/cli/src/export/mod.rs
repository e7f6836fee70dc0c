//! `dashcam export`: a capture in a format that other tools open.
//!
//! How it works: the export goes to the file of `-o`; else to stdout when stdout is a pipe or a
//! file; else, at a terminal, to a file beside the capture, whose name is printed. The capture is
//! read in parts, each written before the next is read.
//!
//! What it promises: a file is there whole or not at all, even after an interruption.

#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
pub(crate) mod parquet;
pub(crate) mod parts;
pub(crate) mod post;
pub(crate) mod shared;
pub(crate) mod tls;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use export::{Chosen, Format, Options, Value};

use crate::export::parts::Opened;
use crate::export::shared::{not_written, Asked};
use crate::output::exit_code::{NOTHING, UNREADABLE, USAGE};
use crate::output::progress;
use crate::output::{same, write};
use crate::read::judged_by;

/// `--to`.
#[derive(Clone, Copy, ValueEnum)]
pub enum To {
    /// go tool pprof (gzipped profile.proto).
    Pprof,
    /// speedscope.app.
    Speedscope,
    /// flamegraph.pl and similar tools: one line for each stack.
    Folded,
    /// chrome://tracing (trace event JSON).
    Chrome,
    /// ui.perfetto.dev (protobuf).
    Perfetto,
    /// A folder of Parquet files, one for each table (docs/tables.md).
    Parquet,
    /// OpenTelemetry: traces (protobuf).
    Otlp,
    /// OpenTelemetry: metrics (protobuf).
    OtlpMetrics,
    /// Zipkin (v2 JSON).
    Zipkin,
}

impl To {
    /// The format, if it is one file; None: tables, which are many files.
    fn format(self) -> Option<Format> {
        Some(match self {
            To::Pprof => Format::Pprof,
            To::Speedscope => Format::Speedscope,
            To::Folded => Format::Folded,
            To::Chrome => Format::Chrome,
            To::Perfetto => Format::Perfetto,
            To::Otlp => Format::Otlp,
            To::OtlpMetrics => Format::OtlpMetrics,
            To::Zipkin => Format::Zipkin,
            To::Parquet => return None,
        })
    }
}

/// `--requests`.
pub fn chosen(text: &str) -> Result<Chosen, String> {
    match text {
        "slow" => Ok(Chosen::Slow),
        "normal" => Ok(Chosen::Normal),
        id => id.parse().map(Chosen::One).map_err(|_| {
            format!("found {id:?}, wanted slow, normal, or an id as `dashcam show` has it")
        }),
    }
}

/// Where the export goes.
enum Place {
    Stdout,
    File(PathBuf),
}

/// Posts the capture at `path`, or the newest in that folder, to a collector.
pub fn post(path: &Path, to: To, url: &str) -> ExitCode {
    if !matches!(to, To::Otlp) {
        let name = to.format().map_or("parquet", Format::name);
        eprintln!("dashcam: --post: found --to {name}, wanted --to otlp (it sends metrics too)");
        return ExitCode::from(USAGE);
    }
    crate::export::post::post(path, url)
}

/// Exports the capture at `path`, or the newest in that folder.
pub fn export(path: &Path, to: To, asked: Asked, output: Option<&Path>) -> ExitCode {
    let Some(format) = to.format() else { return parquet::export(path, asked, output) };
    if asked.refused(format.name(), format.has_one_value()) {
        return ExitCode::from(USAGE);
    }
    let mut opened = match parts::open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let rules = match judged_by(&opened.capture, None) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    let options = Options {
        value: asked.by.map_or(Value::default(), Value::from),
        requests: asked.requests.unwrap_or_default(),
        all_threads: asked.all_threads,
        limit_ns: &|name: &str| rules.limit_ns(name),
    };
    if let Err(code) = check(&mut opened, &options) {
        return code;
    }
    let file = opened.file.clone();
    opened.reports_damage = true;
    let place = match place(&file, format, output, io::stdout().is_terminal()) {
        Ok(place) => place,
        Err(wrong) => {
            eprintln!("dashcam: {wrong}");
            return ExitCode::from(USAGE);
        }
    };
    progress::stage(format!("writing {}", format.name()));
    let mut fill = |mut out: &mut dyn Write| {
        opened.each(&mut |all| {
            export::write_parts(all, format, &options, &mut out, &mut progress::at)
        })
    };
    let written = match &place {
        Place::Stdout => {
            let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
            fill(&mut out).and_then(|()| out.flush())
        }
        Place::File(target) => write(target, fill),
    };
    progress::clear();
    match (written, place) {
        (Ok(()), Place::File(target)) if output.is_none() => println!("{}", target.display()),
        (Ok(()), _) => (),
        // The reader of our output has closed it.
        (Err(error), Place::Stdout) if error.kind() == io::ErrorKind::BrokenPipe => (),
        (Err(error), place) => {
            let target = match place {
                Place::Stdout => "stdout".to_owned(),
                Place::File(target) => target.display().to_string(),
            };
            return not_written(&target, &error);
        }
    }
    ExitCode::SUCCESS
}

/// Whether there is something of the requests that were asked for; else reports what is missing.
fn check(opened: &mut Opened, options: &Options<'_>) -> Result<(), ExitCode> {
    if options.requests == Chosen::Everything {
        return Ok(());
    }
    progress::stage("looking for requests");
    let mut found = Vec::new();
    let read = opened.each(&mut |all| {
        while (all.next)(&mut all.capture)? {
            found.push(options.check(&all.capture));
        }
        Ok(())
    });
    progress::clear();
    let read = read.and_then(|()| opened.again());
    let file = opened.file.display();
    if let Err(error) = read {
        eprintln!("dashcam: {file}: {error}");
        return Err(ExitCode::from(UNREADABLE));
    }
    let notes: Vec<Option<&str>> = found.iter().flatten().copied().collect();
    match (notes.first(), found.pop()) {
        (None, Some(Err(nothing))) => {
            eprintln!("dashcam: --requests: {file}: {nothing}; `dashcam show` lists what it has");
            Err(ExitCode::from(NOTHING))
        }
        // What limits the export does so if it is true of every part.
        (Some(Some(note)), _) if notes.iter().all(Option::is_some) => {
            eprintln!("dashcam: --requests: {note}");
            Ok(())
        }
        _ => Ok(()),
    }
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
        Some(target) if same(target, capture) => Err(format!(
            "-o {}: is the capture itself, which would be lost; wanted another name",
            target.display()
        )),
        Some(target) => Ok(Place::File(target.to_owned())),
        None if terminal => Ok(Place::File(capture.with_extension(format.extension()))),
        None => Ok(Place::Stdout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
