//! The folder of golden captures.
//!
//! How it works: an entry NAME is three files: the packed capture, its verdict, and the description
//! with origin and right answer. Entries are read from all files, so that a file without its
//! siblings is noticed.
//!
//! What it promises: packing is deterministic: the same capture gives the same file. Missing on
//! purpose: judging (`verdict`, `answer`).

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use flate2::Compression;
use toml::{Table, Value};

use crate::answer::{self, Answer};

/// A stored capture has at most this many bytes.
pub const CAPTURE_BYTES_MAX: u64 = 150_000;
/// All of them together have at most this many bytes.
pub const ALL_BYTES_MAX: u64 = 12_000_000;
/// Suffix of a stored capture's name.
pub const CAPTURE: &str = ".dashcam.gz";
/// Suffix of its verdict's name.
pub const EXPECTED: &str = ".expected.txt";
/// Suffix of its description's name.
pub const DESCRIPTION: &str = ".toml";

/// Whether the stored verdict is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is right.
    Right,
    /// It is wrong, with the reason.
    Wrong(String),
}

/// One golden capture.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of its files, without suffix.
    pub name: String,
    /// The recorded program: a case of the zoo, of tests/captures/programs, or a word.
    pub case: String,
    /// Whether the kernel's switch records were on.
    pub switches: bool,
    /// Servers, frameworks and bindings in the program.
    pub server: Vec<String>,
    /// Version of the interpreter; "" without one.
    pub python: String,
    /// Version of the file format.
    pub format: u64,
    /// The damage done to it; "" if it is whole.
    pub damage: String,
    /// The right answer.
    pub answer: Answer,
    /// Whether the stored verdict is right.
    pub claim: Claim,
    folder: PathBuf,
}

impl Entry {
    /// Reads `NAME.toml` in `folder`. Err: one sentence that names the file.
    pub fn read(folder: &Path, name: &str) -> Result<Entry, String> {
        let path = folder.join(format!("{name}{DESCRIPTION}"));
        let said = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| said(error.to_string()))?;
        let table = text.parse::<Table>().map_err(|error| said(error.to_string()))?;
        Entry::of(folder, name, &table).map_err(said)
    }

    /// From a description.
    pub fn of(folder: &Path, name: &str, table: &Table) -> Result<Entry, String> {
        let text = |key: &str| answer::text(table, key);
        let format = table.get("format").and_then(Value::as_integer);
        let verdict = text("verdict")?;
        let claim = match verdict.strip_prefix("wrong: ") {
            Some(why) => Claim::Wrong(why.to_owned()),
            None if verdict == "right" => Claim::Right,
            None => return Err(format!("`verdict` is {verdict:?}; wanted right, or wrong: WHY")),
        };
        let answer = table.get("answer").and_then(Value::as_table);
        Ok(Entry {
            name: name.to_owned(),
            case: text("case")?,
            switches: match text("switches")?.as_str() {
                "on" => true,
                "off" => false,
                other => return Err(format!("`switches` is {other:?}; wanted on or off")),
            },
            server: answer::texts(table, "server")?,
            python: text("python")?,
            format: format.and_then(|n| u64::try_from(n).ok()).ok_or("`format` is no number")?,
            damage: text("damage").unwrap_or_default(),
            answer: Answer::of(answer.ok_or("`[answer]` is missing")?)?,
            claim,
            folder: folder.to_owned(),
        })
    }

    /// The path of one of its files.
    pub fn path(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}{ending}", self.name))
    }

    /// The capture, unpacked.
    pub fn capture(&self) -> Result<Vec<u8>, String> {
        unpacked(&self.path(CAPTURE))
    }

    /// The stored verdict; "" where there is none.
    pub fn expected(&self) -> String {
        std::fs::read_to_string(self.path(EXPECTED)).unwrap_or_default()
    }
}

/// The names of all entries, taken from all files, so that a file without its siblings is found
/// too.
pub fn names(folder: &Path) -> Result<Vec<String>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).map_err(said)? {
        let file = file.map_err(said)?.file_name().to_string_lossy().into_owned();
        let ends = [CAPTURE, EXPECTED, DESCRIPTION];
        names.extend(ends.iter().find_map(|end| file.strip_suffix(end)).map(str::to_owned));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// All entries whose name matches `glob`.
pub fn entries(folder: &Path, glob: &str) -> Result<Vec<Entry>, String> {
    let names = names(folder)?.into_iter().filter(|name| matches(glob, name));
    names.map(|name| Entry::read(folder, &name)).collect()
}

/// Whether a name matches a glob, in which `*` matches any text.
pub fn matches(glob: &str, name: &str) -> bool {
    let Some((head, tail)) = glob.split_once('*') else { return glob == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
}

/// The bytes of a stored capture.
pub fn unpacked(path: &Path) -> Result<Vec<u8>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(said)?;
    GzDecoder::new(file).read_to_end(&mut bytes).map_err(said)?;
    Ok(bytes)
}

/// A capture in its stored form. The same bytes give the same file.
pub fn packed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_any_text_at_each_star() {
        for (glob, name, fits) in [
            ("*", "lock_chain", true),
            ("lock*", "lock_chain", true),
            ("*-off", "lock_chain-off", true),
            ("l*k*n", "lock_chain", true),
            ("lock", "lock_chain", false),
            ("*-off", "lock_chain", false),
            ("", "lock_chain", false),
        ] {
            assert_eq!(matches(glob, name), fits, "{glob} {name}");
        }
    }
}
