//! `dashcam view`: the page of a capture.

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use view::Limits;

use crate::read::{judged_by, open, UNREADABLE, USAGE};

/// Writes the page of a capture beside it, or to `output`; with a terminal, opens it.
pub fn view(path: &Path, output: Option<&Path>, slow: Option<&str>) -> ExitCode {
    let (file, capture) = match open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let rules = match judged_by(&capture, slow) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    let page = output.map_or_else(|| file.with_extension("html"), Path::to_owned);
    if same(&page, &file) {
        let told = page.display();
        eprintln!("dashcam: -o {told} is the capture itself; wanted another file for the page");
        return ExitCode::from(USAGE);
    }
    let limit_ns = |name: &str| rules.limit_ns(name);
    let diagnosis = diagnosis::diagnose(&capture, limit_ns);
    let shown = file.display().to_string();
    let html = view::page(&capture, &diagnosis, &shown, &limit_ns, Limits::default());
    if let Err(error) = write(&page, html.as_bytes()) {
        let told = page.display();
        eprintln!("dashcam: {told}: cannot write the page: {error}; choose another place with -o");
        return ExitCode::from(UNREADABLE);
    }
    println!("{}", page.display());
    if std::io::stdout().is_terminal() {
        show(&page);
    }
    ExitCode::SUCCESS
}

/// Whether both are one file that exists.
fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Under another name first: who looks at `page` sees a whole one or none.
fn write(page: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if page.is_dir() {
        return Err(std::io::Error::other("it is a folder, wanted a file"));
    }
    let mut name = page.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{}.part", std::process::id()));
    let partial: PathBuf = page.with_file_name(name);
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, page));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Opens the page where there is a screen. That it cannot be opened is no failure: its path was
/// printed.
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
