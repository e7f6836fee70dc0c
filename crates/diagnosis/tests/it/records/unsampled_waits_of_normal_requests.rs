//! On captures made by hand: normal requests are sampled less than slow ones, and what no sample
//! saw of them is no cause of the slow ones.

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::WaitKind::{Futex, SocketRead};
use made::{also_off, also_seen, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;

/// Twenty normal requests that wait for a peer for 398 ms, of which one in each `of` has samples;
/// then a slow one that waits as long for it, and for a lock before that.
fn requests(of: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.requests.clear();
    let ask = stack(&mut made, &[("view", "/srv/app.py", 12), ("ask", "/srv/app.py", 30)]);
    let lock = stack(&mut made, &[("view", "/srv/app.py", 11)]);
    seen(&mut made, OWN, &[]);
    for i in 0..20 {
        let at = i * 500;
        made.requests.push(made::request(i + 1, OWN, BEGIN + at * MS, 400));
        also_off(&mut made, OWN, false, &[(at, at + 398), (at + 400, at + 499)]);
        if i % of == 0 {
            also_seen(&mut made, OWN, (at + 5..at + 390).step_by(20), SocketRead, ask);
        }
    }
    made.requests.push(made::request(99, OWN, BEGIN + 10_000 * MS, 900));
    also_off(&mut made, OWN, false, &[(10_000, 10_499), (10_500, 10_898)]);
    also_seen(&mut made, OWN, (10_005..10_490).step_by(20), Futex, lock);
    also_seen(&mut made, OWN, (10_505..10_890).step_by(20), SocketRead, ask);
    made
}

fn downstream(made: &Capture) -> f64 {
    let verdict = diagnose(made, |_| 600 * MS);
    let first = verdict.findings.first().expect("a finding");
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    let part = verdict.findings.iter().filter(|f| f.cause.text() == "downstream-wait");
    part.map(|f| f.share).sum()
}

#[test]
fn a_wait_that_normal_requests_have_too_is_no_cause_though_not_all_of_it_was_seen() {
    assert!(downstream(&requests(1)) < 0.02);
    assert!(downstream(&requests(2)) < 0.02, "{}", downstream(&requests(2)));
}

#[test]
fn what_was_hardly_ever_seen_of_normal_requests_says_little() {
    assert!(downstream(&requests(10)) > 0.2, "{}", downstream(&requests(10)));
}

/// Requests of another name that wait for a lock: five for 500 ms, and `normal` for 280.
fn changes(normal: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.names.push("PUT /".to_owned());
    let put = made.names.len() as u32 - 1;
    let lock = stack(&mut made, &[("change", "/srv/app.py", 44)]);
    seen(&mut made, OWN, &[]);
    for i in 0..5 + normal {
        let (at, ms) = (i * 1000, if i < 5 { 500 } else { 280 });
        let request = made::request(200 + i, OWN, BEGIN + at * MS, ms);
        made.requests.push(capture::read::RequestRow { name: put, ..request });
        also_off(&mut made, OWN, false, &[(at, at + ms - 2)]);
        also_seen(&mut made, OWN, (at + 5..at + ms - 10).step_by(20), Futex, lock);
    }
    made
}

#[test]
fn one_request_just_below_its_limit_does_not_hide_what_the_slow_ones_waited_for() {
    let share = |normal: u64| {
        let made = changes(normal);
        let verdict = diagnose(&made, |_| 300 * MS);
        verdict.findings.first().map_or(0.0, |f| f.share)
    };
    assert!(share(0) > 0.9, "{}", share(0));
    assert!(share(1) > 0.9, "{}", share(1));
    assert!(share(2) > 0.9, "{}", share(2));
}
