//! `dashcam why`: the cause of the slow requests in a capture.
//!
//! How it works: the verdict is printed as text, JSON or Markdown; at a terminal it begins with
//! whose capture it is (`screen`), and for a folder the verdicts on its other captures follow
//! (`others`).
//!
//! What it promises: wrong rules are refused before the file is read. Exit code 0: a cause was
//! found; 1: none; 2: wrong usage; 3: the input cannot be read. With `--against` they are those of
//! `diff`. Missing on purpose: the diagnosis itself.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::diff::Against;
use crate::others::Others;
use crate::output::exit_code::{NOTHING, UNREADABLE, USAGE};
use crate::output::progress;
use crate::output::screen;
use crate::output::terminal;
use crate::read::{captures_in, file_of, judged_by, open_named, parsed};

/// What `-` is called in verdicts and errors.
const STDIN: &str = "stdin";

/// The form in which a verdict is printed.
#[derive(Clone, Copy)]
pub enum Form {
    /// For people: short facts at a terminal, a sentence each in a pipe.
    Text,
    /// Schema 1.
    Json,
    /// For a ticket.
    Markdown,
}

/// Names the causes of the slow requests in captures; with `explain` also the reasons. Exits as for
/// the capture with a cause, if one has one.
pub fn why(
    paths: &[PathBuf],
    since: Option<Duration>,
    form: Form,
    slow: Option<&str>,
    explain: bool,
    against: Option<&Path>,
) -> ExitCode {
    // Wrong rules are the caller's error, whatever the file is.
    if let Err(code) = slow.map_or(Ok(()), |text| parsed(text).map(drop)) {
        return code;
    }
    let files = match inputs(paths, since) {
        Ok(files) => files,
        Err(code) => return code,
    };
    if let (Some(other), [input]) = (against, files.as_slice()) {
        return compared(input, form, slow, explain, other).unwrap_or_else(|code| code);
    }
    if against.is_some() {
        eprintln!("dashcam: --against: found {} captures, wanted one to compare", files.len());
        return ExitCode::from(USAGE);
    }
    if let [input] = files.as_slice() {
        let (code, json) = one(input, form, slow, explain);
        json.into_iter().for_each(|json| println!("{json:#}"));
        return code;
    }
    let (mut codes, mut verdicts) = (Vec::new(), Vec::new());
    for (at, input) in files.iter().enumerate() {
        if let (Form::Text, false) = (form, at == 0) {
            println!();
        }
        // At a terminal the verdict begins with it.
        if let (Form::Text, None) = (form, terminal::terminal()) {
            println!("{}:", input.name().display());
        }
        let (code, json) = one(input, form, slow, explain);
        codes.push(code);
        verdicts.extend(json);
    }
    if let Form::Json = form {
        println!("{:#}", Value::Array(verdicts));
    }
    // What could not be read outweighs "no cause".
    let order = [ExitCode::SUCCESS, ExitCode::from(UNREADABLE), ExitCode::from(USAGE)];
    let code = order.into_iter().find(|code| codes.contains(code));
    code.unwrap_or(ExitCode::from(NOTHING))
}

/// A file to be judged; stdin is a copy, which is removed with this.
struct Input {
    path: PathBuf,
    is_copy: bool,
}

impl Drop for Input {
    fn drop(&mut self) {
        if self.is_copy {
            // An error: a file is left in the folder for such.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Input {
    /// As users call it.
    fn name(&self) -> &Path {
        if self.is_copy {
            Path::new(STDIN)
        } else {
            &self.path
        }
    }
}

fn inputs(paths: &[PathBuf], since: Option<Duration>) -> Result<Vec<Input>, ExitCode> {
    let is_stdin = |path: &&PathBuf| path.as_os_str() == "-";
    if since.is_some() && paths.iter().any(|path| is_stdin(&path)) {
        eprintln!("dashcam: --since: found stdin (-), wanted captures or folders: a pipe has no time of saving");
        return Err(ExitCode::from(USAGE));
    }
    let now = SystemTime::now();
    let from = since.map(|since| now.checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH));
    let file = |path: &Path| Input { path: path.to_owned(), is_copy: false };
    let mut files = Vec::new();
    for path in paths {
        match from {
            _ if is_stdin(&path) => {
                let path = stdin_copied().map_err(|error| {
                    eprintln!("dashcam: {STDIN}: {error}; wanted a capture (FILE.dashcam)");
                    ExitCode::from(UNREADABLE)
                })?;
                files.push(Input { path, is_copy: true });
            }
            Some(from) if path.is_dir() => {
                let mut found = captures_in(path);
                found.retain(|(saved, _, _)| *saved >= from);
                found.sort_unstable();
                files.extend(found.iter().map(|(_, _, path)| file(path)));
            }
            // A file without a time is one that cannot be read, which is reported when it is read.
            Some(from) if saved(path).is_some_and(|saved| saved < from) => {}
            _ => files.push(file(path)),
        }
    }
    if files.is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        eprintln!("dashcam: no capture of that time in {}", paths.join(", "));
        return Err(ExitCode::from(NOTHING));
    }
    Ok(files)
}

fn saved(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// A capture is read more than once, and a pipe cannot be.
fn stdin_copied() -> io::Result<PathBuf> {
    let name = format!("dashcam-stdin-{}.dashcam", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut file = std::fs::File::create_new(&path)?;
    match io::copy(&mut io::stdin().lock(), &mut file) {
        Ok(_) => Ok(path),
        Err(error) => {
            // An error: a file is left there.
            let _ = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Judges one capture; its exit code, and its JSON if that is the form.
fn one(input: &Input, form: Form, slow: Option<&str>, explain: bool) -> (ExitCode, Option<Value>) {
    let mut json = None;
    let code = verdict(input, form, slow, explain, &mut json, None);
    (code.unwrap_or_else(|code| code), json)
}

/// Judges one capture, and compares the verdict with another capture or folder.
fn compared(
    input: &Input,
    form: Form,
    slow: Option<&str>,
    explain: bool,
    other: &Path,
) -> Result<ExitCode, ExitCode> {
    let (mut json, mut against) = (None, Against::new(other, slow)?);
    let code = verdict(input, form, slow, explain, &mut json, Some(&mut against))?;
    let Some((compared, text)) = against.compare(json.as_mut()) else { return Ok(code) };
    match form {
        Form::Json => json.into_iter().for_each(|json| println!("{json:#}")),
        Form::Markdown => println!("\n```text\n{text}```"),
        Form::Text => print!("{}", terminal::fitted(&text)),
    }
    Ok(compared)
}

fn verdict(
    input: &Input,
    form: Form,
    slow: Option<&str>,
    explain: bool,
    json: &mut Option<Value>,
    against: Option<&mut Against<'_>>,
) -> Result<ExitCode, ExitCode> {
    let given = slow.map(parsed).transpose()?;
    let file = file_of(&input.path)?;
    let name = if input.is_copy { input.name() } else { &file };
    let capture = open_named(&file, name, given.as_ref())?;
    let rules = judged_by(&capture, slow)?;
    progress::stage("looking for causes");
    let limit_ns = |name: &str| rules.limit_ns(name);
    let diagnosis = match explain {
        true => diagnosis::diagnose_explained(&capture, limit_ns),
        false => diagnosis::diagnose(&capture, limit_ns),
    };
    progress::clear();
    if let Some(against) = against {
        against.keep(&file, &diagnosis, &rules);
    }
    // Empty unless it was requested.
    let explanation = report::to_explanation(&diagnosis);
    // The answer first; the verdicts on the rest of the folder follow it.
    let others =
        || input.path.is_dir().then(|| Others::beside(&file, &diagnosis, slow.map(|_| &rules)));
    let shown = name.display().to_string();
    match form {
        Form::Json => {
            let mut verdict = report::to_json(&diagnosis, &shown);
            if let (Some(others), Some(verdict)) = (others(), verdict.as_object_mut()) {
                verdict.insert("others".to_owned(), others.to_json());
            }
            *json = Some(verdict);
        }
        Form::Markdown => {
            print!("{}", report::to_markdown(&diagnosis, &shown));
            if !explanation.is_empty() {
                println!("\n```text{explanation}```");
            }
            let others = others().map(|others| others.to_text()).filter(|text| !text.is_empty());
            others.into_iter().for_each(|text| println!("\n{}", report::escaped(&text)));
        }
        Form::Text => {
            match terminal::terminal() {
                Some(screen) => {
                    print!("{}", terminal::fitted(&screen::origin(name, &capture.meta)));
                    print!("{}", report::to_screen(&diagnosis, screen));
                }
                None => print!("{}", report::to_text(&diagnosis)),
            }
            print!("{explanation}");
            let _ = io::stdout().flush();
            let others = others().map(|others| others.to_text()).unwrap_or_default();
            print!("{}", terminal::fitted(&others));
        }
    }
    Ok(ExitCode::from(match diagnosis.findings.is_empty() {
        // "Nothing to blame" would be a guess: the records to judge by are lost.
        true if diagnosis.total == 0 && !capture.damage.is_empty() => UNREADABLE,
        true => NOTHING,
        false => 0,
    }))
}
