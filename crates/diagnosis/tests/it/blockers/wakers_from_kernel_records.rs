//! On captures made by hand: where the kernel recorded the waker, it is the culprit and it is
//! measured; no thread is inferred against it; without it all is as before.

use crate::made;

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Diagnosis, Finding};
use format::wait::WaitKind;
use format::wake::{Wake, Waker};
use made::{off, seen, stack, BEGIN, MS};

const WAITER: u32 = 7;
const HOLDER: u32 = 9;
/// Shares the file with the waiter and ran just before: the thread that would be inferred.
const NEAR: u32 = 11;
/// Is at the waiter's own place.
const FELLOW: u32 = 13;

/// The waiter waits in `view` for a lock from 0 to 490 ms. The holder slept in a file of its own
/// until 489, the near thread in `refresh` until 488.
fn capture() -> Capture {
    capture_of(&[("view", "/srv/app.py", 12)])
}

/// The same, with the waiter's stack.
fn capture_of(frames: &[(&str, &str, u32)]) -> Capture {
    let mut made = made::capture(WAITER, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.requests.push(made::request(99, WAITER, BEGIN, 500));
    let waits = stack(&mut made, frames);
    let holds = stack(&mut made, &[("nightly", "/srv/jobs.py", 40)]);
    let near = stack(&mut made, &[("refresh", "/srv/app.py", 70)]);
    off(&mut made, WAITER, &[(0, 490)]);
    seen(&mut made, WAITER, &[(50, WaitKind::Futex, waits), (300, WaitKind::Futex, waits)]);
    off(&mut made, HOLDER, &[(0, 489), (491, 900)]);
    seen(&mut made, HOLDER, &[(60, WaitKind::Sleep, holds), (310, WaitKind::Sleep, holds)]);
    off(&mut made, NEAR, &[(0, 488), (490, 900)]);
    seen(&mut made, NEAR, &[(70, WaitKind::SocketRead, near), (320, WaitKind::SocketRead, near)]);
    for samples in made.samples.values_mut() {
        samples.iter_mut().filter(|s| s.wait == WaitKind::Futex).for_each(|s| s.target = 4096);
    }
    made
}

fn woken(made: &mut Capture, tid: u32, at_us: u64, by: Waker) {
    let wake = Wake { t_ns: BEGIN + at_us * 1000, tid, by };
    made.wakes.entry(tid).or_default().push(wake);
}

fn verdict(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

fn first<'v>(verdict: &'v Diagnosis<'_>) -> &'v Finding {
    verdict.findings.first().expect("a finding")
}

fn culprit<'v>(verdict: &'v Diagnosis<'_>) -> Option<&'v str> {
    first(verdict).culprit.as_ref().map(|c| c.function.as_str())
}

fn evidence<'v>(verdict: &'v Diagnosis<'_>) -> Vec<&'v str> {
    let reported = first(verdict).evidence.iter().map(|e| e.what.as_str());
    reported.filter(|what| what.contains("was ended by")).collect()
}

#[test]
fn without_wakings_it_is_inferred_and_says_so() {
    let made = capture();
    let verdict = verdict(&made);
    assert_eq!((first(&verdict).cause.text(), culprit(&verdict)), ("lock-wait", Some("refresh")));
    assert!(first(&verdict).summary.contains("most likely held by"), "{}", first(&verdict).summary);
    assert!(first(&verdict).confidence < Confidence::Confirmed);
    assert_eq!(evidence(&verdict), Vec::<&str>::new());
}

#[test]
fn the_waker_of_the_waiter_held_the_lock() {
    let mut made = capture();
    woken(&mut made, WAITER, 489_500, Waker::Thread(HOLDER));
    let verdict = verdict(&made);
    let finding = first(&verdict);
    assert_eq!((finding.cause.text(), culprit(&verdict)), ("lock-wait", Some("nightly")));
    assert!(finding.summary.contains(", held by "), "{}", finding.summary);
    assert!(finding.summary.contains("which slept"), "{}", finding.summary);
    assert!(finding.missing.iter().all(|why| !why.contains("inferred")), "{:?}", finding.missing);
    assert_eq!(
        evidence(&verdict),
        ["the longest wait was ended by thread 9, at this time of the capture"]
    );
}

#[test]
fn the_waker_at_a_pool_was_recorded_but_that_it_had_the_item_was_not() {
    let get = [
        ("view", "/srv/app.py", 12),
        ("Queue.get", "/lib/queue.py", 170),
        ("Condition.wait", "/lib/threading.py", 320),
    ];
    let missing = |made: &Capture| {
        let verdict = verdict(made);
        let finding = first(&verdict);
        assert_eq!(finding.cause.text(), "pool-wait");
        assert_eq!(finding.confidence, Confidence::Likely);
        finding.missing.iter().find(|why| why.starts_with("the holder was")).cloned()
    };
    let mut made = capture_of(&get);
    let inferred = "the holder was inferred: the thread that ran when the wait ended";
    assert_eq!(missing(&made).as_deref(), Some(inferred));
    woken(&mut made, WAITER, 489_500, Waker::Thread(HOLDER));
    let reported = "the holder was inferred: the thread that ended the wait";
    assert_eq!(missing(&made).as_deref(), Some(reported));
}

#[test]
fn the_thread_is_called_by_its_name() {
    let mut made = capture();
    woken(&mut made, WAITER, 489_500, Waker::Thread(HOLDER));
    made.threads.push(made::thread(HOLDER, "jobs"));
    let verdict = verdict(&made);
    assert!(evidence(&verdict)[0].contains("ended by thread jobs (9)"), "{:?}", evidence(&verdict));
}

#[test]
fn wakings_of_other_times_say_nothing() {
    for at_us in [500, 495_000] {
        let mut made = capture();
        off(&mut made, WAITER, &[(2, 490)]);
        woken(&mut made, WAITER, at_us, Waker::Thread(HOLDER));
        assert_eq!(culprit(&verdict(&made)), Some("refresh"), "{at_us}");
    }
}

#[test]
fn what_was_woken_twice_was_ended_by_the_first() {
    let mut made = capture();
    woken(&mut made, WAITER, 489_500, Waker::Thread(HOLDER));
    woken(&mut made, WAITER, 489_600, Waker::Thread(NEAR));
    assert_eq!(culprit(&verdict(&made)), Some("nightly"));
}

#[test]
fn nobody_is_inferred_where_the_kernel_ended_the_wait() {
    for by in [Waker::Kernel, Waker::Process(4711)] {
        let mut made = capture();
        woken(&mut made, WAITER, 489_500, by);
        let verdict = verdict(&made);
        assert_eq!(
            (first(&verdict).cause.text(), culprit(&verdict)),
            ("lock-wait", None),
            "{by:?}"
        );
        assert!(first(&verdict).confidence < Confidence::Confirmed);
        let words = if by == Waker::Kernel { "the kernel" } else { "another process (4711)" };
        assert!(evidence(&verdict)[0].contains(words), "{:?}", evidence(&verdict));
    }
}

/// A fellow that waits at the same place has its turn at 485 ms and passes the lock on.
fn with_fellow() -> Capture {
    let mut made = capture();
    let waits = made.samples[&WAITER][0].stack;
    off(&mut made, FELLOW, &[(5, 485), (492, 900)]);
    seen(&mut made, FELLOW, &[(80, WaitKind::Futex, waits), (330, WaitKind::Futex, waits)]);
    woken(&mut made, WAITER, 489_500, Waker::Thread(FELLOW));
    made
}

#[test]
fn a_thread_that_only_passed_the_lock_on_is_not_to_blame() {
    let mut made = with_fellow();
    woken(&mut made, FELLOW, 484_900, Waker::Thread(HOLDER));
    let verdict = verdict(&made);
    assert_eq!(culprit(&verdict), Some("nightly"));
    assert!(first(&verdict).summary.contains(", held by "), "{}", first(&verdict).summary);
}

#[test]
fn where_the_chain_breaks_off_the_fellow_is_not_blamed_either() {
    let made = with_fellow();
    let verdict = verdict(&made);
    assert_ne!(culprit(&verdict), Some("view"));
    assert!(first(&verdict).confidence < Confidence::Confirmed, "{:?}", first(&verdict).summary);
}

#[test]
fn a_circle_ends() {
    let mut made = with_fellow();
    woken(&mut made, FELLOW, 484_900, Waker::Thread(WAITER));
    assert_ne!(culprit(&verdict(&made)), Some("view"));
}

#[test]
fn a_holder_that_was_never_seen_is_not_named() {
    let mut made = capture();
    made.samples.remove(&HOLDER);
    woken(&mut made, WAITER, 489_500, Waker::Thread(HOLDER));
    let verdict = verdict(&made);
    assert_eq!(culprit(&verdict), None, "{}", first(&verdict).summary);
    assert!(evidence(&verdict)[0].contains("ended by thread 9"), "{:?}", evidence(&verdict));
    assert!(first(&verdict).confidence < Confidence::Confirmed);
}

/// The holder woke the waiter from these frames.
fn let_go(made: &mut Capture, frames: &[(&str, &str, u32)]) {
    woken(made, WAITER, 489_500, Waker::Thread(HOLDER));
    let stack = stack(made, frames);
    made.waker_stacks.insert((WAITER, BEGIN + 489_500_000), stack);
}

#[test]
fn the_place_of_the_release_is_reported_instead_of_where_samples_saw_it_by_chance() {
    let mut made = capture();
    let std = "/rustc/1/library/std/src/sync/mutex.rs";
    let_go(&mut made, &[("serve", "/srv/a.rs", 3), ("settle", "/srv/b.rs", 44), ("drop", std, 9)]);
    let verdict = verdict(&made);
    let finding = first(&verdict);
    let place = finding.culprit.as_ref().expect("who let go");
    assert_eq!((place.function.as_str(), place.line), ("settle", 44));
    assert!(finding.summary.contains(", held by "), "{}", finding.summary);
    let at =
        "the longest wait was ended by thread 9 in b.rs:44 settle(), at this time of the capture";
    assert_eq!(evidence(&verdict), [at]);
}

#[test]
fn looks_into_the_function_that_let_go_say_what_it_did_until_then() {
    let mut made = capture();
    let sleeps = stack(&mut made, &[("settle", "/srv/b.rs", 40), ("nightly", "/srv/jobs.py", 40)]);
    made.samples.get_mut(&HOLDER).expect("seen").iter_mut().for_each(|s| s.stack = sleeps);
    let_go(&mut made, &[("settle", "/srv/b.rs", 44)]);
    let verdict = verdict(&made);
    assert_eq!(culprit(&verdict), Some("nightly"));
    assert!(evidence(&verdict)[0].contains("in b.rs:44 settle()"), "{:?}", evidence(&verdict));
}

#[test]
fn a_holder_that_no_sample_saw_is_named_by_where_it_released() {
    let mut made = capture();
    made.samples.remove(&HOLDER);
    let_go(&mut made, &[("settle", "/srv/b.rs", 44)]);
    let verdict = verdict(&made);
    assert_eq!(culprit(&verdict), Some("settle"));
    assert!(first(&verdict).missing.iter().all(|why| !why.contains("inferred")));
}

#[test]
fn a_stack_of_none_of_the_programs_own_functions_names_nobody() {
    let mut made = capture();
    let_go(&mut made, &[("futex_wake", "/rustc/1/library/std/src/sys/futex.rs", 44)]);
    assert_eq!(culprit(&verdict(&made)), Some("nightly"));
}

#[test]
fn recorded_twice_the_stack_may_be_of_the_second() {
    let mut made = capture();
    woken(&mut made, WAITER, 489_499, Waker::Thread(HOLDER));
    let_go(&mut made, &[("settle", "/srv/b.rs", 44)]);
    assert_eq!(culprit(&verdict(&made)), Some("settle"));
    // But not of another's.
    made.wakes.get_mut(&WAITER).expect("woken")[0].by = Waker::Thread(NEAR);
    assert_eq!(culprit(&verdict(&made)), Some("refresh"));
}

#[test]
fn a_holder_that_waited_for_another_lock_leads_to_that_locks_holder() {
    let mut made = capture();
    let other = stack(&mut made, &[("flush", "/srv/jobs.py", 80)]);
    seen(&mut made, HOLDER, &[(60, WaitKind::Futex, other), (310, WaitKind::Futex, other)]);
    let samples = made.samples.get_mut(&HOLDER).expect("seen");
    samples.iter_mut().for_each(|s| s.target = 8192);
    woken(&mut made, WAITER, 489_500, Waker::Thread(HOLDER));
    woken(&mut made, HOLDER, 488_200, Waker::Thread(NEAR));
    assert_eq!(culprit(&verdict(&made)), Some("refresh"));
}
