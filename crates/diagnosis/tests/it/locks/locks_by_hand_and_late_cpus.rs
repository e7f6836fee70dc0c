//! On captures made by hand: two threads that wait for each other's locks, whose owners no sample
//! can read; waits that end by their limit; and waits behind which there was no CPU.

use analysis::timeline::{self, Segment};
use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::record::{flag, TARGET_IS_NAME};
use format::wait::WaitKind::{ChildWait, FileLock, Futex, Running, Sleep, SocketRead};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const THIRD: u32 = 11;

fn slow(ms: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.requests.push(made::request(99, OWN, BEGIN, ms));
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 100 * MS)
}

/// `tid` waits for `lock` from one time to the other, with a limit that would end it then.
fn waits(made: &mut Capture, tid: u32, (from, to, limit): (u64, u64, u64), lock: u64, stack: u32) {
    off(made, tid, &[(from, to)]);
    seen(made, tid, &[]);
    also_seen(made, tid, (from + 5..to - 5).step_by(10), Futex, stack);
    for look in made.samples.get_mut(&tid).into_iter().flatten() {
        look.target = lock;
        look.timeout_ns = BEGIN + limit * MS - look.t_ns;
    }
}

/// A request waits for a lock until its limit, 300 ms. Another thread, in another file, waits for
/// another one until then, or until `until`.
fn two_that_wait(until: u64) -> Capture {
    let mut made = slow(310);
    let transfer = stack(&mut made, &[("transfer", "/srv/app.py", 10)]);
    let settle = stack(&mut made, &[("settle", "/srv/settlement.py", 20)]);
    waits(&mut made, OWN, (1, 300, 300), 0x10, transfer);
    waits(&mut made, OTHER, (30, until, 330), 0x20, settle);
    made
}

#[test]
fn a_thread_that_goes_on_when_another_gives_up_had_what_the_other_waited_for() {
    let made = two_that_wait(301);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
    assert_eq!(first.culprit.clone().expect("a culprit").function, "settle");
    assert_eq!(first.confidence.text(), "likely", "{}", to_text(&verdict));
    assert!(
        first.summary.contains("a lock, most likely of settlement.py:20 settle()"),
        "{}",
        first.summary
    );
}

#[test]
fn a_waiter_behind_a_deadlock_waits_for_its_partner() {
    let mut made = two_that_wait(301);
    // Two more requests at the same code: they want the lock that the first one has.
    for (id, tid, until) in [(100, 21, 302), (101, 23, 250)] {
        made.requests.push(made::request(id, tid, BEGIN, until + 8));
        let behind = stack(&mut made, &[("transfer", "/srv/app.py", 8)]);
        waits(&mut made, tid, (2, until, until), 0x20, behind);
    }
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
    assert_eq!(first.culprit.clone().expect("a culprit").function, "settle");
    assert!(first.share > 0.9, "{}", to_text(&verdict));
}

/// Of two requests at the same code the one waits for its second lock until its limit; the other
/// goes on then.
#[test]
fn a_waiter_at_the_same_line_for_another_lock_crossed_it_and_one_at_the_first_did_not() {
    for (line, cause) in [(10, "deadlock-timeout"), (8, "lock-wait")] {
        let mut made = two_that_wait(301);
        let transfer = stack(&mut made, &[("transfer", "/srv/app.py", line)]);
        let first = stack(&mut made, &[("transfer", "/srv/app.py", 10)]);
        for (tid, stack) in [(OWN, first), (OTHER, transfer)] {
            made.samples.get_mut(&tid).into_iter().flatten().for_each(|look| look.stack = stack);
        }
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), cause, "{}", to_text(&verdict));
    }
}

#[test]
fn a_file_lock_of_this_process_has_its_holder_in_any_file() {
    let mut made = slow(310);
    made.names.push("/run/seq.lock, held by this process".to_owned());
    let lock = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    let next = stack(&mut made, &[("next_number", "/srv/sequence.py", 6)]);
    let archive = stack(&mut made, &[("compact", "/srv/c.py", 7), ("archive", "/srv/c.py", 10)]);
    off(&mut made, OWN, &[(1, 300)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (6..295).step_by(10), FileLock, next);
    made.samples.get_mut(&OWN).into_iter().flatten().for_each(|look| look.target = lock);
    off(&mut made, OTHER, &[(0, 299), (301, 9000)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (6..295).step_by(10), ChildWait, archive);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.culprit.clone().expect("a culprit").function, "archive");
    // One that goes on at another time kept nobody.
    off(&mut made, OTHER, &[(0, 9000)]);
    let verdict = judge(&made);
    assert!(verdict.findings[0].culprit.is_none(), "{}", to_text(&verdict));
}

#[test]
fn a_third_that_worked_there_may_have_had_the_lock() {
    let mut made = two_that_wait(301);
    let works = stack(&mut made, &[("audit", "/srv/app.py", 30)]);
    seen(&mut made, THIRD, &[]);
    also_seen(&mut made, THIRD, (5..305).step_by(10), Sleep, works);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "lock-wait", "{}", to_text(&verdict));
}

#[test]
fn two_that_give_up_one_after_the_other_waited_for_somebody_else() {
    let made = two_that_wait(330);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    let text = "for a lock until its time limit; the holder is not known";
    assert!(first.summary.ends_with(text), "{}", first.summary);
}

#[test]
fn a_barriers_last_thread_comes_when_its_own_party_goes_on() {
    let mut made = slow(310);
    let enters = |made: &mut Capture, name| {
        let own = [(name, "/srv/app.py", 10), ("wait", "/lib/threading.py", 668)];
        let inner = [("_wait", "/lib/threading.py", 703), ("wait_for", "/lib/threading.py", 359)];
        stack(made, &[&own[..], &inner[..], &[("wait", "/lib/threading.py", 331)]].concat())
    };
    let meets = enters(&mut made, "meet");
    let come = |made: &mut Capture, tid, until: u64| {
        let late = stack(made, &[("come", "/srv/app.py", 20 + tid)]);
        off(made, tid, &[(1, until), (until + 1, 9000)]);
        seen(made, tid, &[]);
        also_seen(made, tid, (5..until - 5).step_by(10), Sleep, late);
    };
    waits(&mut made, OWN, (1, 300, 9000), 0x10, meets);
    // Another party, at another Barrier, goes on a little sooner.
    waits(&mut made, 8, (1, 250, 9000), 0x20, meets);
    come(&mut made, OTHER, 299);
    come(&mut made, THIRD, 249);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    let culprit = first.culprit.clone().expect("a culprit");
    assert_eq!(culprit.line, 20 + OTHER, "{}", to_text(&verdict));
}

#[test]
fn what_is_waited_for_has_its_name() {
    let threading = "/lib/threading.py";
    let permit = [("pay", "/srv/app.py", 9), ("acquire", threading, 507), ("wait", threading, 327)];
    let item =
        [("take", "/srv/app.py", 9), ("get", "/lib/queue.py", 171), ("wait", threading, 327)];
    for (frames, text) in
        [(permit, "for a permit of a Semaphore;"), (item, "for an item of a queue;")]
    {
        let mut made = slow(310);
        let code = stack(&mut made, &frames);
        waits(&mut made, OWN, (1, 300, 9000), 0x10, code);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
        assert!(first.summary.contains(text), "{}", first.summary);
    }
}

/// Thirty answers of a peer of 1 ms each; behind each of them the thread is without a CPU for 8 ms,
/// by the kernel's count or not.
fn many_short_waits(delay_ms: u64) -> Capture {
    let mut made = slow(300);
    let ask = stack(&mut made, &[("ask", "/srv/app.py", 12)]);
    let each: Vec<(u64, u64)> = (0..30).map(|i| (i * 10, i * 10 + 9)).collect();
    off(&mut made, OWN, &each);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..300).step_by(20), SocketRead, ask);
    also_seen(&mut made, OWN, (19..300).step_by(20), Running, ask);
    let samples = made.samples.get_mut(&OWN).expect("looks");
    samples.sort_by_key(|look| look.t_ns);
    for look in samples {
        // Two waits end before each sample that finds it running, none before the others.
        let (wall, waits) = if look.wait == Running { (14, 2) } else { (6, 0) };
        look.flags |= flag::TIMES;
        (look.wall_ns, look.cpu_ns) = (wall * MS, waits * MS);
        look.run_delay_ns = waits * delay_ms * MS;
    }
    made
}

#[test]
fn a_wait_that_was_over_while_no_cpu_was_free_is_one_for_a_cpu() {
    let made = many_short_waits(8);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "cpu-starved", "{}", to_text(&verdict));
    assert!((0.75..0.95).contains(&first.share), "{}", to_text(&verdict));
    let made = many_short_waits(0);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "downstream-wait", "{}", to_text(&verdict));
}

#[test]
fn asking_often_gives_the_same_timeline() {
    let made = many_short_waits(8);
    let late = timeline::late_of(&made, OWN);
    assert!(!late.is_empty());
    for (from, to) in [(0, 300), (3, 7), (8, 12), (18, 60), (205, 299)] {
        let (from, to) = (BEGIN + from * MS, BEGIN + to * MS);
        let reported = |s: &Segment<'_>| (s.from_ns, s.to_ns, s.state, s.stack(), s.sampled);
        let once: Vec<_> = timeline::of_thread(&made, OWN, from, to).iter().map(reported).collect();
        let often = timeline::of_thread_with(&made, OWN, &late, (from, to));
        assert_eq!(once, often.iter().map(reported).collect::<Vec<_>>());
    }
}
