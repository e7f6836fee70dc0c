//! The stacks, the GIL's holder and the locks' holders of every interpreter found are right, and
//! the interpreter survives being read while everything in it changes.
//!
//! How it works: the probe (examples/stack_probe.rs) is built as a shared library; each script in
//! tests/python loads it with ctypes and compares it with what CPython says about itself. They are
//! run by every python3.9 to python3.15 on PATH, under ~/.pyenv/versions, in build/new_pythons
//! (tools/new_pythons), or named in DASHCAM_PYTHONS (colon-separated). No interpreter at all is a
//! failure; nor may a version be missing that DASHCAM_PYTHONS_REQUIRED names ("3.9 3.13";
//! tools/test_live sets it).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        let test = std::env::current_exe().expect("own path");
        let profile_dir = test.parent().and_then(Path::parent).expect("target/PROFILE/deps");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "stack_probe", "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        build.arg("--target-dir").arg(profile_dir.parent().expect("the target directory"));
        if profile_dir.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the probe does not build");
        profile_dir.join("examples/libstack_probe.so")
    })
}

fn version_of(python: &Path) -> Option<String> {
    let print = "import sys; print('%d.%d.%d' % sys.version_info[:3])";
    let output = Command::new(python).args(["-c", print]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// One interpreter a version: version -> path.
fn interpreters() -> BTreeMap<String, PathBuf> {
    let named = std::env::var("DASHCAM_PYTHONS").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = std::env::split_paths(&named).collect();
    let mut dirs: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let versions = Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".pyenv/versions");
    let installed = std::fs::read_dir(versions).into_iter().flatten().flatten();
    dirs.extend(installed.map(|entry| entry.path().join("bin")));
    dirs.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/new_pythons/usr/bin"));
    for dir in dirs {
        candidates.extend((9..=15).map(|minor| dir.join(format!("python3.{minor}"))));
    }
    let mut found = BTreeMap::new();
    for python in candidates.into_iter().filter(|path| path.exists()) {
        match version_of(&python) {
            Some(version) => drop(found.entry(version).or_insert(python)),
            None => println!("skipped {}: does not run", python.display()),
        }
    }
    found
}

fn run_everywhere(script: &str, arguments: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let found = interpreters();
    assert!(!found.is_empty(), "no python3.9 to python3.15 found: set DASHCAM_PYTHONS");
    for (version, python) in &found {
        let output = Command::new(python)
            .arg(&path)
            .args(arguments)
            .env("DASHCAM_PROBE", probe())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("the interpreter starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        println!("{script} on {version} ({}): {}", python.display(), said.trim());
        assert!(output.status.success(), "{script} on {version}: {}\n{complained}", output.status);
        assert!(complained.is_empty(), "{script} on {version}: {complained}");
    }
    let missing = missing(found.keys().map(String::as_str));
    for version in &missing {
        println!("{script}: skipped {version}, not installed");
    }
    let required = std::env::var("DASHCAM_PYTHONS_REQUIRED").unwrap_or_default();
    let absent = absent(&required, &missing);
    assert!(absent.is_empty(), "{script}: DASHCAM_PYTHONS_REQUIRED, but not run: {absent:?}");
}

/// The versions we support that are not among those found.
fn missing<'f>(found: impl Iterator<Item = &'f str>) -> Vec<String> {
    let minor = |version: &str| version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let found: Vec<String> = found.map(minor).collect();
    (9..=15).map(|minor| format!("3.{minor}")).filter(|version| !found.contains(version)).collect()
}

/// The required versions that were not run; a word that is none of our versions is one of them.
fn absent<'r>(required: &'r str, missing: &[String]) -> Vec<&'r str> {
    let known = |version: &str| (9..=15).any(|minor| version == format!("3.{minor}"));
    let required = required.split_whitespace();
    required.filter(|v| !known(v) || missing.iter().any(|missing| missing == v)).collect()
}

#[test]
fn a_version_that_is_required_and_missing_is_a_failure() {
    let missing = missing(["3.9.18", "3.10.13", "3.12.1", "3.14.10", "3.15.2"].into_iter());
    assert_eq!(missing, ["3.11", "3.13"]);
    assert_eq!(absent("3.9 3.10 3.15", &missing), [""; 0]);
    assert_eq!(absent("3.10 3.11 3.16", &missing), ["3.11", "3.16"]);
}

#[test]
fn parked_stacks_equal_what_cpython_says() {
    run_everywhere("stacks_match.py", &[]);
}

#[test]
fn a_stack_sampled_again_is_the_present_stack() {
    run_everywhere("again.py", &[]);
}

#[test]
fn the_gil_and_lock_holders_are_named_and_never_guessed() {
    run_everywhere("gil_and_locks.py", &[]);
}

#[test]
fn waiters_for_the_same_lock_have_the_same_object() {
    run_everywhere("waited_for.py", &[]);
}

#[test]
fn a_flood_of_samples_is_survived_and_shows_no_impossible_call() {
    run_everywhere("changing.py", &["4"]);
}

/// docs/accuracy.md has what it prints.
#[test]
fn few_stacks_of_a_thread_that_runs_on_are_impossible() {
    run_everywhere("moving.py", &["4000"]);
}

#[test]
fn suspended_tasks_have_their_stacks_and_awaits() {
    run_everywhere("awaits.py", &[]);
}

#[test]
fn the_running_task_is_named_and_never_another_one() {
    run_everywhere("running.py", &[]);
}

#[test]
fn short_tasks_never_lend_each_other_their_names() {
    run_everywhere("running_changing.py", &["3"]);
}

#[test]
fn tasks_that_die_while_they_are_read_harm_nobody() {
    run_everywhere("awaits_changing.py", &["4"]);
}
