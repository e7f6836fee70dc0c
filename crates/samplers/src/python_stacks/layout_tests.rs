//! The tables of offsets, compared with the headers of the interpreters found.

use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn prefixes() -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let versions = Path::new(&home).join(".pyenv/versions");
    let installed = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = installed.map(|entry| entry.path()).collect();
    found.push(PathBuf::from("/usr"));
    found
}

fn printed_by_the_headers(include: &Path, name: &str) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("layout_check.c");
    let program = std::env::temp_dir().join(format!("layout-{name}-{}", std::process::id()));
    let built = Command::new("cc")
        .args(["-w", "-DPy_BUILD_CORE"])
        .arg(format!("-I{}", include.display()))
        .arg(format!("-I{}", include.join("internal").display()))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return None;
    }
    let output = Command::new(&program).output();
    std::fs::remove_file(&program).expect("the checker was just built");
    Some(String::from_utf8(output.ok()?.stdout).expect("ASCII"))
}

#[test]
fn the_tables_agree_with_the_headers() {
    let mut checked = 0;
    for prefix in prefixes() {
        for minor in 9..=13u32 {
            let include = prefix.join(format!("include/python3.{minor}"));
            if !include.join("internal/pycore_interp.h").exists() {
                continue;
            }
            let Some(text) = printed_by_the_headers(&include, &format!("3.{minor}")) else {
                println!("skipped {}: no C compiler", include.display());
                continue;
            };
            let table = Layout::of((3 << 24) | (minor << 16)).expect("a known version");
            let ours = table.fields().into_iter().map(|(name, offset)| {
                format!("{name} {}\n", if offset == ABSENT { -1 } else { offset as i64 })
            });
            assert_eq!(ours.collect::<String>(), text, "{}", include.display());
            println!("checked {}", include.display());
            checked += 1;
        }
    }
    println!("{checked} header sets agree");
}

#[test]
fn an_unknown_version_has_no_table() {
    assert_eq!(Layout::of(0x030e_00f0), None);
    assert_eq!(Layout::of(0x0308_12f0), None);
}
