//! How good the diagnosis must be on fixed seeds: one committed file, `goals.toml`.
//!
//! The file has a section a kernel mode, and in it a line a figure: the least percentage. It is
//! read here by hand, since it holds nothing but `[section]` and `key = number`.

use super::table::{Table, MODES};

/// The committed file.
pub const GOALS: &str = include_str!("../../goals.toml");

/// What the goals are about: seeds from `first` on, so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Seeds {
    /// Each of them.
    pub fn all(&self) -> Vec<u64> {
        (self.first..self.first + self.count).collect()
    }
}

/// The lines of a section; an error for a line that is neither a key with a number nor a comment.
fn section<'t>(text: &'t str, wanted: &str) -> Result<Vec<(&'t str, f64)>, String> {
    let mut inside = false;
    let mut out = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name == wanted;
        } else if inside && !line.is_empty() {
            let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim().parse()));
            let Some((key, Ok(value))) = pair else {
                return Err(format!("goals.toml: found {line:?}, wanted `key = number`"));
            };
            out.push((key, value));
        }
    }
    Ok(out)
}

/// The fixed seeds.
pub fn seeds(text: &str) -> Result<Seeds, String> {
    let mut seeds = Seeds::default();
    for (key, value) in section(text, "seeds")? {
        match key {
            "first" => seeds.first = value as u64,
            "count" => seeds.count = value as u64,
            other => return Err(format!("goals.toml: found {other:?}, wanted `first` or `count`")),
        }
    }
    Ok(seeds)
}

/// The goals that the tables miss, a line each.
pub fn missed(text: &str, tables: &[Table; 2]) -> Result<Vec<String>, String> {
    let mut missed = Vec::new();
    for (table, (mode, _)) in tables.iter().zip(MODES) {
        let calibration = table.calibration();
        for (key, least) in section(text, mode)? {
            let part = match key {
                "cause" => table.cause(),
                "place" => table.place(),
                "culprit" => table.culprit(),
                "twins" => table.twins(false),
                "twins_tight" => table.twins(true),
                "judged" => {
                    super::table::Part { of: table.judged().count(), all: table.cases.len() }
                }
                sure => match calibration.get(sure) {
                    Some(part) => *part,
                    None if ["confirmed", "likely", "possible"].contains(&sure) => continue,
                    None => return Err(format!("goals.toml: found {sure:?}, wanted a figure")),
                },
            };
            if part.percent() < least {
                let (found, of, all) = (part.percent(), part.of, part.all);
                missed.push(format!(
                    "switch records {mode}: {key} is {found:.1} % ({of}/{all}), wanted {least} %"
                ));
            }
        }
    }
    Ok(missed)
}
