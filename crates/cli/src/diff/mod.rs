//! `dashcam diff A B`: why is B slower than A? And `dashcam why --against`, the same for a verdict.
//!
//! How it works: the captures of each side are judged and summed up (`side`, `times`), the sums are
//! compared (`compare`, `chance`), and what differs is put into words (`words`, `json`).
//!
//! What it promises: a difference that chance may explain is not called one. Memory is that of
//! `why` for the largest capture. Exit codes: 0 nothing is worse; 1 something is new or worse;
//! 2 wrong usage; 3 a side cannot be read or has no requests.

mod against;
mod chance;
mod compare;
mod json;
mod rates;
mod side;
mod times;
mod words;

use std::path::Path;
use std::process::ExitCode;

pub use against::Against;
use compare::Difference;
use side::{comparable, Reader};

use crate::output::terminal;

/// Prints what is different in B.
pub fn diff(a: &Path, b: &Path, slow: Option<&str>, as_json: bool) -> ExitCode {
    answer(a, b, slow, as_json).unwrap_or_else(|code| code)
}

fn answer(a: &Path, b: &Path, slow: Option<&str>, as_json: bool) -> Result<ExitCode, ExitCode> {
    let mut reader = Reader::new(slow)?;
    // First: its rules are those that both are judged by.
    let second = reader.side(b)?;
    let first = reader.side(a)?;
    comparable([&first, &second])?;
    let difference = Difference::of(&first, &second);
    match as_json {
        true => println!("{:#}", json::of(&difference, &reader.slow)),
        false => print!("{}", terminal::fitted(&words::of(&difference, &reader.slow))),
    }
    Ok(difference.exit_code())
}
