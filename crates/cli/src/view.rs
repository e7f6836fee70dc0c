//! `dashcam view`: the page of a capture.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use capture::read::{Parts, ReadError};
use view::{Limits, Recorded};

use crate::output;
use crate::output::exit_code::USAGE;
use crate::output::progress;
use crate::read::{default_rules, failed, open_judged, parsed};

/// Writes the page of a capture beside it, or to `to`; with a terminal, opens it.
pub fn view(path: &Path, to: Option<&Path>, slow: Option<&str>) -> ExitCode {
    let (file, html) = match made(path, slow) {
        Ok(made) => made,
        Err(code) => return code,
    };
    let page = to.map_or_else(|| file.with_extension("html"), Path::to_owned);
    if output::same(&page, &file) {
        let shown = page.display();
        eprintln!("dashcam: -o {shown} is the capture itself; wanted another file for the page");
        return ExitCode::from(USAGE);
    }
    let written = output::write(&page, |out| out.write_all(html.as_bytes()));
    progress::clear();
    if let Err(error) = written {
        let shown = page.display();
        eprintln!("dashcam: {shown}: cannot write the page: {error}; choose another place with -o");
        return ExitCode::from(USAGE);
    }
    println!("{}", page.display());
    if io::stdout().is_terminal() {
        show(&page);
    }
    ExitCode::SUCCESS
}

/// The capture that is meant, and its page. The capture is read for the verdict first, and then in
/// parts for what the requests of the page recorded, so that a large one is never in memory.
fn made(path: &Path, slow: Option<&str>) -> Result<(PathBuf, String), ExitCode> {
    // Wrong rules are the caller's error, whatever the file is.
    let given = slow.map(parsed).transpose()?;
    let (file, capture) = open_judged(path, given.as_ref())?;
    let rules = given.unwrap_or_else(|| default_rules(&capture));
    let limit_ns = |name: &str| rules.limit_ns(name);
    progress::stage("looking for causes");
    let diagnosis = diagnosis::diagnose(&capture, limit_ns);
    let ids = view::timelines(&capture, &limit_ns, Limits::default());
    progress::stage("reading spans");
    let recorded = recorded(&file, &ids).map_err(|error| {
        progress::clear();
        failed(&file, &error)
    })?;
    progress::stage("making the page");
    let shown = file.display().to_string();
    let html = view::page(&capture, &recorded, &diagnosis, &shown, &limit_ns, Limits::default());
    Ok((file, html))
}

fn recorded(file: &Path, ids: &HashSet<u64>) -> Result<Recorded, ReadError> {
    let (mut parts, mut part) = Parts::open(file, &mut progress::at)?;
    let mut recorded = Recorded::default();
    while parts.next(&mut part)? {
        recorded.take(&part, ids);
    }
    Ok(recorded)
}

/// Opens the page if there is a screen. A failure to open it is ignored: its path was printed.
fn show(page: &Path) {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    if !(set("DISPLAY") || set("WAYLAND_DISPLAY")) {
        return;
    }
    let quiet = || (Stdio::null(), Stdio::null(), Stdio::null());
    let (stdin, stdout, stderr) = quiet();
    let path = page.canonicalize().unwrap_or_else(|_| page.to_owned());
    let _ = Command::new("xdg-open").arg(path).stdin(stdin).stdout(stdout).stderr(stderr).spawn();
}
