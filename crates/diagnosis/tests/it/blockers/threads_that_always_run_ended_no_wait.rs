//! On captures made by hand: a thread that comes and goes all the time ended no wait just because
//! it ran before its end, and a wait that goes on was ended by nobody. What a request's thread did
//! before and behind it says nothing of the request.

use capture::read::{Capture, OffCpu};
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind::{FileSync, Futex, Running, Sleep, SocketRead};
use made::{also_off, also_seen, off, seen, stack, BEGIN, MS};
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

/// A request waits for an item of a queue until 499 ms; a thread that waits for a peer comes back
/// then, and another one comes and goes all the while in the same file.
fn beside_one_that_ticks(ends_ms: u64) -> Capture {
    let mut made = slow(500);
    let wait = stack(&mut made, &[("borrow", "/srv/app.py", 21), ("get", "/lib/queue.py", 171)]);
    let query = stack(&mut made, &[("report", "/srv/app.py", 30), ("query", "/srv/app.py", 17)]);
    let tick = stack(&mut made, &[("tick", "/srv/app.py", 29)]);
    off(&mut made, OWN, &[(0, ends_ms)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..495).step_by(10), Futex, wait);
    off(&mut made, OTHER, &[(0, 497), (498, 9000)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (5..495).step_by(10), SocketRead, query);
    seen(&mut made, THIRD, &[]);
    let ticks: Vec<(u64, u64)> = (0..500).step_by(2).map(|t| (t, t + 1)).collect();
    also_off(&mut made, THIRD, false, &ticks);
    also_seen(&mut made, THIRD, (5..495).step_by(10), Sleep, tick);
    made
}

#[test]
fn a_thread_that_runs_all_the_time_ended_no_wait() {
    let made = beside_one_that_ticks(499);
    let found = judge(&made).findings[0].culprit.clone();
    assert_eq!(found.expect("a culprit").function, "query");
}

#[test]
fn a_wait_that_goes_on_when_the_capture_ends_was_ended_by_nobody() {
    let mut made = beside_one_that_ticks(600);
    made.meta.to_ns = BEGIN + 500 * MS;
    made.requests.last_mut().expect("the slow one").end_ns = None;
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "pool-wait", "{}", to_text(&verdict));
    assert!(verdict.findings[0].culprit.is_none(), "{}", to_text(&verdict));
}

#[test]
fn unseen_waits_of_a_request_are_not_what_its_thread_does_between_requests() {
    let mut made = slow(150);
    let save = stack(&mut made, &[("save", "/srv/app.py", 12)]);
    let pause = stack(&mut made, &[("client", "/srv/drv.py", 18)]);
    let waits: Vec<(u64, u64)> = (0..30).map(|i| (i * 5, i * 5 + 4)).collect();
    off(&mut made, OWN, &waits);
    also_off(&mut made, OWN, false, &[(150, 170)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (3..120).step_by(10), FileSync, save);
    also_seen(&mut made, OWN, [152].into_iter(), Sleep, pause);
    let verdict = judge(&made);
    assert!(verdict.findings.iter().all(|f| f.cause.text() != "sleep"), "{}", to_text(&verdict));
}

#[test]
fn what_the_setter_of_an_event_did_is_its_doing_and_the_request_waited_for_that() {
    let mut made = slow(500);
    let (wait, lib) = ("wait", "/lib/threading.py");
    let waits = [("view", "/srv/app.py", 25), ("price", "/srv/app.py", 19)];
    let waits = [&waits[..], &[(wait, lib, 629), (wait, lib, 327)]].concat();
    let waits = stack(&mut made, &waits);
    let fetch = stack(&mut made, &[("loader", "/srv/app.py", 10), ("fetch", "/srv/app.py", 7)]);
    off(&mut made, OWN, &[(0, 499)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..495).step_by(10), Futex, waits);
    off(&mut made, OTHER, &[(0, 498), (499, 9000)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (5..495).step_by(10), Sleep, fetch);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "sleep", "{}", to_text(&verdict));
    let places = [&first.place, &first.culprit].map(|p| p.as_ref().map(|p| p.short()));
    assert_eq!(places, ["app.py:7 fetch()"; 2].map(|p| Some(p.to_owned())));
    assert!(first.summary.ends_with("; app.py:19 price() waited for that"), "{}", first.summary);
    assert_eq!(first.path, ["view"], "{}", to_text(&verdict));
}

/// Four threads of one file that run for a moment and wait for one lock or another, again and
/// again: a convoy, drawn from `seed`.
fn convoy(seed: u64) -> Capture {
    let mut made = slow(500);
    let mut random = seed;
    let mut draw = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let codes: Vec<u32> = [("take", 10), ("keep", 20), ("give", 30)]
        .map(|(name, line)| {
            stack(&mut made, &[("serve", "/srv/app.py", 5), (name, "/srv/app.py", line)])
        })
        .into();
    for tid in [OWN, OTHER, THIRD, 13] {
        let (mut rows, mut samples, mut at) = (Vec::new(), Vec::new(), BEGIN);
        while at < BEGIN + 500 * MS {
            let (out_ns, in_ns) = (at + 20_000 + draw(MS), at + MS + draw(8) * MS);
            rows.push(OffCpu {
                out_ns,
                in_ns: in_ns.max(out_ns + 1000),
                preempted: false,
                cpu: None,
            });
            let code = codes[draw(3) as usize];
            let mut look = made::sample(tid, out_ns + 500, Futex, code);
            look.target = 16 + draw(2) * 16;
            samples.push(look);
            at = in_ns.max(out_ns + 1000);
        }
        made.off_cpu.insert(tid, rows);
        made.samples.insert(tid, samples);
    }
    made
}

#[test]
fn the_blockers_in_a_convoy_lead_in_no_circle() {
    for seed in 40..60 {
        let made = convoy(seed);
        let verdict = judge(&made);
        assert!(verdict.findings.iter().any(|f| f.cause.text() == "lock-wait"), "{seed}");
    }
}

/// A request's thread and another pass a lock on to one another each 400 us, 300 us of which the
/// other has it.
#[test]
fn many_short_waits_for_a_lock_are_reported_as_one_with_the_holder() {
    let mut made = slow(400);
    let take = stack(&mut made, &[("serve", "/srv/app.py", 5), ("take", "/srv/app.py", 10)]);
    let rebuild = stack(&mut made, &[("turn", "/srv/app.py", 40), ("rebuild", "/srv/app.py", 30)]);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for from in (0..1000).map(|turn| BEGIN + turn * 400_000) {
        let row = |out_ns, in_ns| OffCpu { out_ns, in_ns, preempted: false, cpu: None };
        own.push(row(from, from + 300_000));
        other.push(row(from + 300_000, from + 400_000));
    }
    made.off_cpu.insert(OWN, own);
    made.off_cpu.insert(OTHER, other);
    // Each sample of the one falls into a wait, each of the other into a run.
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (2..400).step_by(10), Futex, take);
    made.samples.get_mut(&OWN).into_iter().flatten().for_each(|look| look.target = 0x10);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (2..400).step_by(10), Running, rebuild);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.culprit.clone().expect("a culprit").function, "rebuild");
    assert!(first.share > 0.7, "{}", to_text(&verdict));
}
