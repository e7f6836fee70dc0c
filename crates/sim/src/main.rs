//! `dashcam-sim`: runs simulated services and judges the diagnosis with them.
//!
//! `run` judges many seeds and prints the tables; `one` shows a seed: the program, the verdict, the
//! truth; `shrink` makes a failing seed small. Nothing is read but the arguments, nothing is written
//! but what `--out` names. Exit status: 0, or 1 where something could not be done, 2 for arguments.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use sim::engine::World;
use sim::judge::case::{false_alarms, judge, verdict};
use sim::judge::shrink::shrink;
use sim::judge::table::{run, MODES};
use sim::program::draw;

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
        /// Threads that do it.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Kinds of failures to list.
        #[arg(long, default_value_t = 20)]
        failures: usize,
        /// Shrink the first failing seed of each mode.
        #[arg(long)]
        shrink: bool,
    },
    /// Shows one seed: its program, the verdict, the truth.
    One {
        /// The seed.
        seed: u64,
        /// Without switch records, as in a container.
        #[arg(long)]
        off: bool,
        /// The healthy twin.
        #[arg(long)]
        twin: bool,
        /// Write the capture to this file.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Makes a failing seed small.
    Shrink {
        /// The seed.
        seed: u64,
        /// Without switch records, as in a container.
        #[arg(long)]
        off: bool,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().what {
        What::Run { seed, count, threads, failures, shrink } => {
            many((seed, count), threads, failures, shrink)
        }
        What::One { seed, off, twin, out } => one(seed, !off, twin, out),
        What::Shrink { seed, off } => small(seed, !off),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dashcam-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn many(
    (seed, count): (u64, u64),
    threads: usize,
    failures: usize,
    shrinks: bool,
) -> Result<(), String> {
    let began = Instant::now();
    let tables = run(seed, count, threads)?;
    let took = began.elapsed().as_secs_f64();
    for (table, (mode, switches)) in tables.iter().zip(MODES) {
        println!("{}", table.text(mode));
        let kinds = table.failures();
        for (what, seeds) in kinds.iter().take(failures) {
            let some: Vec<String> = seeds.iter().take(5).map(u64::to_string).collect();
            println!("  {:>4} x {what}; seeds {}", seeds.len(), some.join(", "));
        }
        println!();
        if let (true, Some(seed)) = (shrinks, kinds.first().and_then(|kind| kind.1.first())) {
            small(*seed, switches)?;
        }
    }
    println!("{count} cases in {took:.1} s: {:.0} a minute", count as f64 * 60.0 / took);
    Ok(())
}

fn one(seed: u64, switches: bool, twin: bool, out: Option<PathBuf>) -> Result<(), String> {
    let program = draw::program(seed, !twin);
    println!("{program}");
    if let Some(path) = out {
        let mut world = World::new(&program, switches);
        world.run();
        let bytes = world.capture().map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let said = verdict(&program, switches, program.slow_ns)?;
    println!("{} slow of {} requests; in truth:", said.slow, said.requests);
    for (cause, part) in said.truth.iter().filter(|(_, part)| **part >= 0.01) {
        println!("  {cause:<20} {part:.2}");
    }
    println!("found:");
    for found in &said.findings {
        println!("  {:.2} {:<10} {}", found.share, found.confidence, found.summary);
    }
    if twin {
        println!("false alarms: {:?}", false_alarms(&said));
    } else {
        let outcome = judge(&program, &said);
        println!(
            "judged {}: cause {}, place {:?}, culprit {:?}",
            outcome.valid, outcome.cause, outcome.place, outcome.culprit
        );
    }
    Ok(())
}

fn small(seed: u64, switches: bool) -> Result<(), String> {
    let program = draw::program(seed, true);
    let (smallest, runs) = shrink(&program, switches)?;
    println!("# smallest program that fails alike, after {runs} runs");
    println!("{smallest}");
    let said = verdict(&smallest, switches, smallest.slow_ns)?;
    for found in &said.findings {
        println!("found: {:.2} {:<10} {}", found.share, found.confidence, found.summary);
    }
    Ok(())
}
