//! `dashcam-sim`: runs simulated services and judges the diagnosis with them.
//!
//! `run` judges many seeds and prints the tables; `one` shows a seed: the program, the verdict, the
//! truth; `shrink` makes a failing seed small. Nothing is read but the arguments, nothing is
//! written but what `--out` names. Exit status: 0, or 1 where something could not be done, 2 for
//! arguments.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use capture::read::Capture;
use clap::{Parser, Subcommand};
use sim::engine::{Request, World};
use sim::fleet;
use sim::judge::calibrate::Calibration;
use sim::judge::case::{explained, false_alarms, judge, verdict, verdicts};
use sim::judge::compare::{pairs, table};
use sim::judge::shrink::shrink;
use sim::judge::table::{run, Scope, MODES};
use sim::judge::truth::Truth;
use sim::program::defects::DEFECTS;
use sim::program::{draw, Program, MS};

#[derive(Parser)]
#[command(name = "dashcam-sim", about = "Simulated services that judge the diagnosis")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Judges many seeds in both kernel modes.
    Run {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many.
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// Only seeds whose defect's name begins so.
        #[arg(long, default_value = "")]
        defect: String,
        /// Threads that do it.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Kinds of failures to list.
        #[arg(long, default_value_t = 20)]
        failures: usize,
        /// Begin no seed after so many seconds.
        #[arg(long, default_value_t = 86_400)]
        seconds: u64,
        /// Shrink the first failing seed of each mode.
        #[arg(long)]
        shrink: bool,
    },
    /// Shows one seed: its program, the verdict, the truth.
    One {
        /// The seed.
        seed: u64,
        /// With this defect, not the one whose turn it is.
        #[arg(long)]
        defect: Option<String>,
        /// Without switch records, as in a container.
        #[arg(long)]
        off: bool,
        /// The healthy twin.
        #[arg(long)]
        twin: bool,
        /// By a limit that one request in fifty breaks.
        #[arg(long)]
        tight: bool,
        /// Write the capture to this file.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Show why each finding says what it says, as `dashcam why --explain` does.
        #[arg(long)]
        explain: bool,
        /// Show the slowest request: its critical path in truth, and the samples of its thread.
        #[arg(long)]
        slowest: bool,
        /// The same of the request of this number.
        #[arg(long, conflicts_with = "slowest")]
        request: Option<u64>,
    },
    /// Writes captures of many hosts, versions and days, and `truth.jsonl`.
    Fleet {
        /// The seed of all of them.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many hosts.
        #[arg(long)]
        hosts: u64,
        /// The newer version has the same defect as the older one, in files with other names.
        #[arg(long)]
        renamed: bool,
        /// The folder.
        #[arg(long)]
        out: PathBuf,
    },
    /// Prints how programs of the zoo compare with the same things simulated.
    Compare {
        /// Golden captures.
        #[arg(long, default_value = "tests/captures")]
        golden: PathBuf,
    },
    /// Prints how often each inference about a blocker is right: what its weight should be.
    Calibrate {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many.
        #[arg(long, default_value_t = 1000)]
        count: u64,
    },
    /// Varies each threshold of the diagnosis, and prints which verdicts move.
    #[cfg(feature = "thresholds")]
    Thresholds {
        /// Simulated captures.
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// By so many percent, down and up.
        #[arg(long, default_value_t = 20.0)]
        percent: f64,
        /// Golden captures.
        #[arg(long, default_value = "tests/captures")]
        golden: PathBuf,
        /// Threads that judge.
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Makes a failing seed small.
    Shrink {
        /// The seed.
        seed: u64,
        /// With this defect, not the one whose turn it is.
        #[arg(long)]
        defect: Option<String>,
        /// Without switch records, as in a container.
        #[arg(long)]
        off: bool,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().what {
        What::Run { seed, count, defect, threads, failures, seconds, shrink } => {
            let its = |seed: &u64| draw::defect_of(*seed).name.starts_with(&defect);
            let seeds: Vec<u64> = (seed..seed.saturating_add(count)).filter(its).collect();
            many(&seeds, threads, failures, (seconds, shrink))
        }
        What::One {
            seed,
            defect,
            off,
            twin,
            tight,
            out,
            explain,
            slowest: false,
            request: None,
        } => drawn((seed, defect.as_deref()), !twin)
            .and_then(|program| one((&program, twin), !off, tight, (out, explain))),
        What::One { seed, defect, off, twin, request, .. } => {
            let program = drawn((seed, defect.as_deref()), !twin);
            program.and_then(|program| path_of(&program, !off, request))
        }
        #[cfg(feature = "thresholds")]
        What::Thresholds { seeds, percent, golden, threads } => {
            thresholds(&golden, seeds, percent / 100.0, threads)
        }
        What::Compare { golden } => pairs(&golden).map(|pairs| print!("{}", table(&pairs))),
        What::Calibrate { seed, count } => calibrated(seed, count),
        What::Fleet { seed, hosts, renamed, out } => fleet::write(seed, hosts, renamed, &out),
        What::Shrink { seed, defect, off } => {
            drawn((seed, defect.as_deref()), true).and_then(|program| small(&program, !off))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dashcam-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The program of a seed, with the defect of that name or the one whose turn it is.
fn drawn((seed, defect): (u64, Option<&str>), sick: bool) -> Result<Program, String> {
    let Some(name) = defect else { return Ok(draw::program(seed, sick)) };
    let found = draw::named(name).ok_or_else(|| {
        let all: Vec<&str> = DEFECTS.iter().map(|defect| defect.name).collect();
        format!("--defect: found {name:?}, wanted one of {}", all.join(", "))
    })?;
    Ok(draw::of_defect(seed, found, sick))
}

fn many(
    seeds: &[u64],
    threads: usize,
    failures: usize,
    (seconds, shrinks): (u64, bool),
) -> Result<(), String> {
    let began = Instant::now();
    let until = || began.elapsed().as_secs() >= seconds;
    let tables = run(seeds, threads, Scope::Whole, &until)?;
    let count = tables[0].cases.len();
    let took = began.elapsed().as_secs_f64();
    for (table, (mode, switches)) in tables.iter().zip(MODES) {
        println!("{}", table.text(mode));
        let kinds = table.failures();
        let (wrong, missed) = (table.wrong_findings(), table.missed());
        let lists = [&kinds, &wrong, &missed];
        for (what, seeds) in lists.iter().flat_map(|list| list.iter().take(failures)) {
            let some: Vec<String> = seeds.iter().take(5).map(u64::to_string).collect();
            println!("  {:>4} x {what}; seeds {}", seeds.len(), some.join(", "));
        }
        println!();
        if let (true, Some(seed)) = (shrinks, kinds.first().and_then(|kind| kind.1.first())) {
            small(&draw::program(*seed, true), switches)?;
        }
    }
    println!("{count} cases in {took:.1} s: {:.0} a minute", count as f64 * 60.0 / took);
    Ok(())
}

fn one(
    (program, twin): (&Program, bool),
    switches: bool,
    tight: bool,
    (out, explain): (Option<PathBuf>, bool),
) -> Result<(), String> {
    println!("{program}");
    if let Some(path) = out {
        let mut world = World::new(program, switches);
        world.run();
        let bytes = world.capture().map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let [usual, tighter] = verdicts(program, switches)?;
    let said = if tight { tighter } else { usual };
    println!("{} slow of {} requests; in truth:", said.slow, said.requests);
    for (cause, part) in said.truth.iter().filter(|(_, part)| **part >= 0.01) {
        println!("  {cause:<20} {part:.2}");
    }
    println!("found:");
    for found in &said.findings {
        println!("  {:.2} {:<10} {}", found.share, found.confidence, found.summary);
    }
    if explain {
        print!("{}", explained(program, switches, tight)?);
    }
    if twin {
        println!("false alarms: {:?}", false_alarms(&said));
    } else {
        let outcome = judge(program, &said);
        println!(
            "judged {}: cause {}, place {:?}, culprit {:?}",
            outcome.valid, outcome.cause, outcome.place, outcome.culprit
        );
    }
    Ok(())
}

/// The request of this number, or the slowest: what was true of it, and what was seen.
fn path_of(program: &Program, switches: bool, wanted: Option<u64>) -> Result<(), String> {
    let mut world = World::new(program, switches);
    world.run();
    let took = |r: &&Request| r.end_ns.map_or(0, |end| end - r.begin_ns);
    let found = match wanted {
        Some(id) => world.requests().iter().find(|r| r.id == id),
        None => world.requests().iter().max_by_key(took),
    };
    let Some(request) = found else { return Ok(()) };
    let from = request.begin_ns;
    let ms = |t: u64| (t as f64 - from as f64) / 1e6;
    println!("request {}: {:.1} ms; its path:", request.id, took(&request) as f64 / 1e6);
    for slice in Truth::of(&world).path(request) {
        let by = slice.by.map_or(String::new(), |(tid, stack)| {
            format!(" by thread {}: {}", world.id_of(tid), world.place_of(stack))
        });
        let (at, cause) = (world.place_of(slice.stack), slice.cause);
        println!("  {:>8.2} - {:>8.2} {cause:<18} {at}{by}", ms(slice.from), ms(slice.to));
    }
    let bytes = world.capture().map_err(|error| error.to_string())?;
    let capture = Capture::parse(&bytes).map_err(|error| error.to_string())?;
    let tid = world.id_of(request.tid);
    println!("samples of its thread {tid}:");
    let until = from + took(&request);
    let samples = capture.samples.get(&tid).into_iter().flatten();
    for s in samples.filter(|s| s.t_ns + 50 * MS >= from && s.t_ns <= until + 50 * MS) {
        let leaf = capture.frames(s.stack).next().map_or("-".to_owned(), |f| f.function.to_owned());
        println!(
            "  {:>8.2} {:<12} {leaf} gil {} lock {} cpu {} us delay {} us",
            ms(s.t_ns),
            s.wait.text(),
            s.gil_holder,
            s.lock_holder,
            s.cpu_ns / 1000,
            s.run_delay_ns / 1000
        );
    }
    Ok(())
}

fn calibrated(first: u64, count: u64) -> Result<(), String> {
    let seeds = first..first.saturating_add(count);
    for (mode, switches) in MODES {
        println!("{}", Calibration::of(seeds.clone(), switches)?.text(mode));
    }
    Ok(())
}

#[cfg(feature = "thresholds")]
fn thresholds(
    golden: &std::path::Path,
    seeds: u64,
    part: f64,
    threads: usize,
) -> Result<(), String> {
    use sim::judge::sensitivity::{table as effects_table, Captures};
    let captures = Captures::read(golden, seeds)?;
    let (golden, simulated) = captures.counts();
    let effects = captures.effects(&[1.0 - part, 1.0 + part], threads);
    println!("{golden} golden and {simulated} simulated captures.\n\n{}", effects_table(&effects));
    Ok(())
}

fn small(program: &Program, switches: bool) -> Result<(), String> {
    let (smallest, runs) = shrink(program, switches)?;
    println!("# smallest program that fails alike, after {runs} runs");
    println!("{smallest}");
    let said = verdict(&smallest, switches, smallest.slow_ns)?;
    for found in &said.findings {
        println!("found: {:.2} {:<10} {}", found.share, found.confidence, found.summary);
    }
    Ok(())
}
