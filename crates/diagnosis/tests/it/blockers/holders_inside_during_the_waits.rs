//! On captures made by hand: the holder of a lock without an owner, from where threads were during
//! the waits and at all other times.

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Diagnosis};
use format::wait::WaitKind;
use made::{seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

/// Thread 7 waits 499 ms for a lock of C code. Without switch records.
fn waiting() -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    made.meta.from_ns = BEGIN - 4000 * MS;
    made.meta.to_ns = BEGIN + 4000 * MS;
    made.requests.push(made::request(99, 7, BEGIN, 500));
    let view = stack_on(&mut made, 0, &[("view", "/srv/app.py", 12)]);
    seen(&mut made, 7, &[(50, WaitKind::Futex, view), (300, WaitKind::Futex, view)]);
    made
}

/// Thread `tid` is in `job`, and from -100 ms to `until` in `ask`, which it calls.
fn job(made: &mut Capture, tid: u32, name: &str, until: i64) {
    let job = stack_on(made, 0, &[("job", "/srv/nightly.py", 5)]);
    let ask = stack_on(made, job, &[(name, "/srv/nightly.py", 20)]);
    let at = |ms: i64| BEGIN.saturating_add_signed(ms * 1_000_000);
    let stack = |ms: i64| if (-100..until).contains(&ms) { ask } else { job };
    let look = |ms: i64| made::sample(tid, at(ms), WaitKind::Sleep, stack(ms));
    made.samples.insert(tid, (-3990..3990).step_by(50).map(look).collect());
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

fn culprit(made: &Capture) -> Option<String> {
    judge(made).findings[0].culprit.as_ref().map(|p| p.function.clone())
}

#[test]
fn a_thread_that_was_in_one_function_during_the_wait_and_hardly_else_is_possible() {
    let mut made = waiting();
    job(&mut made, 9, "ask", 900);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.culprit.as_ref().expect("a holder").function, "ask");
    assert_eq!(first.confidence, Confidence::Possible);
    assert!(first.summary.contains("possibly held by nightly.py:20 ask()"), "{}", first.summary);
    let part = |what: &str| first.evidence.iter().find(|e| e.what == what).map(|e| e.value);
    assert_eq!(part("part of these waits during which that thread was there"), Some(100.0));
    let otherwise = part("part of all other time that it was there").expect("the odds");
    assert!(otherwise < 10.0, "{otherwise}");
}

#[test]
fn nobody_is_named_that_is_always_there_or_where_two_fit() {
    let mut made = waiting();
    job(&mut made, 9, "ask", 3900);
    assert_eq!(culprit(&made), None, "it is there most of the time");
    let mut made = waiting();
    job(&mut made, 9, "ask", 900);
    job(&mut made, 10, "tell", 900);
    assert_eq!(culprit(&made), None, "two fit");
    let mut made = waiting();
    job(&mut made, 9, "ask", 250);
    assert_eq!(culprit(&made), None, "half of the wait");
}

/// Thread 9 is in `loops` always, at line 20 from -100 ms to `until`, else at line 5.
fn loops(made: &mut Capture, until: i64) {
    job(made, 9, "ask", until);
    let mut at = |line| stack_on(made, 0, &[("loops", "/srv/nightly.py", line)]);
    let (takes, pauses) = (at(20), at(5));
    let asks = |s: u32, made: &Capture| made.frames(s).next().is_some_and(|f| f.function == "ask");
    let stacks: Vec<u32> = made.samples[&9].iter().map(|s| s.stack).collect();
    let new: Vec<u32> =
        stacks.into_iter().map(|s| if asks(s, made) { takes } else { pauses }).collect();
    for (sample, stack) in made.samples.get_mut(&9).into_iter().flatten().zip(new) {
        sample.stack = stack;
    }
}

#[test]
fn a_loop_that_takes_the_lock_and_pauses_is_compared_by_its_lines() {
    let mut made = waiting();
    loops(&mut made, 900);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    let found = first.culprit.as_ref().map(|p| (p.function.as_str(), p.line));
    assert_eq!(found, Some(("loops", 20)), "{}", to_text(&verdict));
    assert_eq!(first.confidence, Confidence::Possible);
    let mut made = waiting();
    loops(&mut made, 250);
    assert_eq!(culprit(&made), None, "half of the wait");
}
