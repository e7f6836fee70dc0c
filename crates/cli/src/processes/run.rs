//! `dashcam run`: puts dashcam into a Python program without changing the program.
//!
//! How it works: environment variables carry the settings, PYTHONPATH brings dashcam's
//! `sitecustomize` into the interpreter, and then this process *becomes* the program (exec): its
//! pid, signals and exit code are the program's own, and no process of dashcam's lies in between.
//!
//! What it promises: the program runs whatever is wrong with dashcam, with one line on stderr that
//! says what will not be recorded and why.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::flags::{refusal, Flags};
use crate::output::exit_code::USAGE;

/// Exit codes of shells for commands that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Becomes the program. Returns only if that is not possible.
pub fn run(flags: &Flags, command: &[OsString]) -> ExitCode {
    if let Err(wrong) = check(flags) {
        eprintln!("dashcam: {wrong}");
        return ExitCode::from(USAGE);
    }
    let words = with_interpreter(command);
    let Some((program, rest)) = words.split_first() else { return ExitCode::from(USAGE) };
    let Some(path) = find(program) else {
        eprintln!("dashcam: {}: command not found", program.to_string_lossy());
        return ExitCode::from(NOT_FOUND);
    };
    if let Some(notice) = notice(&path, rest) {
        eprintln!("dashcam: {notice}");
    }
    let mut command = Command::new(program);
    command.args(rest).env("DASHCAM_RUN", "1");
    for (name, value) in &flags.0 {
        let value = if name == "out" { absolute(value) } else { value.clone() };
        command.env(format!("DASHCAM_{}", name.to_uppercase()), value);
    }
    let out = flags.value("out").map(str::to_owned);
    let out = out.or_else(|| std::env::var("DASHCAM_OUT").ok()).unwrap_or("captures".to_owned());
    warn_unwritable(Path::new(&absolute(&out)));
    match package_folder(&path) {
        Some(folder) => inject(&mut command, &folder),
        None => eprintln!(
            "dashcam: the dashcam package was not found beside {} nor by python3; the program runs \
             without recording; pip install dashcam into its environment",
            std::env::current_exe().unwrap_or_default().display()
        ),
    }
    sys::streams::restore();
    let error = command.exec();
    eprintln!("dashcam: {}: {error}", path.display());
    ExitCode::from(NOT_EXECUTABLE)
}

/// Refuses wrong flags before the program starts, by the recorder's rules for settings, and a
/// command for `hook` that does not exist. Errors: the whole line.
fn check(flags: &Flags) -> Result<(), String> {
    const BEHIND: &str = "the program was not started (see dashcam run --help)";
    flags.check(BEHIND)?;
    let hook = flags.value("hook").unwrap_or_default();
    match hook.split_whitespace().next() {
        Some(word) if find(OsStr::new(word)).is_none() => {
            let wanted = "a command that can be run, by its path or found in PATH";
            Err(refusal("hook", hook, wanted, BEHIND))
        }
        _ => Ok(()),
    }
}

/// `-m module` and `app.py` get a Python in front: the Python beside this binary, else python3.
fn with_interpreter(command: &[OsString]) -> Vec<OsString> {
    let Some(first) = command.first() else { return Vec::new() };
    let is_script = first.to_string_lossy().ends_with(".py") && !is_executable(Path::new(first));
    if first != "-m" && !is_script {
        return command.to_vec();
    }
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("python3")));
    let python = beside.filter(|p| p.exists()).map_or("python3".into(), PathBuf::into_os_string);
    std::iter::once(python).chain(command.iter().cloned()).collect()
}

/// The file of a command, as a shell would find it.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return path.exists().then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|p| is_executable(p))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A warning before the program starts, if it may not be recorded.
fn notice(path: &Path, rest: &[OsString]) -> Option<String> {
    match interpreter(path) {
        Program::Python(flags) => {
            let flags = flags.into_iter().chain(rest.iter().map(|w| w.to_string_lossy().into_owned()));
            let isolating = flags.take_while(|w| w.starts_with('-') && !w.starts_with("-m"));
            let isolating = isolating.into_iter().find(|w| {
                !w.starts_with("--") && w[1..].chars().any(|c| matches!(c, 'I' | 'E' | 'S'))
            })?;
            Some(format!(
                "Python was given {isolating}, which keeps dashcam out; nothing is recorded; start \
                 it without, or call dashcam.start() in the program"
            ))
        }
        Program::Other(what) => Some(format!(
            "{} is {what}, not a Python program: nothing is recorded unless it starts Python itself",
            path.display()
        )),
    }
}

enum Program {
    /// A Python interpreter, or a script for a Python; with the flags in its first line.
    Python(Vec<String>),
    /// Something else, in words.
    Other(&'static str),
}

fn interpreter(path: &Path) -> Program {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|f| f.take(512).read_to_end(&mut start));
    if read.is_err() {
        return Program::Other("a file that cannot be read");
    }
    if start.starts_with(b"\x7fELF") {
        return match is_python_name(&real_name(path)) {
            true => Program::Python(Vec::new()),
            false => Program::Other("a compiled program"),
        };
    }
    let text = String::from_utf8_lossy(&start).into_owned();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let words: Vec<&str> = first.trim_start_matches("#!").split_whitespace().collect();
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let python = words.iter().position(|w| is_python_name(&base(w)));
    if let (true, Some(at)) = (first.starts_with("#!"), python) {
        return Program::Python(words[at + 1..].iter().map(|w| (*w).to_owned()).collect());
    }
    // Installers write `#!/bin/sh` and exec a Python whose path is too long for the first line;
    // version managers put shell scripts in front of their Pythons.
    let execs = lines.next().is_some_and(|l| l.contains("exec") && l.contains("python"));
    match execs || is_python_name(&base(&path.to_string_lossy())) {
        true => Program::Python(Vec::new()),
        false if first.starts_with("#!") => Program::Other("a script for another interpreter"),
        false => Program::Other("a program of another kind"),
    }
}

fn real_name(path: &Path) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// python, python3, python3.13, python3.13t, pypy3; debug builds: python3.13d, python3.13-dbg.
fn is_python_name(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    let rest = rest.map(|rest| rest.strip_suffix("-dbg").unwrap_or(rest));
    rest.is_some_and(|r| r.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 't' | 'd')))
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |p| p.display().to_string())
}

/// Captures could not be written: reported before the program starts; it runs all the same.
fn warn_unwritable(out: &Path) {
    let existing = out.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let probe = existing.join(format!(".dashcam-{}-{nanos}", std::process::id()));
    let tried = match existing.is_dir() {
        // A new file: another user with write access here must not be able to choose a file that
        // would be truncated.
        true => fs::File::create_new(&probe)
            .map(|_| fs::remove_file(&probe))
            .map(drop)
            .map_err(|e| e.to_string()),
        false => Err("is not a folder".to_owned()),
    };
    if let Err(error) = tried {
        eprintln!(
            "dashcam: --out {}: {}: {error}; captures cannot be written there; the program runs on",
            out.display(),
            existing.display()
        );
    }
}

/// The folder that holds the package `dashcam`, for the interpreter behind `program`.
fn package_folder(program: &Path) -> Option<PathBuf> {
    let given = std::env::var_os("DASHCAM_PACKAGE_DIR").map(PathBuf::from);
    let beside = || {
        let bin = std::env::current_exe().ok()?.parent()?.to_owned();
        let libs = fs::read_dir(bin.parent()?.join("lib")).ok()?;
        libs.flatten().map(|e| e.path().join("site-packages")).find(|p| has_package(p))
    };
    let asked = || {
        let python = match interpreter(program) {
            Program::Python(_) if is_python_name(&real_name(program)) => program.to_owned(),
            _ => PathBuf::from("python3"),
        };
        let code = "import dashcam, os; print(os.path.dirname(os.path.dirname(dashcam.__file__)))";
        let output = Command::new(python).arg("-c").arg(code).output().ok()?;
        let line = output.stdout.strip_suffix(b"\n")?.to_vec();
        Some(PathBuf::from(OsString::from_vec(line)))
    };
    given.filter(|p| has_package(p)).or_else(beside).or_else(|| asked().filter(|p| has_package(p)))
}

fn has_package(folder: &Path) -> bool {
    folder.join("dashcam/_inject/sitecustomize.py").exists()
}

fn inject(command: &mut Command, folder: &Path) {
    let ours = folder.join("dashcam/_inject");
    let theirs = std::env::var_os("PYTHONPATH").filter(|p| !p.is_empty());
    let mut joined = ours.into_os_string();
    if let Some(theirs) = theirs {
        joined.push(":");
        joined.push(theirs);
    }
    command.env("PYTHONPATH", joined).env("DASHCAM_PACKAGE_DIR", folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dashcam-run-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("temp dir is writable");
        path
    }

    fn said(name: &str, text: &str, rest: &[&str]) -> Option<String> {
        let path = script(name, text);
        let rest: Vec<OsString> = rest.iter().map(OsString::from).collect();
        let said = notice(&path, &rest);
        fs::remove_file(&path).expect("removable");
        said
    }

    #[test]
    fn python_scripts_are_recognised_however_they_name_their_interpreter() {
        assert_eq!(said("a", "#!/usr/bin/env python3\n", &[]), None);
        assert_eq!(said("b", "#!/opt/venv/bin/python3.13\n", &[]), None);
        let long = "#!/bin/sh\n'''exec' /a/very/long/path/bin/python3 \"$0\" \"$@\"\n' '''\n";
        assert_eq!(said("c", long, &[]), None);
    }

    #[test]
    fn other_programs_and_isolating_flags_get_one_notice() {
        let text = said("d", "#!/bin/sh\necho\n", &[]).expect("a notice");
        assert!(text.contains("is a script for another interpreter, not a Python program"));
        let text = said("e", "#!/usr/bin/python3 -I\n", &[]).expect("a notice");
        assert!(text.contains("was given -I"), "{text}");
        assert_eq!(said("f", "#!/usr/bin/env python3\n", &["-m", "EIS"]), None);
        assert!(notice(Path::new("/bin/true"), &[]).expect("a notice").contains("compiled"));
    }

    #[test]
    fn only_names_of_pythons_are_pythons() {
        for name in
            ["python", "python3.13", "python3.13t", "python3.11-dbg", "python3.13td", "pypy3"]
        {
            assert!(is_python_name(name), "{name}");
        }
        for name in ["python-config", "pythonista", "ruby", "mypython"] {
            assert!(!is_python_name(name), "{name}");
        }
    }
}
