//! Each of the contract's causes has a file of its own below `src/causes`, whose head says by what
//! it is known, what it quotes, and what makes it sure or unsure.

use std::path::{Path, PathBuf};

/// The words of `why`, as docs and users know them.
const CAUSES: [&str; 22] = [
    "sleep",
    "lock-wait",
    "gil-wait",
    "gc-pause",
    "cpu",
    "cpu-starved",
    "cpu-throttled",
    "event-loop-blocked",
    "pool-wait",
    "downstream-wait",
    "connect",
    "dns",
    "disk-io",
    "pipe-write",
    "subprocess-wait",
    "import",
    "fork",
    "page-fault",
    "stopped",
    "deadlock-timeout",
    "recorder",
    "unknown",
];

#[test]
fn its_head_begins_with_its_name_and_has_all_parts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/causes");
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder of the crate");
        entries.map(|entry| entry.expect("readable").path()).collect()
    };
    let folders = list(&folder).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|group| list(&group)).collect();
    files.extend(list(&folder));
    for cause in CAUSES {
        let name = format!("{}.rs", cause.replace('-', "_"));
        let path = files.iter().find(|path| path.ends_with(&name)).expect(cause);
        let text = std::fs::read_to_string(path).expect(cause);
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(head.starts_with(&format!("//! {cause}: ")), "{cause}: {head}");
        for part in ["Signature:", "Quotes:"] {
            assert!(head.contains(part), "{cause} has no {part}");
        }
        let sure = ["Sure:", "Unsure:", "Never surer"].iter().any(|part| head.contains(part));
        assert!(sure, "{cause} does not say what makes it sure");
        assert!(text.contains("ADVICE"), "{cause} has no advice");
    }
}
