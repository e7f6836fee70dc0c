//! On captures made by hand: a server's library runs the handler and its own task for the client's
//! messages, and waits for whichever ends first.

use diagnosis::diagnose;
use format::wait::AwaitKind::{Executor, Queue};
use made::{awaited, off, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const TID: u32 = 7;
const SERVER: &str = "/site/quart/asgi.py";
const TASKS: &str = "/usr/lib/python3.11/asyncio/tasks.py";

type Code = (&'static str, &'static str, u32);

/// Where a request is said to wait that awaits two tasks within `outer`, sampled in either order;
/// the second one was seen once more.
fn place(outer: &[Code], inner: [&[Code]; 2], first: usize) -> String {
    let mut made = made::capture(TID, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    made.requests.push(made::request(99, TID, BEGIN, 500));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    off(&mut made, TID, &[(0, 499)]);
    let stacks = inner.map(|own| stack(&mut made, &[outer, own].concat()));
    let row = |ms, which: usize| {
        let kind = if which == 0 { Executor } else { Queue };
        awaited(ms, 99, 4096 + which as u64, kind, stacks[which])
    };
    let rows = made.awaits.entry(99).or_default();
    for ms in (5..495).step_by(30) {
        rows.extend([first, 1 - first].map(|which| row(ms, which)));
    }
    rows.push(row(497, 1));
    let verdict = diagnose(&made, |_| 300 * MS);
    let found = verdict.findings[0].place.as_ref();
    found.map_or_else(|| to_text(&verdict), |place| place.function.clone())
}

const HANDLER: &[Code] = &[("scan", "/srv/app.py", 31)];
const MESSAGES: &[Code] = &[("handle_messages", SERVER, 64)];

#[test]
fn the_task_in_the_programs_code_is_what_a_request_waits_for() {
    let server = [("__call__", SERVER, 52), ("wait", TASKS, 427), ("_wait", TASKS, 534)];
    let middleware = [&[("log", "/srv/middleware.py", 8)], &server[..]].concat();
    for outer in [&server[..], &middleware] {
        for first in [0, 1] {
            assert_eq!(place(outer, [HANDLER, MESSAGES], first), "scan");
        }
    }
}

/// What the program itself waits for, or a library with `gather`, has to end as well.
#[test]
fn a_task_that_is_waited_for_to_its_end_counts() {
    let program = [("view", "/srv/app.py", 9), ("wait", TASKS, 427), ("_wait", TASKS, 534)];
    let gather = [("both", "/site/pair/run.py", 5)];
    for outer in [&program[..], &gather] {
        for first in [0, 1] {
            assert_ne!(place(outer, [HANDLER, MESSAGES], first), "scan");
        }
    }
}

/// It waits for the client's next message, whatever the handler does, which no sample saw.
#[test]
fn the_task_for_a_clients_messages_holds_nothing_up() {
    let server = [("__call__", SERVER, 52), ("wait", TASKS, 427), ("_wait", TASKS, 534)];
    for (outer, is_pool) in [(&server[..], false), (&[("both", "/site/pair/run.py", 5)], true)] {
        let mut made = made::capture(TID, &["GET /"]);
        made.meta.site = vec!["/site".to_owned()];
        made.requests.push(made::request(99, TID, BEGIN, 500));
        made.requests.iter_mut().for_each(|r| r.on_loop = true);
        off(&mut made, TID, &[(0, 499)]);
        let reads = stack(&mut made, &[outer, MESSAGES].concat());
        let rows = (5..495).step_by(30).map(|ms| awaited(ms, 99, 4096, Queue, reads));
        made.awaits.insert(99, rows.collect());
        let verdict = diagnose(&made, |_| 300 * MS);
        let pool = verdict.findings.iter().any(|f| f.cause.text() == "pool-wait");
        assert_eq!(pool, is_pool, "{}", to_text(&verdict));
    }
}
