//! On captures made by hand: the holder of what a pool hands out in turn is named by the places of
//! threads that got an item; waits at several places for one culprit are one finding; a thread that
//! computed until a wait ended is named for it; and a waiter behind a deadlock is reported as such.

use capture::read::Capture;
use diagnosis::{diagnose, Finding};
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, Running, Sleep};
use made::{also_off, also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const POOL: [(&str, &str, u32); 3] = [
    ("QueuePool._do_get", "/lib/site-packages/sqlalchemy/pool/impl.py", 166),
    ("Queue.get", "/lib/site-packages/sqlalchemy/util/queue.py", 171),
    ("Condition.wait", "/lib/threading.py", 327),
];
const SERVE: (&str, &str, u32) = ("handler_thread", "/lib/site-packages/waitress/task.py", 84);
const IDLE: [(&str, &str, u32); 2] = [
    ("handler_thread", "/lib/site-packages/waitress/task.py", 71),
    ("Condition.wait", "/lib/threading.py", 327),
];

fn made() -> Capture {
    let mut made = made::capture(1, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    made
}

fn first(made: &Capture) -> (Finding, String) {
    let verdict = diagnose(made, |_| 150 * MS);
    let text = to_text(&verdict);
    (verdict.findings.into_iter().next().expect("a finding"), text)
}

/// A pool of one connection. Four threads take it in turn for 100 ms each, in which they are behind
/// the line of the call that took it; `line`: where. Another function of the program's waits for it
/// all the while.
fn in_turn(line: u32) -> Capture {
    let mut made = made();
    let asks = [&[SERVE, ("statement", "/srv/paper.py", 37)][..], &POOL].concat();
    let (asks, idle) = (stack(&mut made, &asks), stack(&mut made, &IDLE));
    let has = [SERVE, ("statement", "/srv/paper.py", line), ("deliver", "/srv/paper.py", 25)];
    let has = stack(&mut made, &has);
    for place in 0..4 {
        let tid = 10 + place as u32;
        let (got, gave) = (place * 100, place * 100 + 100);
        made.requests.push(made::request(100 + place, tid, BEGIN, gave));
        seen(&mut made, tid, &[]);
        off(&mut made, tid, &[]);
        if got > 0 {
            also_off(&mut made, tid, false, &[(1, got)]);
            also_seen(&mut made, tid, (2..got).step_by(40), Futex, asks);
        }
        also_off(&mut made, tid, false, &[(got + 1, gave - 1), (gave + 1, 900)]);
        also_seen(&mut made, tid, (got + 2..gave).step_by(40), Sleep, has);
        also_seen(&mut made, tid, (gave + 2..900).step_by(100), Futex, idle);
    }
    let balance = [&[SERVE, ("balance", "/srv/accounts.py", 8)][..], &POOL].concat();
    let balance = stack(&mut made, &balance);
    made.requests.push(made::request(200, 20, BEGIN + 2 * MS, 399));
    seen(&mut made, 20, &[]);
    off(&mut made, 20, &[(3, 400)]);
    also_seen(&mut made, 20, (4..400).step_by(40), Futex, balance);
    for look in made.samples.values_mut().flatten().filter(|s| s.wait == Futex) {
        look.target = if look.stack == idle { 0x900 } else { 0x10 + u64::from(look.tid) };
    }
    made
}

#[test]
fn a_thread_past_the_line_that_takes_from_a_pool_has_what_others_wait_for() {
    let (finding, text) = first(&in_turn(41));
    assert_eq!(finding.cause.text(), "pool-wait", "{text}");
    let culprit = finding.culprit.unwrap_or_else(|| panic!("{text}"));
    assert_eq!((culprit.function.as_str(), finding.confidence.text()), ("deliver", "likely"));
    // Both places are one matter.
    assert_eq!(finding.place.expect("a place").function, "statement", "{text}");
    assert!(text.contains("Part of this, elsewhere: ") && text.contains("accounts.py:8 balance()"));
}

#[test]
fn a_thread_that_has_not_come_to_that_line_has_nothing_yet() {
    let made = in_turn(30);
    let verdict = diagnose(&made, |_| 150 * MS);
    let at = |f: &&Finding| f.place.as_ref().is_some_and(|p| p.function == "balance");
    let balance = verdict.findings.iter().find(at).expect("a finding of its own");
    assert!(balance.culprit.is_none(), "{}", to_text(&verdict));
}

/// Three waits for a Condition of the program's, 2 s apart. A thread in another file computes for
/// all of each and, if it `ends` with them, rests behind.
fn computes(ends: bool) -> Capture {
    let mut made = made();
    let wait = ("Condition.wait", "/lib/threading.py", 327);
    let read = [SERVE, ("acquire_read", "/srv/rwlock.py", 16), wait];
    let read = stack(&mut made, &read);
    let pack = [("run", "/srv/tariffs.py", 9), ("pack", "/srv/tariffs.py", 55)];
    let (pack, rest) = (stack(&mut made, &pack), stack(&mut made, &pack[..1]));
    for tid in [10, 30] {
        seen(&mut made, tid, &[]);
        off(&mut made, tid, &[]);
    }
    for time in 0..3 {
        let at = time * 2000;
        made.requests.push(made::request(100 + time, 10, BEGIN + at * MS, 402));
        also_off(&mut made, 10, false, &[(at + 1, at + 400)]);
        also_seen(&mut made, 10, (at + 2..at + 400).step_by(40), Futex, read);
        let until = if ends { at + 399 } else { at + 900 };
        also_seen(&mut made, 30, (at..until).step_by(10), Running, pack);
        also_off(&mut made, 30, false, &[(until, at + 1999)]);
        also_seen(&mut made, 30, (until + 1..at + 1999).step_by(100), Sleep, rest);
    }
    for look in made.samples.values_mut().flatten().filter(|s| s.wait == Futex) {
        look.target = 0x10;
    }
    made
}

#[test]
fn a_thread_that_computed_until_each_of_several_waits_ended_gave_the_notice() {
    let (finding, text) = first(&computes(true));
    assert_eq!(finding.cause.text(), "lock-wait", "{text}");
    assert_eq!(finding.culprit.expect("a culprit").function, "pack", "{text}");
    assert_eq!(finding.confidence.text(), "likely", "{text}");
    let (finding, text) = first(&computes(false));
    assert!(finding.culprit.is_none(), "{text}");
}

#[test]
fn a_waiter_behind_two_that_block_each_other_is_behind_a_deadlock() {
    let mut made = made();
    let stacks = ["behind", "reserve", "deliver"]
        .map(|name| stack(&mut made, &[SERVE, (name, "/srv/book.py", 20)]));
    // Each waits for what the next one has; the last for what the second has.
    for (place, holder) in [11, 12, 11].into_iter().enumerate() {
        let tid = 10 + place as u32;
        made.requests.push(made::request(100 + place as u64, tid, BEGIN, 402));
        seen(&mut made, tid, &[]);
        off(&mut made, tid, &[(1, 400)]);
        also_seen(&mut made, tid, (2..400).step_by(40), Futex, stacks[place]);
        for look in made.samples.get_mut(&tid).into_iter().flatten() {
            (look.target, look.timeout_ns) = (u64::from(holder), 400 * MS);
            (look.holder_source, look.lock_holder) = (HolderSource::WithBlock, holder);
        }
    }
    let verdict = diagnose(&made, |_| 150 * MS);
    let text = to_text(&verdict);
    let all = verdict.findings.iter().filter(|f| f.cause.text() == "deadlock-timeout");
    assert!(all.map(|f| f.share).sum::<f64>() > 0.95, "{text}");
    assert!(text.contains("each had what the next one waited for"), "{text}");
}

/// Requests that wait for one lock in two functions, whose holder was read but of the last one.
#[test]
fn a_wait_whose_holder_was_not_seen_joins_those_at_its_place_that_wait_for_another_places_holder() {
    let mut made = made();
    let at = |made: &mut Capture, name| stack(made, &[SERVE, (name, "/srv/book.py", 20)]);
    let (statement, balance) = (at(&mut made, "statement"), at(&mut made, "balance"));
    let deliver = at(&mut made, "deliver");
    let waits = [(10, statement, 30), (11, statement, 30), (12, balance, 30), (13, balance, 0)];
    for (tid, code, holder) in waits {
        let ms = if code == statement { 402 } else { 302 };
        made.requests.push(made::request(u64::from(tid), tid, BEGIN, ms));
        seen(&mut made, tid, &[]);
        off(&mut made, tid, &[(1, ms - 2)]);
        also_seen(&mut made, tid, (2..ms - 2).step_by(40), Futex, code);
        for look in made.samples.get_mut(&tid).into_iter().flatten().filter(|_| holder > 0) {
            (look.holder_source, look.lock_holder) = (HolderSource::WithBlock, holder);
        }
    }
    off(&mut made, 30, &[(0, 800)]);
    also_seen(&mut made, 30, (2..800).step_by(40), Sleep, deliver);
    let (finding, text) = first(&made);
    assert_eq!(finding.culprit.expect("a culprit").function, "deliver", "{text}");
    assert!(finding.share > 0.95, "{text}");
    assert!(text.contains("at book.py:20 balance()"), "{text}");
}
