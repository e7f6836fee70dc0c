//! The `dashcam` command: parses arguments and calls. Data on stdout, everything else on stderr.
//!
//! Exit codes: 0 success; 1 nothing was found (no cause, no capture), or something is worse
//! (`diff`, `why --against`); 2 wrong usage, or output that cannot be written; 3 input that cannot
//! be read. `run` exits as its child does.

mod alert;
mod brief;
mod diff;
mod doctor;
mod export;
mod flags;
mod judge;
mod ls;
mod mcp;
mod others;
mod output;
mod processes;
mod read;
mod recover;
mod show;
mod source;
mod sql;
mod top;
mod view;
mod why;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand};

use crate::export::shared;
use crate::flags::Flags;
use crate::output::{exit_code, pages};
use crate::processes::{attach, dump, live, python, run};

/// The always-on black box of a running service: says why a request was slow.
#[derive(Parser)]
#[command(name = "dashcam", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program with dashcam in it: `dashcam run --slow 500ms -- python app.py`
    Run(Box<Run>),
    /// Record a Python process that runs already: `dashcam attach PID --slow 500ms`
    Attach {
        /// Its process id.
        #[arg(value_parser = process_number)]
        pid: u32,
        #[command(flatten)]
        settings: Flags,
        /// Also the Python processes below it, and those that they will start.
        #[arg(long)]
        tree: bool,
        /// How long its main thread may take to run Python code: 30s, 5m.
        #[arg(long, default_value = "30s", value_parser = duration)]
        wait: Duration,
    },
    /// Stop recording a process
    Detach {
        /// Its process id, or the name of a service, as in `dashcam ps`.
        #[arg(value_name = "PID|SERVICE")]
        process: String,
    },
    /// Name the cause: `dashcam why CAPTURE|DIR`
    Why {
        /// Captures, or folders (the newest capture in each); `-` is stdin.
        #[arg(value_name = "CAPTURE|DIR", required = true)]
        paths: Vec<PathBuf>,
        /// Only captures that were saved in this time, of a folder all of them: 10m, 24h.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        since: Option<Duration>,
        /// Print JSON (schema 1); of several captures a list.
        #[arg(long)]
        json: bool,
        /// Print Markdown, for a ticket.
        #[arg(long, conflicts_with = "json")]
        md: bool,
        /// Judge by these rules instead of the capture's own (as `run --slow`).
        #[arg(long)]
        slow: Option<String>,
        /// Also say which findings are new since then, or were there: exit code 1 if one is new or
        /// has grown, 0 if none.
        #[arg(long, value_name = "CAPTURE|DIR", conflicts_with = "since")]
        against: Option<PathBuf>,
        /// Also say why: intervals, candidates for the blocker with their evidence, rules,
        /// thresholds.
        #[arg(long)]
        explain: bool,
    },
    /// Why is B slower than A? Names and causes that are new, grown, shrunk, gone
    ///
    /// Exit codes: 0 nothing is worse in B; 1 something is new or worse; 3 a side cannot be read.
    Diff {
        /// Before: a capture, or a folder of captures (all of them).
        #[arg(value_name = "CAPTURE|DIR")]
        a: PathBuf,
        /// After: another one.
        #[arg(value_name = "CAPTURE|DIR")]
        b: PathBuf,
        /// Judge both by these rules (as `run --slow`) [default: those of B's newest capture].
        #[arg(long)]
        slow: Option<String>,
        /// Print JSON (schema 1).
        #[arg(long)]
        json: bool,
    },
    /// What is in a capture: time covered, verdict, requests, threads, sources, losses
    #[command(group(ArgGroup::new("one").args(["slowest", "request"])))]
    Show {
        /// A capture, or a folder (its newest capture).
        #[arg(value_name = "CAPTURE|DIR")]
        path: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Print the slowest request, instead of the summary: its spans, and where its time went.
        #[arg(long)]
        slowest: bool,
        /// The same of the request with this id, as an exemplar of the OpenMetrics endpoint has it.
        #[arg(long, value_name = "ID", value_parser = request_id)]
        request: Option<u64>,
        /// With --slowest or --request: everything that all threads did meanwhile, by time.
        #[arg(long, requires = "one")]
        all: bool,
    },
    /// A capture in a format that other tools open: `dashcam export CAPTURE --to pprof -o FILE`
    Export {
        /// A capture, or a folder (its newest capture).
        #[arg(value_name = "CAPTURE|DIR")]
        path: PathBuf,
        /// The format.
        #[arg(long)]
        to: export::To,
        /// What stacks are weighed by, for folded and speedscope [default: wall].
        #[arg(long)]
        value: Option<shared::By>,
        /// With `--to pprof`: samples of slow requests, of normal ones, or of the request with this
        /// id, instead of all samples.
        #[arg(long, value_name = "slow|normal|ID", value_parser = export::chosen)]
        requests: Option<::export::Chosen>,
        /// With `--to pprof`: dashcam's own threads, too.
        #[arg(long)]
        all_threads: bool,
        /// Where to write, `-` for stdout; default: stdout, or, when that is a terminal, a file
        /// beside the capture.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// With `--to otlp`: send traces and metrics to the collector there, `http://HOST:4318`
        /// or `https://HOST`.
        #[arg(long, value_name = "URL", conflicts_with = "output")]
        post: Option<String>,
    },
    /// SQL over a capture's tables: `dashcam sql CAPTURE "select ..."` (docs/tables.md)
    Sql {
        /// A capture, or a folder (its newest capture).
        #[arg(value_name = "CAPTURE|DIR")]
        path: PathBuf,
        /// The query, in DuckDB's SQL.
        query: String,
        /// Print JSON: a list of rows.
        #[arg(long)]
        json: bool,
        /// Print CSV, with a header.
        #[arg(long, conflicts_with = "json")]
        csv: bool,
    },
    /// One question over the captures of many hosts: `dashcam fleet why DIR` (docs/guide/fleet.md)
    #[command(disable_help_flag = true)]
    Fleet {
        /// why, diff, trend, show, sql or index, and their arguments; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "VERB")]
        arguments: Vec<OsString>,
    },
    /// Send rows of new captures to a fleet's tables: `dashcam ship DIR DEST` (docs/guide/fleet.md)
    #[command(disable_help_flag = true)]
    Ship {
        /// Folder and destination, and their options; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SRC DEST")]
        arguments: Vec<OsString>,
    },
    /// One self-contained HTML page: verdict, requests, timelines, flame graph, waits
    View {
        /// A capture, or a folder (its newest capture).
        #[arg(value_name = "CAPTURE|DIR")]
        path: PathBuf,
        /// Where to write [default: beside the capture, with the ending .html].
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// Judge by these rules instead of the capture's own (as `run --slow`).
        #[arg(long)]
        slow: Option<String>,
    },
    /// The captures in a folder, the newest first, with their verdicts
    Ls {
        /// The folder.
        #[arg(value_name = "DIR", default_value = "captures")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A capture from the black box that a killed process left behind
    Recover {
        /// The black box (FILE.box); without it those that this user may read are listed.
        file: Option<PathBuf>,
        /// Where to write [default: in this folder, named after the box].
        #[arg(short, long, requires = "file")]
        output: Option<PathBuf>,
        /// List them as JSON.
        #[arg(long, conflicts_with = "file")]
        json: bool,
    },
    /// The recorded processes of this user
    Ps {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// State of a recorded process: settings, sources, losses, own cost
    Status {
        /// Its process id, or the name of a service, as in `dashcam ps`.
        #[arg(value_name = "PID|SERVICE")]
        process: String,
        /// Print JSON, as `dashcam.status()` gives it.
        #[arg(long)]
        json: bool,
    },
    /// Make a recorded process save a capture now; prints its path
    Snap {
        /// Its process id, or the name of a service, as in `dashcam ps`.
        #[arg(value_name = "PID|SERVICE")]
        process: String,
        /// The reason; recorded in the capture.
        reason: Option<String>,
    },
    /// What every thread, task and request of a process does now: stacks, locks and their holders
    ///
    /// A recorded process answers itself. Any other CPython process is read from outside, without
    /// stopping it.
    Dump {
        /// Its process id, or the name of a service, as in `dashcam ps`.
        #[arg(value_name = "PID|SERVICE")]
        process: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What a recorded process does, live: requests by name, open ones, threads, CPU, the verdict
    ///
    /// Ends at `q` and Enter, or Ctrl-C. Without a terminal, lines every second.
    Top {
        /// Its process id, or the name of a service, as in `dashcam ps`.
        #[arg(value_name = "PID|SERVICE")]
        process: String,
        /// Once, instead of every second.
        #[arg(long)]
        once: bool,
        /// Print JSON, an object a line.
        #[arg(long)]
        json: bool,
    },
    /// Change settings of a recorded process: `dashcam set PID slow=250ms`, `dashcam set PID off`
    Set {
        /// Its process id, or the name of a service, as in `dashcam ps`.
        #[arg(value_name = "PID|SERVICE")]
        process: String,
        #[arg(required = true, help = flags::live())]
        settings: Vec<String>,
    },
    /// A ready hook: sends the verdict on a capture to Slack or PagerDuty (docs/triggers.md)
    Alert {
        /// The capture.
        file: PathBuf,
        /// A webhook that takes Slack's messages [default: DASHCAM_ALERT_SLACK].
        #[arg(long, value_name = "URL")]
        slack: Option<String>,
        /// The routing key of a PagerDuty service [default: DASHCAM_ALERT_PAGERDUTY].
        #[arg(long, value_name = "KEY")]
        pagerduty: Option<String>,
        /// Print what would be sent, and send nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Read-only tools for coding agents, over the Model Context Protocol (docs/guide/agents.md)
    Mcp {
        /// Folders that may be read [default: captures].
        #[arg(value_name = "DIR")]
        folders: Vec<PathBuf>,
    },
    /// Completions for a shell: `dashcam completions bash > /etc/bash_completion.d/dashcam`
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Manual pages, one for each verb, as files in a folder: `dashcam man /usr/share/man/man1`
    Man {
        /// The folder.
        folder: PathBuf,
    },
    /// Judge captures for the recorder (setting explain)
    #[command(hide = true)]
    Judge {
        /// The captures.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The list of captures.
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// Which sources work on this host, which do not, why, and what would enable them
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    settings: Flags,
    /// The program and its arguments: a command, a script, or (behind `--`) `-m module`.
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

fn process_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "wanted the number of a process, as `pgrep -f NAME` prints it")
}

/// The line around it names the flag and the value.
fn duration(text: &str) -> Result<Duration, String> {
    let time = trigger::duration_ns("", text).map(Duration::from_nanos);
    time.map_err(|wrong| format!("wanted {}", wrong.wanted))
}

fn request_id(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "wanted the number of a request, as an exemplar has it")
}

fn main() -> ExitCode {
    report_lost_output();
    match Cli::try_parse() {
        Ok(cli) => carry_out(cli.command),
        Err(error) => {
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

fn carry_out(command: Command) -> ExitCode {
    match command {
        Command::Run(run) => run::run(&run.settings, &run.command),
        Command::Attach { pid, settings, tree, wait } => {
            attach::attach(pid, &attach::Wish { settings, tree, patience: wait })
        }
        Command::Detach { process } => live::detach(&process),
        Command::Why { paths, since, json, md, slow, against, explain } => {
            let form = match (json, md) {
                (true, _) => why::Form::Json,
                (_, true) => why::Form::Markdown,
                _ => why::Form::Text,
            };
            why::why(&paths, since, form, slow.as_deref(), explain, against.as_deref())
        }
        Command::Diff { a, b, slow, json } => diff::diff(&a, &b, slow.as_deref(), json),
        Command::Show { path, json, slowest, request, all } => {
            let slowest = slowest.then_some(show::One::Slowest);
            show::show(&path, show::Form::of(json, all), request.map(show::One::Id).or(slowest))
        }
        Command::Sql { path, query, json, csv } => {
            let form = match (json, csv) {
                (true, _) => "json",
                (_, true) => "csv",
                _ => "table",
            };
            sql::sql(&path, &query, form)
        }
        Command::Fleet { arguments } => {
            python::call("dashcam._fleet.command", "process", &arguments)
                .unwrap_or_else(|| python::missing("fleet", "pip install 'dashcam[fleet]'"))
        }
        Command::Ship { arguments } => {
            python::replace("dashcam._fleet.ship.command", &arguments);
            python::missing("ship", "pip install 'dashcam[ship]'")
        }
        Command::Export { path, to, value: by, requests, all_threads, output, post } => {
            match post {
                Some(url) => export::post(&path, to, &url),
                None => {
                    let asked = shared::Asked { by, requests, all_threads };
                    export::export(&path, to, asked, output.as_deref())
                }
            }
        }
        Command::View { path, output, slow } => {
            view::view(&path, output.as_deref(), slow.as_deref())
        }
        Command::Recover { file: Some(file), output, .. } => {
            recover::recover(&file, output.as_deref())
        }
        Command::Recover { file: None, json, .. } => recover::list(json),
        Command::Ls { folder, json } => ls::ls(&folder, json),
        Command::Completions { shell } => pages::completions(&mut Cli::command(), shell),
        Command::Man { folder } => pages::man(Cli::command(), &folder),
        Command::Ps { json } => live::ps(json),
        Command::Status { process, json } => live::status(&process, json),
        Command::Dump { process, json } => dump::dump(&process, json),
        Command::Top { process, once, json } => top::top(&process, top::Form { json, once }),
        Command::Snap { process, reason } => live::snap(&process, reason.as_deref()),
        Command::Set { process, settings } => live::set(&process, &settings),
        Command::Alert { file, slack, pagerduty, dry_run } => {
            alert::alert(&file, &alert::Receivers { slack, pagerduty }, dry_run)
        }
        Command::Mcp { folders } => mcp::mcp(folders),
        Command::Judge { files, log } => judge::judge(&files, log.as_deref()),
        Command::Doctor { json } => doctor::doctor(json),
    }
}

/// `println!` panics when it cannot write. A reader that closes our stdout early (`| head`) is no
/// error of ours; a full disk is one.
fn report_lost_output() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>().map_or("", String::as_str);
        match text.strip_prefix("failed printing to ") {
            Some(why) if why.contains("Broken pipe") => std::process::exit(0),
            Some(why) => {
                let _ = writeln!(io::stderr(), "dashcam: cannot write to {why}");
                std::process::exit(i32::from(exit_code::USAGE));
            }
            None => default(info),
        }
    }));
}
