//! `dashcam attach`: starts the recorder in processes that run already.
//!
//! How it works: the flags are checked as those of `run`, then crates/attach does it for each
//! process: with `--tree` the one that was named, so that the processes that it forks from then on
//! are recorded, then those below it, side by side, until there is no new one.
//!
//! What it promises: one line for each process: what records now and how long it was stopped, or
//! why not. Exit codes: 0 all are recorded; 1 no such process; 2 wrong usage or a refusal; 3 not
//! taken in time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use attach::{Attached, Kind, Refusal, Wanted};

use crate::flags::{refusal, Flags};
use crate::output::columns::plain;
use crate::output::exit_code::{NOTHING, UNREADABLE, USAGE};

/// Processes that are attached to at the same time.
const AT_ONCE: usize = 16;

/// What `attach` was asked for.
pub struct Wish {
    pub settings: Flags,
    pub tree: bool,
    pub patience: Duration,
}

/// Attaches to process `pid`, and with `--tree` to those below it.
pub fn attach(pid: u32, wish: &Wish) -> ExitCode {
    let settings = match settings(pid, &wish.settings) {
        Ok(settings) => settings,
        Err(wrong) => {
            eprintln!("dashcam: {wrong}");
            return ExitCode::from(USAGE);
        }
    };
    let folders = own_folders();
    let wanted = Wanted {
        settings: &settings,
        package_folders: &folders,
        tree: wish.tree,
        patience: wish.patience,
    };
    let mut worst = reported(pid, attach::attach(pid, &wanted));
    if wish.tree {
        worst = worst.max(attach_below(pid, &wanted));
    }
    ExitCode::from(worst)
}

/// Attaches to the Python processes below `pid` until there is no new one; the worst exit code.
fn attach_below(pid: u32, wanted: &Wanted<'_>) -> u8 {
    let proc = Path::new("/proc");
    let mut done = BTreeSet::from([pid, std::process::id()]);
    let mut worst = 0;
    loop {
        let below = attach::descendants(proc, pid);
        let is_new = |pid: &u32| !done.contains(pid) && attach::is_python(proc, *pid);
        let new: Vec<u32> = below.into_iter().filter(is_new).take(AT_ONCE).collect();
        if new.is_empty() {
            return worst;
        }
        done.extend(&new);
        for (pid, result) in attach_at_once(new, wanted) {
            worst = worst.max(reported(pid, result));
        }
    }
}

fn attach_at_once(pids: Vec<u32>, wanted: &Wanted<'_>) -> Vec<(u32, Result<Attached, Refusal>)> {
    std::thread::scope(|scope| {
        let each = |pid| (pid, scope.spawn(move || attach::attach(pid, wanted)));
        let running: Vec<_> = pids.into_iter().map(each).collect();
        let end = |(pid, thread): (u32, std::thread::ScopedJoinHandle<'_, _>)| {
            (pid, thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        };
        running.into_iter().map(end).collect()
    })
}

/// Prints the result; its exit code.
fn reported(pid: u32, result: Result<Attached, Refusal>) -> u8 {
    match result {
        Ok(attached) => {
            println!("{}", described(&attached));
            for notice in &attached.notices {
                eprintln!("dashcam: process {pid}: {}", plain(notice));
            }
            if let Err(why) = &attached.control {
                eprintln!(
                    "dashcam: process {pid}: records, but has no control socket ({}): `dashcam ps`, \
                     `snap` and `detach` cannot reach it",
                    plain(why)
                );
            }
            0
        }
        Err(refusal) => {
            eprintln!("dashcam: {pid}: {}", plain(&refusal.to_string()));
            match refusal.kind {
                Kind::Gone => NOTHING,
                Kind::Refused => USAGE,
                Kind::Late => UNREADABLE,
            }
        }
    }
}

fn described(attached: &Attached) -> String {
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    format!(
        "process {} is recorded (service {}): captures go to {}; stopped for {}, its thread held for \
         {}, started in {} on a thread of its own",
        attached.pid,
        plain(&attached.service),
        plain(&attached.out),
        ms(attached.stopped),
        ms(attached.held),
        ms(attached.start),
    )
}

/// The settings given as flags. Errors: the whole line.
fn settings(pid: u32, flags: &Flags) -> Result<Vec<(String, String)>, String> {
    const BEHIND: &str = "nothing was changed";
    flags.check(BEHIND)?;
    let settled = |(name, value): &(String, String)| {
        let value = match name.as_str() {
            "out" => folder(pid, value).map_err(|want| refusal(name, value, &want, BEHIND))?,
            _ => value.clone(),
        };
        Ok((name.clone(), value))
    };
    flags.0.iter().map(settled).collect()
}

/// The folder for captures as the process sees it. Errors: what is wanted.
fn folder(pid: u32, given: &str) -> Result<String, String> {
    match (Path::new(given).is_absolute(), attach::shares_root(pid)) {
        (true, _) => Ok(given.to_owned()),
        // Below the folder of this shell, which the process sees, too.
        (false, true) => {
            let path = std::path::absolute(given).map_err(|error| error.to_string())?;
            Ok(path.display().to_string())
        }
        (false, false) => Err("an absolute path: the process has its own file system".to_owned()),
    }
}

/// Folders that may hold the package: the named one, and those beside this command.
fn own_folders() -> Vec<PathBuf> {
    let named = std::env::var_os("DASHCAM_PACKAGE_DIR").map(PathBuf::from);
    let prefix =
        std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    let library = prefix.and_then(|prefix| std::fs::read_dir(prefix.join("lib")).ok());
    let beside = library.into_iter().flatten().flatten();
    let beside = beside.map(|entry| entry.path().join("site-packages"));
    named.into_iter().chain(beside).collect()
}
