//! On captures made by hand: code that a library generated is nobody's place.
#![allow(clippy::expect_used, missing_docs)]

mod made;

use capture::read::Capture;
use diagnosis::{diagnose, Finding};
use format::wait::WaitKind;
use made::{off, sample, stack, BEGIN, MS};

const APP: &str = "/srv/app.py";
const THREAD: u32 = 7;
const OTHER: u32 = 9;

/// The slow request takes 500 ms; `loops`: on an event loop.
fn capture(loops: bool) -> Capture {
    let mut made = made::capture(THREAD, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    let mut row = made::request(99, THREAD, BEGIN, 500);
    row.on_loop = loops;
    made.requests.push(row);
    made
}

fn seen(made: &mut Capture, tid: u32, from_ms: u64, to_ms: u64, wait: WaitKind, stack: u32) {
    let looks = (from_ms..to_ms).step_by(10).map(|ms| sample(tid, BEGIN + ms * MS, wait, stack));
    made.samples.entry(tid).or_default().extend(looks);
}

fn findings(made: &Capture) -> Vec<Finding> {
    diagnose(made, |_| 300 * MS).findings
}

fn only(made: &Capture) -> Finding {
    let mut all = findings(made);
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(|f| &f.summary).collect::<Vec<_>>());
    all.remove(0)
}

#[test]
fn what_a_library_generated_is_no_place_but_what_was_typed_is() {
    let pool = "/lib/site-packages/alchemy/pool/impl.py";
    for (file, function) in [
        ("<alchemy generated wrapper for a.b.c>", "view"),
        ("<string>", "view"),
        ("<stdin>", "made_there"),
        ("<ipython-input-3-0a1b>", "made_there"),
    ] {
        let mut made = capture(false);
        let code = [
            ("view", APP, 10),
            ("connect", "/lib/site-packages/alchemy/session.py", 20),
            ("made_there", file, 2),
            ("do_get", pool, 30),
            ("wait", "/lib/threading.py", 300),
        ];
        let waits = stack(&mut made, &code);
        off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Futex, waits);
        let finding = only(&made);
        assert_eq!(finding.cause.text(), "pool-wait");
        assert_eq!(finding.place.expect("a place").function, function, "{file}");
    }
}

#[test]
fn who_waits_for_the_same_pool_at_another_line_of_its_code_has_nothing_out_of_it() {
    let pool = "/lib/site-packages/alchemy/pool/impl.py";
    let wait = ("wait", "/lib/threading.py", 300);
    let mut made = capture(false);
    let waits = stack(&mut made, &[("view", APP, 10), ("do_get", pool, 30), wait]);
    let fellow = stack(&mut made, &[("orders", APP, 40), ("do_get", pool, 34), wait]);
    off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
    seen(&mut made, THREAD, 5, 499, WaitKind::Futex, waits);
    off(&mut made, OTHER, &[(100, 498), (499, 1000)]);
    seen(&mut made, OTHER, 105, 498, WaitKind::Futex, fellow);
    // Each that waits for a Condition does so in a lock of its own.
    for (tid, looks) in &mut made.samples {
        looks.iter_mut().for_each(|look| look.target = u64::from(*tid));
    }
    let finding = only(&made);
    assert_eq!((finding.cause.text(), finding.culprit.map(|c| c.function)), ("pool-wait", None));
}
