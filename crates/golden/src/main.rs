//! `golden`: shows and accepts changed verdicts, packs recorded captures, lists the stored ones.
//!
//! ```text
//! golden accept GLOB [--yes]         changed verdicts, old and new; writes those that are accepted
//! golden pack CAPTURE DESCRIPTION [--as-it-is]
//!                                    trims and stores a capture by the description (NAME.toml);
//!                                    as it is: also if its verdict differs from the description
//! golden list GLOB                   a line for each entry
//! golden judge FILE                  the verdict on a stored or a plain capture
//! golden large FILE MIB              writes a capture of that size, for measuring readers
//! ```
//! Each takes `--in FOLDER`; the default is tests/captures. Exit code 1: something is wrong or was
//! not accepted, 2: wrong usage.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use golden::compare::side_by_side;
use golden::damage::damaged;
use golden::large;
use golden::neutral;
use golden::store::{self, packed, Claim, Entry, CAPTURE, DESCRIPTION, EXPECTED};
use golden::trim::trimmed;
use golden::verdict::judge;

const USAGE: &str =
    "golden accept GLOB [--yes] | pack CAPTURE DESCRIPTION [--as-it-is] | list GLOB | judge FILE \
                     | large FILE MIB [--in FOLDER]";

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let folder = words.iter().position(|word| word == "--in").and_then(|at| {
        words.remove(at);
        (at < words.len()).then(|| PathBuf::from(words.remove(at)))
    });
    let folder = folder.unwrap_or_else(|| PathBuf::from("tests/captures"));
    let mut flag = |flag: &str| {
        words.iter().position(|word| word == flag).map(|at| words.remove(at)).is_some()
    };
    let (yes, as_it_is) = (flag("--yes"), flag("--as-it-is"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["accept", glob] => accept(&folder, glob, yes),
        ["pack", capture, description] => {
            pack(&folder, Path::new(capture), Path::new(description), as_it_is).map(|()| true)
        }
        ["list", glob] => list(&folder, glob).map(|()| true),
        ["judge", file] => shown(Path::new(file)).map(|()| true),
        ["large", file, mib] => large_one(Path::new(file), mib).map(|()| true),
        _ => {
            eprintln!("golden: found {words:?}, wanted {USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("golden: {wrong}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every changed verdict was accepted.
fn accept(folder: &Path, glob: &str, yes: bool) -> Result<bool, String> {
    let entries = store::entries(folder, glob)?;
    let (mut moved, mut left) = (0, 0);
    for entry in &entries {
        let (old, new) = (entry.expected(), judge(&entry.capture()?));
        let claim = match entry.answer.wrong(&new, entry.switches) {
            None => Claim::Right,
            Some(why) => Claim::Wrong(why),
        };
        if old == new.text && claim == entry.claim {
            continue;
        }
        moved += 1;
        let (was, is) = (said(&entry.claim), said(&claim));
        println!(
            "\n== {}: {was}{}",
            entry.name,
            if was == is { String::new() } else { format!(" -> {is}") }
        );
        print!("{}", side_by_side(&old, &new.text));
        if yes || agreed(&entry.name)? {
            write(&entry.path(EXPECTED), new.text.as_bytes())?;
            let path = entry.path(DESCRIPTION);
            let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
            write(&path, with_verdict(&text, &is).as_bytes())?;
        } else {
            left += 1;
        }
    }
    println!("golden: {moved} of {} verdicts moved, {} written", entries.len(), moved - left);
    Ok(left == 0)
}

/// `verdict` as it is written in a description.
fn said(claim: &Claim) -> String {
    match claim {
        Claim::Right => "right".to_owned(),
        Claim::Wrong(why) => format!("wrong: {why}"),
    }
}

fn with_verdict(description: &str, verdict: &str) -> String {
    let line = |line: &str| match line.starts_with("verdict = ") {
        true => format!("verdict = {verdict:?}\n"),
        false => format!("{line}\n"),
    };
    description.lines().map(line).collect()
}

fn agreed(name: &str) -> Result<bool, String> {
    print!("write the new verdict of {name}? [y/N] ");
    std::io::stdout().flush().map_err(|e| e.to_string())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|e| e.to_string())?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

/// Stores a capture, its verdict, and the description with the verdict's correctness.
fn pack(folder: &Path, capture: &Path, description: &Path, as_it_is: bool) -> Result<(), String> {
    let name = description.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.strip_suffix(DESCRIPTION).ok_or("the description must be NAME.toml")?;
    let text = std::fs::read_to_string(description).map_err(|e| failed(description, &e))?;
    let table =
        text.parse::<toml::Table>().map_err(|e| format!("{}: {e}", description.display()))?;
    let entry = Entry::of(folder, name, &table)?;
    let bytes = unpacked(capture)?;
    let bytes = match entry.damage.as_str() {
        "" => {
            let trimmed = trimmed(&bytes, store::CAPTURE_BYTES_MAX)?;
            trimmed.steps.iter().for_each(|step| println!("{name}: {step}"));
            trimmed.bytes
        }
        how => damaged(&bytes, how)?,
    };
    let offences = neutral::offences(&bytes);
    if !offences.is_empty() {
        return Err(format!("{name} names its machine: {}", offences.join("; ")));
    }
    let verdict = judge(&bytes);
    let claim = entry.answer.wrong(&verdict, entry.switches);
    let claim = claim.map_or(Claim::Right, Claim::Wrong);
    let stored = packed(&bytes).map_err(|e| e.to_string())?;
    if stored.len() as u64 > store::CAPTURE_BYTES_MAX {
        let most = store::CAPTURE_BYTES_MAX;
        return Err(format!("{name}: {} bytes packed, wanted at most {most}", stored.len()));
    }
    println!("{name}: {} bytes, {}", stored.len(), said(&claim));
    if claim != entry.claim && !as_it_is {
        print!("{}", verdict.text);
        return Err(format!("{name}: the verdict is {}, not {}", said(&claim), said(&entry.claim)));
    }
    write(&entry.path(CAPTURE), &stored)?;
    write(&entry.path(EXPECTED), verdict.text.as_bytes())?;
    write(&entry.path(DESCRIPTION), with_verdict(&text, &said(&claim)).as_bytes())
}

fn list(folder: &Path, glob: &str) -> Result<(), String> {
    for entry in store::entries(folder, glob)? {
        let size = std::fs::metadata(entry.path(CAPTURE)).map_or(0, |meta| meta.len());
        let (cause, mode) = (entry.answer.cause.as_deref().unwrap_or("none"), entry.switches);
        println!(
            "{:42} {:18} switches {:3} {:28} {:5} {:7} {} {}",
            entry.name,
            cause,
            if mode { "on" } else { "off" },
            entry.server.join(", "),
            entry.python,
            size,
            said(&entry.claim),
            entry.damage
        );
    }
    Ok(())
}

fn shown(file: &Path) -> Result<(), String> {
    print!("{}", judge(&unpacked(file)?).text);
    Ok(())
}

fn large_one(file: &Path, mib: &str) -> Result<(), String> {
    let size = mib.parse().map_err(|_| format!("found {mib:?}, wanted a number of MiB"))?;
    let out = std::fs::File::create(file).map_err(|error| failed(file, &error))?;
    let made = large::write(std::io::BufWriter::with_capacity(1 << 20, out), size);
    let (_, requests) = made.map_err(|error| failed(file, &error))?;
    println!("{}: {requests} requests", file.display());
    Ok(())
}

/// A capture from a file, packed as it is stored or plain.
fn unpacked(file: &Path) -> Result<Vec<u8>, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.strip_suffix(CAPTURE) {
        Some(_) => store::unpacked(file),
        None => std::fs::read(file).map_err(|error| failed(file, &error)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
