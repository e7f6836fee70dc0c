//! `dashcam top PID|SERVICE`: what a recorded process does, once a second.
//!
//! How it works: each second the newest part of the black box is read from outside (`watched`), and
//! one `ps` is asked on the control socket; threads and CPU time come from /proc. At a terminal the
//! screen is drawn anew (`page`), else a block of lines follows the other; `--json` prints an
//! object a line.
//!
//! What it promises: the process does nothing for it but to answer `ps`. The terminal's modes are
//! not changed, so nothing has to be restored, however this ends: Ctrl-C, `q` and Enter, or the end
//! of the process. Exit codes: 0; 1 no such process, or it ended; 3 its box cannot be read.

mod page;
mod watched;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::output::exit_code::{NOTHING, UNREADABLE};
use crate::output::terminal;
use crate::processes::live;
use watched::{Seen, Watched};

/// Time between two readings.
const TICK: Duration = Duration::from_secs(1);

/// How it is shown.
#[derive(Clone, Copy)]
pub struct Form {
    /// One object a line.
    pub json: bool,
    /// Once, instead of every second.
    pub once: bool,
}

/// Shows the processes that `word` names, until they end or `q` is typed.
pub fn top(word: &str, form: Form) -> ExitCode {
    let all = match live::named(word) {
        Ok(all) => all,
        Err(code) => return code,
    };
    let mut watched = Vec::new();
    for named in all {
        match Watched::open(&named) {
            Ok(one) => watched.push(one),
            Err(why) => eprintln!("dashcam: {}: {why}", named.pid),
        }
    }
    if watched.is_empty() {
        return ExitCode::from(if live::is_there(word) { UNREADABLE } else { NOTHING });
    }
    let quits = (!form.once).then(typed_q);
    let mut next = Instant::now();
    loop {
        let seen: Vec<Seen> = watched.iter_mut().filter_map(Watched::refresh).collect();
        watched.retain(Watched::is_alive);
        if !seen.is_empty() && show(&seen, form).is_err() {
            // The reader of our output has gone.
            return ExitCode::SUCCESS;
        }
        if watched.is_empty() && seen.is_empty() {
            eprintln!("dashcam: {word}: ended");
            return ExitCode::from(NOTHING);
        }
        let Some(quits) = &quits else { return ExitCode::SUCCESS };
        next += TICK;
        match quits.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(RecvTimeoutError::Timeout) => (),
            // Stdin has ended: it is no terminal, and Ctrl-C or a signal ends this.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    }
}

fn show(seen: &[Seen], form: Form) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if form.json {
        for one in seen {
            let json: Value = one.to_json();
            writeln!(out, "{json}")?;
        }
        return out.flush();
    }
    match terminal::terminal().filter(|_| !form.once) {
        Some(screen) => {
            let rows = terminal::rows();
            let each = (rows.saturating_sub(2) / seen.len().max(1)).max(page::LINES_MIN);
            // From the top, and what was below is cleared: without flicker.
            write!(out, "\x1b[H")?;
            for one in seen {
                for line in page::lines(one, each, screen.columns) {
                    writeln!(out, "{line}\x1b[K")?;
                }
            }
            write!(out, "q and Enter, or Ctrl-C, ends this\x1b[K\x1b[J")?;
        }
        None => {
            for one in seen {
                for line in page::lines(one, usize::MAX, usize::MAX) {
                    writeln!(out, "{line}")?;
                }
                writeln!(out)?;
            }
        }
    }
    out.flush()
}

/// A thread reads stdin, if it is a terminal, until `q`.
fn typed_q() -> mpsc::Receiver<()> {
    let (quit, quits) = mpsc::channel();
    if io::stdin().is_terminal() {
        // Without the thread Ctrl-C is left.
        let _ = std::thread::Builder::new().spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if line.trim() == "q" {
                    let _ = quit.send(());
                }
            }
        });
    }
    quits
}
