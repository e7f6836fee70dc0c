//! `dashcam why`: the cause of the slow requests in a capture.
//!
//! How it works: the verdict is printed as text, JSON or Markdown; at a terminal it begins with
//! whose capture it is (`screen`), and for a folder the verdicts on its other captures follow
//! (`others`).
//!
//! What it promises: wrong rules are refused before the file is read. Exit code 0: a cause was
//! found; 1: none; 2: wrong usage; 3: the input cannot be read. Missing on purpose: the diagnosis
//! itself.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use capture::read::Wanted;

use crate::exit_code::{NOTHING, UNREADABLE};
use crate::others::Others;
use crate::read::{judged_by, open_for, parsed};
use crate::{progress, screen};

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

/// Names the cause of the slow requests in a capture; with `explain` also the reasons for it.
pub fn why(path: &Path, form: Form, slow: Option<&str>, explain: bool) -> ExitCode {
    // Wrong rules are the caller's error, whatever the file is.
    if let Err(code) = slow.map_or(Ok(()), |text| parsed(text).map(drop)) {
        return code;
    }
    let (file, capture) = match open_for(path, Wanted::Causes) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let rules = match judged_by(&capture, slow) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    progress::stage("looking for causes");
    let limit_ns = |name: &str| rules.limit_ns(name);
    let diagnosis = match explain {
        true => diagnosis::diagnose_explained(&capture, limit_ns),
        false => diagnosis::diagnose(&capture, limit_ns),
    };
    progress::clear();
    // Empty unless it was requested.
    let explanation = diagnosis::to_explanation(&diagnosis);
    // The answer first; the verdicts on the rest of the folder follow it.
    let others = || path.is_dir().then(|| Others::beside(&file, &diagnosis, slow.map(|_| &rules)));
    let name = file.display().to_string();
    match form {
        Form::Json => {
            let mut told = diagnosis::to_json(&diagnosis, &name);
            if let (Some(others), Some(told)) = (others(), told.as_object_mut()) {
                told.insert("others".to_owned(), others.to_json());
            }
            println!("{told:#}");
        }
        Form::Markdown => {
            print!("{}", diagnosis::to_markdown(&diagnosis, &name));
            if !explanation.is_empty() {
                println!("\n```text{explanation}```");
            }
            let others = others().map(|others| others.to_text()).filter(|text| !text.is_empty());
            others.into_iter().for_each(|text| println!("\n{}", diagnosis::escaped(&text)));
        }
        Form::Text => {
            match screen::terminal() {
                Some(screen) => {
                    print!("{}", screen::origin(&file, &capture.meta));
                    print!("{}", diagnosis::to_screen(&diagnosis, screen));
                }
                None => print!("{}", diagnosis::to_text(&diagnosis)),
            }
            print!("{explanation}");
            let _ = io::stdout().flush();
            others().into_iter().for_each(|others| print!("{}", others.to_text()));
        }
    }
    ExitCode::from(match diagnosis.findings.is_empty() {
        // "Nothing to blame" would be a guess: the records to judge by are lost.
        true if diagnosis.total == 0 && !capture.damage.is_empty() => UNREADABLE,
        true => NOTHING,
        false => 0,
    })
}
