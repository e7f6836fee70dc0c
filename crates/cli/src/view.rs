//! `dashcam view`: the page of a capture.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use view::Limits;

use crate::exit_code::USAGE;
use crate::output;
use crate::progress;
use crate::read::{judged_by, open, parsed};

/// Writes the page of a capture beside it, or to `to`; with a terminal, opens it.
pub fn view(path: &Path, to: Option<&Path>, slow: Option<&str>) -> ExitCode {
    // Wrong rules are the caller's error, whatever the file is.
    if let Err(code) = slow.map_or(Ok(()), |text| parsed(text).map(drop)) {
        return code;
    }
    let (file, capture) = match open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let rules = match judged_by(&capture, slow) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    let page = to.map_or_else(|| file.with_extension("html"), Path::to_owned);
    if output::same(&page, &file) {
        let shown = page.display();
        eprintln!("dashcam: -o {shown} is the capture itself; wanted another file for the page");
        return ExitCode::from(USAGE);
    }
    let limit_ns = |name: &str| rules.limit_ns(name);
    progress::stage("looking for causes");
    let diagnosis = diagnosis::diagnose(&capture, limit_ns);
    progress::stage("making the page");
    let shown = file.display().to_string();
    let html = view::page(&capture, &diagnosis, &shown, &limit_ns, Limits::default());
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
