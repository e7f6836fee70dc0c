//! What exports to one file and to a folder of tables share: what was asked, and the errors.

use std::io;
use std::process::ExitCode;

use clap::ValueEnum;
use export::{Chosen, Format, Value};

use crate::output::exit_code::USAGE;

/// `--value`.
#[derive(Clone, Copy, ValueEnum)]
pub enum By {
    /// Wall time, ns.
    Wall,
    /// CPU time, ns.
    Cpu,
    /// Time off the CPU, for any reason, ns.
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

/// What is exported, as asked for on the command line.
#[derive(Clone, Copy)]
pub struct Asked {
    /// `--value`.
    pub by: Option<By>,
    /// `--requests`.
    pub requests: Option<Chosen>,
    /// `--all-threads`.
    pub all_threads: bool,
}

impl Asked {
    /// Whether a format has no use for what was asked; reports it on stderr.
    pub fn refused(self, format: &str, has_one_value: bool) -> bool {
        if self.by.is_some() && !has_one_value {
            eprintln!(
                "dashcam: --value: {format} holds every value already; it is for folded and \
                 speedscope"
            );
            return true;
        }
        let chooses = self.requests.is_some() || self.all_threads;
        if chooses && format != Format::Pprof.name() {
            eprintln!(
                "dashcam: --requests and --all-threads: found --to {format}, wanted --to pprof"
            );
            return true;
        }
        false
    }
}

/// The error for a target that cannot be written.
pub fn not_written(target: &str, error: &io::Error) -> ExitCode {
    eprintln!(
        "dashcam: cannot write {target}: {error}; choose another place with -o; no partial file is left"
    );
    ExitCode::from(USAGE)
}
