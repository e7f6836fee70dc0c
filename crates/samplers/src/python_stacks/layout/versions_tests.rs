//! The tables of offsets, compared with the headers of the interpreters found.

use super::*;
use crate::python_stacks::attach::published;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use sys::mem::Reader;

fn prefixes() -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let versions = Path::new(&home).join(".pyenv/versions");
    let installed = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = installed.map(|entry| entry.path()).collect();
    found.push(PathBuf::from("/usr"));
    found.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/new_pythons/usr"));
    found
}

/// The headers of each version that is found: its minor version and their folder.
fn headers() -> Vec<(u32, PathBuf)> {
    let of = |prefix: PathBuf| {
        (9..=15).map(move |minor| (minor, prefix.join(format!("include/python3.{minor}"))))
    };
    let all = prefixes().into_iter().flat_map(of);
    all.filter(|(_, include)| include.join("internal/pycore_interp.h").exists()).collect()
}

/// `flags`: for the compiler.
fn printed_by_the_headers(include: &Path, flags: &[&str], what: &str) -> Option<String> {
    static BUILT: AtomicUsize = AtomicUsize::new(0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("layout_check.c");
    let number = BUILT.fetch_add(1, Ordering::Relaxed);
    let name = format!("dashcam-layout-{}-{number}", std::process::id());
    let program = std::env::temp_dir().join(name);
    let built = Command::new("cc")
        .args(["-w", "-DPy_BUILD_CORE"])
        .args(flags)
        .arg(format!("-I{}", include.display()))
        .arg(format!("-I{}", include.join("internal").display()))
        // Debian's pyconfig.h names the machine's own from there.
        .arg(format!("-I{}", include.join("..").display()))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return None;
    }
    let output = Command::new(&program).arg(what).output();
    std::fs::remove_file(&program).expect("the checker was just built");
    Some(String::from_utf8(output.ok()?.stdout).expect("ASCII"))
}

#[test]
fn the_tables_agree_with_the_headers() {
    for (minor, include) in headers() {
        let Some(text) = printed_by_the_headers(&include, &[], "table") else {
            println!("skipped {}: no C compiler", include.display());
            continue;
        };
        let table = Layout::of((3 << 24) | (minor << 16)).expect("a known version");
        let ours = table.fields().into_iter().map(|(name, offset)| {
            format!("{name} {}\n", if offset == ABSENT { -1 } else { offset as i64 })
        });
        assert_eq!(ours.collect::<String>(), text, "{}", include.display());
        println!("checked {}", include.display());
    }
}

/// The words of `_Py_DebugOffsets`.
fn published_words(include: &Path, flags: &[&str]) -> Option<Vec<u64>> {
    let text = printed_by_the_headers(include, flags, "published")?;
    Some(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The layouts of a free-threaded build, compiled against the same headers, differ in where objects
/// and frames keep their fields: such a process is refused by the word that says what it is, before
/// anything else is read.
#[test]
fn a_free_threaded_build_is_refused_by_its_own_word() {
    let mem = Reader::new().expect("a process may read itself");
    for (minor, include) in headers().into_iter().filter(|(minor, _)| *minor >= 14) {
        let Some(plain) = published_words(&include, &[]) else { continue };
        let words = published_words(&include, &["-DPy_GIL_DISABLED=1"]).expect("compiles");
        assert_ne!(words, plain, "3.{minor}");
        let (at, version) = (words.as_ptr() as usize, words[1] as u32);
        assert!(published::is_free_threaded(&mem, at), "3.{minor}");
        assert!(!published::is_free_threaded(&mem, plain.as_ptr() as usize), "3.{minor}");
        let table = Layout::of(version).expect("a known version");
        let refused = published::overlay(&mem, at, version, table).expect_err("refused");
        let text = refused.to_string();
        assert!(text.contains("interpreter build is free-threaded, wanted with the GIL"), "{text}");
    }
}

/// Each word is where `published` expects it.
#[test]
fn what_the_headers_publish_is_the_table() {
    let mem = Reader::new().expect("a process may read itself");
    for (minor, include) in headers().into_iter().filter(|(minor, _)| *minor >= 14) {
        let Some(words) = published_words(&include, &[]) else { continue };
        let version = words[1] as u32;
        assert_eq!(version >> 16, 0x0300 | minor, "{}", include.display());
        let table = Layout::of(version).expect("a known version");
        let read = published::overlay(&mem, words.as_ptr() as usize, version, table);
        assert_eq!(read, Ok(table), "{}", include.display());
    }
}

#[test]
fn an_unknown_version_has_no_table() {
    assert_eq!(Layout::of(0x0310_00f0), None);
    assert_eq!(Layout::of(0x0308_12f0), None);
}
