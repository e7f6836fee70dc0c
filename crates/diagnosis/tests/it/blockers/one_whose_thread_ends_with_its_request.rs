//! On captures made by hand, without switch records: where each request has a thread of its own
//! that thread is not sampled behind the request. A wait that it ended with lasted until then.

use diagnosis::diagnose;
use format::record::flag;
use format::wait::WaitKind::{Futex, Poll, SocketRead};
use made::{also_seen, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const COURIER: u32 = 9;
const SERVER: u32 = 11;

#[test]
fn a_thread_that_went_on_behind_its_last_sample_had_the_lock() {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off: turned off by settings".to_owned())];
    made.requests.iter_mut().for_each(|r| r.tid = 100 + r.id as u32);
    made.requests.push(made::request(99, OWN, BEGIN, 442));
    let app = ("application", "/srv/server.py", 30);
    let wait = stack(&mut made, &[app, ("stamp", "/srv/app.py", 43)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..441).step_by(10), Futex, wait);
    made.samples.get_mut(&OWN).expect("seen").iter_mut().for_each(|s| s.target = 0x7f00);
    // The holder of the lock, which is back 8 ms behind the waiter's last sample.
    let asks = stack(&mut made, &[("courier", "/srv/app.py", 36), ("consult", "/srv/app.py", 26)]);
    let naps = stack(&mut made, &[("courier", "/srv/app.py", 33)]);
    let samples = [(0, SocketRead, asks), (110, SocketRead, asks), (220, SocketRead, asks)];
    let later = [(330, SocketRead, asks), (438, SocketRead, asks), (453, Futex, naps)];
    seen(&mut made, COURIER, &[samples, later].concat());
    // The server's thread waits for connections until its clients go on.
    let serve = stack(&mut made, &[("reference", "/srv/server.py", 76)]);
    seen(
        &mut made,
        SERVER,
        &[(150, Poll, serve), (260, Poll, serve), (370, Poll, serve), (454, Poll, serve)],
    );
    for tid in [COURIER, SERVER] {
        let rows = made.samples.get_mut(&tid).expect("seen");
        let mut before_ns = BEGIN;
        for row in rows {
            (row.flags, row.wall_ns) = (flag::TIMES, row.t_ns - before_ns);
            before_ns = row.t_ns;
        }
    }
    let ran = |rows: Option<&mut Vec<format::record::Sample>>, ns: u64| {
        rows.and_then(|rows| rows.last_mut()).expect("seen").cpu_ns = ns;
    };
    ran(made.samples.get_mut(&COURIER), MS / 20);
    ran(made.samples.get_mut(&SERVER), MS);
    let verdict = diagnose(&made, |_| 100 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    let culprit = first.culprit.as_ref().map(|c| c.function.as_str());
    assert_eq!(culprit, Some("consult"), "{}", to_text(&verdict));
}
