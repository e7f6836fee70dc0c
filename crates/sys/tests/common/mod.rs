//! What several tests need: reporting a skipped test, running it again without privileges,
//! waiting for a condition instead of a time.
#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(clippy::expect_used, reason = "a helper of tests fails the test it helps")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use sys::perf::SwitchStream;

#[allow(unused_imports, reason = "no test file uses all of it")]
pub use testkit::{child, in_a_child, wait_for, wait_for_child};

pub const NOBODY: u32 = 65534;
/// Set in a process that runs the tests a second time, to the role it plays there.
pub const ROLE: &str = "SYS_TEST_ROLE";

/// Prints to the real standard error: the harness would swallow it with the output of a pass.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

/// Opens a stream, or reports why the test cannot run here.
pub fn stream_or_skip(skip: &[u32]) -> Option<SwitchStream> {
    SwitchStream::open(skip).map_err(|e| skipped(&e.to_string())).ok()
}

pub fn is_root() -> bool {
    // SAFETY: geteuid takes no argument and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Runs all other tests of a file as uid 65534, when root; `module` is the file's `module_path!()`.
/// The test that calls this must be named `also_as_nobody`.
pub fn all_again_as_nobody(module: &str) {
    if !is_root() {
        return skipped("this is not root, so the other tests ran unprivileged already");
    }
    let status = again(NOBODY, "nobody", &[&named(module, ""), "--skip", "also_as_nobody"]);
    assert!(status.success(), "as nobody: {status}");
}

/// A test's name as the harness has it, from the `module_path!()` of its file: without the crate.
pub fn named(module: &str, test: &str) -> String {
    module.split_once("::").map_or(test.to_owned(), |(_, inside)| format!("{inside}::{test}"))
}

/// Runs this test binary again as `uid` with the given role and arguments.
pub fn again(uid: u32, role: &str, args: &[&str]) -> std::process::ExitStatus {
    // A copy, because the user `nobody` may not be allowed to walk to the original. Another process
    // makes it: were it open for writing in this one, a child forked by another test could hold it
    // open.
    let name = format!("sys-test-{}-{role}", std::process::id());
    let copy = std::env::temp_dir().join(name);
    let own = std::env::current_exe().expect("/proc is there");
    let copied = Command::new("cp").arg(&own).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "the binary can be copied");
    let everyone = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&copy, everyone).expect("the copy is ours");
    let mut command = Command::new(&copy);
    command.args(args).env(ROLE, role).current_dir("/");
    let status = command.uid(uid).gid(uid).status();
    std::fs::remove_file(&copy).expect("the copy is ours");
    status.expect("the copy runs")
}

pub fn plays(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|value| value == role)
}

/// How many descriptors of this process lead to something whose name contains `what`.
pub fn open_descriptors(what: &str) -> usize {
    let dir = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    dir.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().contains(what))
        .count()
}
