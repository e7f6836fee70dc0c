//! On captures made by hand, without switch records: a thread that left one function whenever a
//! wait ended is named, though it shares no code with the waiter; and a thread that waits for an
//! answer with a time limit is at work.

use capture::read::{Capture, StatementKind, StatementRow};
use diagnosis::diagnose;
use format::wait::WaitKind::{Futex, Poll, Running, Sleep};
use made::{also_off, also_seen, seen, stack, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

const WAITER: u32 = 7;
const HOLDERS: [u32; 2] = [9, 11];
const TIMES: u64 = 4;
const APART_MS: u64 = 2500;

/// A wait of 390 ms for a connection, four times, while another request publishes statements in a
/// file that the waiter's code does not know. `ends_ms`: when that ends behind the begin of each
/// wait.
fn waits(ends_ms: [u64; TIMES as usize]) -> Capture {
    let mut made = made::capture(WAITER, &["GET /orders", "POST /statements"]);
    made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    let serve = ("handle", "/lib/site-packages/gunicorn/gthread.py", 180);
    let get = [
        ("QueuePool._do_get", "/lib/site-packages/sqlalchemy/pool/impl.py", 166),
        ("Queue.get", "/lib/queue.py", 171),
        ("Condition.wait", "/lib/threading.py", 327),
    ];
    let orders =
        stack(&mut made, &[&[serve, ("list_orders", "/srv/orders.py", 6)], &get[..]].concat());
    let post = ("send", "/lib/site-packages/requests/adapters.py", 486);
    let read = ("SocketIO.readinto", "/lib/socket.py", 706);
    let publish = stack(&mut made, &[serve, ("publish", "/srv/statements.py", 14), post, read]);
    let idle = stack(&mut made, &[("select", "/lib/selectors.py", 415)]);
    seen(&mut made, WAITER, &[]);
    for tid in HOLDERS {
        seen(&mut made, tid, &[]);
    }
    for (time, end) in (0..TIMES).zip(ends_ms) {
        let at = time * APART_MS;
        made.requests.push(made::request(100 + time, WAITER, BEGIN + at * MS, 395));
        also_seen(&mut made, WAITER, (at + 3..at + 392).step_by(12), Futex, orders);
        let holder = HOLDERS[time as usize % HOLDERS.len()];
        let begin_ns = BEGIN + at * MS - 20 * MS;
        let publishes = made::request(200 + time, holder, begin_ns, end + 20);
        made.requests.push(capture::read::RequestRow { name: 1, ..publishes });
        also_seen(&mut made, holder, (at + 1..at + end).step_by(12), Poll, publish);
        also_seen(&mut made, holder, (at + end + 10..at + 900).step_by(100), Poll, idle);
    }
    made
}

/// The holder of what the requests waited for, and how sure that is.
fn reported(made: &Capture) -> (Option<String>, &'static str, String) {
    let verdict = diagnose(made, |name| if name == "GET /orders" { 100 * MS } else { 2000 * MS });
    let text = to_text(&verdict);
    let finding = &verdict.findings[0];
    assert_eq!(finding.cause.text(), "pool-wait", "{text}");
    (finding.culprit.clone().map(|p| p.function), finding.confidence.text(), text)
}

#[test]
fn a_thread_that_left_a_function_at_every_end_had_what_was_waited_for() {
    let (culprit, confidence, text) = reported(&waits([393, 391, 390, 392]));
    assert_eq!((culprit.as_deref(), confidence), (Some("publish"), "likely"), "{text}");
    assert!(text.contains("most likely statements.py:14 publish()"), "{text}");
}

#[test]
fn one_end_at_which_nobody_was_seen_to_leave_says_nothing_against_it() {
    let (culprit, _, text) = reported(&waits([393, 120, 390, 392]));
    assert_eq!(culprit.as_deref(), Some("publish"), "{text}");
}

#[test]
fn a_thread_that_left_at_other_times_did_not_have_it() {
    let (culprit, _, text) = reported(&waits([393, 120, 210, 392]));
    assert_eq!(culprit, None, "{text}");
}

#[test]
fn a_thread_that_waited_for_a_lock_until_then_was_released_by_others() {
    let mut made = waits([393, 391, 390, 392]);
    for look in HOLDERS.iter().flat_map(|tid| made.samples[tid].clone()).collect::<Vec<_>>() {
        let own = made.samples.get_mut(&look.tid).expect("seen");
        let place = own.iter_mut().find(|s| s.t_ns == look.t_ns).expect("there");
        (place.wait, place.target) = (Futex, 0x77);
    }
    let (culprit, _, text) = reported(&made);
    assert_eq!(culprit, None, "{text}");
}

#[test]
fn of_two_that_left_each_time_none_is_named() {
    let mut made = waits([393, 391, 390, 392]);
    let twin = stack(
        &mut made,
        &[
            ("handle", "/lib/site-packages/gunicorn/gthread.py", 180),
            ("archive", "/srv/archive.py", 30),
            ("SocketIO.readinto", "/lib/socket.py", 706),
        ],
    );
    for (holder, other) in HOLDERS.into_iter().zip([13, 15]) {
        let samples = made.samples[&holder].clone();
        let as_twin = |mut look: format::record::Sample| {
            look.tid = other;
            if made.frames(look.stack).any(|f| f.function == "publish") {
                look.stack = twin;
            }
            look
        };
        let samples = samples.into_iter().map(as_twin).collect();
        made.samples.insert(other, samples);
        let theirs = made.requests.iter().filter(|r| r.tid == holder).cloned();
        let own = theirs.map(|r| capture::read::RequestRow { id: r.id + 100, tid: other, ..r });
        let own: Vec<_> = own.collect();
        made.requests.extend(own);
    }
    let (culprit, _, text) = reported(&made);
    assert_eq!(culprit, None, "{text}");
}

/// Four times a request asks SQLite for its lock every 40 ms, for 280 ms; another thread counts in
/// a transaction meanwhile, until `left_ms` behind the begin of each, with switch records of the
/// waiter or without.
fn asks(left_ms: [u64; TIMES as usize], exact: bool) -> Option<String> {
    let mut made = made::capture(WAITER, &["PUT /notes"]);
    if !exact {
        made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
    }
    made.meta.stdlib = vec!["/lib".to_owned()];
    let put = stack(&mut made, &[("put", "/srv/notes.py", 24)]);
    let frames = [("step", "/lib/libsqlite3.so.0", 0), ("usleep", "/lib/libc.so.6", 0)];
    let polls = stack_on(&mut made, put, &frames);
    let native = made.codes.len() - 2;
    made.codes[native..].iter_mut().for_each(|code| code.native = true);
    let work = ("_loop", "/srv/reindex.py", 18);
    let counts = stack(&mut made, &[work, ("count_words", "/srv/reindex.py", 12)]);
    let rests = stack(&mut made, &[work]);
    seen(&mut made, WAITER, &[]);
    seen(&mut made, HOLDERS[0], &[]);
    for (time, left) in (0..TIMES).zip(left_ms) {
        let at = time * APART_MS;
        made.requests.push(made::request(100 + time, WAITER, BEGIN + at * MS, 285));
        let pauses: Vec<(u64, u64)> = (0..7).map(|i| (at + i * 40 + 1, at + i * 40 + 40)).collect();
        if exact {
            also_off(&mut made, WAITER, false, &pauses);
        }
        also_seen(&mut made, WAITER, (at + 5..at + 280).step_by(12), Sleep, polls);
        also_seen(&mut made, HOLDERS[0], (at + 2..at + left).step_by(12), Sleep, counts);
        also_seen(&mut made, HOLDERS[0], (at + left + 2..at + 900).step_by(50), Sleep, rests);
    }
    let verdict = diagnose(&made, |_| 100 * MS);
    let (first, text) = (&verdict.findings[0], to_text(&verdict));
    assert_eq!(first.cause.text(), "lock-wait", "{text}");
    assert_ne!(first.confidence.text(), "confirmed", "{text}");
    first.culprit.clone().map(|p| p.function)
}

#[test]
fn a_thread_whose_work_ended_just_before_sqlite_was_asked_again_had_its_lock() {
    for exact in [true, false] {
        let counted = Some("count_words".to_owned());
        assert_eq!(asks([262, 270, 258, 266], exact), counted, "{exact}");
        assert_eq!(asks([100, 270, 130, 60], exact), None, "{exact}");
    }
}

/// A request asks SQLite for its lock for 280 ms; two other threads sleep at one line each all the
/// time, with transactions from and until these times.
fn asks_once(transactions: &[(u32, u64, u64)]) -> Option<String> {
    let mut made = made::capture(WAITER, &["PUT /notes"]);
    made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
    made.requests.push(made::request(100, WAITER, BEGIN + 500 * MS, 285));
    let put = stack(&mut made, &[("put", "/srv/notes.py", 24)]);
    let frames = [("step", "/lib/libsqlite3.so.0", 0), ("usleep", "/lib/libc.so.6", 0)];
    let polls = stack_on(&mut made, put, &frames);
    let native = made.codes.len() - 2;
    made.codes[native..].iter_mut().for_each(|code| code.native = true);
    seen(&mut made, WAITER, &[]);
    also_seen(&mut made, WAITER, (505..780).step_by(12), Sleep, polls);
    for (holder, function) in HOLDERS.into_iter().zip(["nightly", "report"]) {
        let sleeps = stack(&mut made, &[(function, "/srv/jobs.py", 12)]);
        seen(&mut made, holder, &[]);
        also_seen(&mut made, holder, (2..1_000).step_by(50), Sleep, sleeps);
    }
    for (tid, from, to) in transactions {
        let row = |at_ms: u64, kind| {
            let begin_ns = BEGIN + at_ms * MS;
            StatementRow { tid: *tid, begin_ns, end_ns: begin_ns, kind }
        };
        made.statements.push(row(*from, StatementKind::Changes));
        made.statements.push(row(*to, StatementKind::Ends));
    }
    made.statements.sort_by_key(|s| s.begin_ns);
    let verdict = diagnose(&made, |_| 100 * MS);
    let (first, text) = (&verdict.findings[0], to_text(&verdict));
    assert_eq!(first.cause.text(), "lock-wait", "{text}");
    let says_why = text.contains("inferred: its transaction was open meanwhile, and ended when");
    assert_eq!(says_why, first.culprit.is_some(), "{text}");
    first.culprit.clone().map(|p| p.function)
}

#[test]
fn a_thread_whose_transaction_ended_with_the_wait_had_the_database() {
    let [one, other] = HOLDERS;
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(asks_once(&[(one, 300, 776)]), name("nightly"));
    assert_eq!(asks_once(&[(one, 300, 550), (other, 560, 776)]), name("report"));
    // Ended long before the wait did, or after it; began near its end.
    assert_eq!(asks_once(&[(one, 300, 650)]), None);
    assert_eq!(asks_once(&[(one, 300, 900)]), None);
    assert_eq!(asks_once(&[(one, 740, 776)]), None);
    // Of two one may have had another database.
    assert_eq!(asks_once(&[(one, 300, 776), (other, 400, 774)]), None);
}

/// The same waits; one thread without a request packs and saves in turn meanwhile, 60 ms each, and
/// rests behind `ends_ms`.
fn in_batches(ends_ms: [u64; TIMES as usize]) -> Capture {
    let mut made = waits([1; TIMES as usize]);
    let holder = 40;
    let pack = [("round", "/srv/journal.py", 51), ("pack", "/srv/journal.py", 23)];
    let save = [("round", "/srv/journal.py", 52), ("save", "/srv/journal.py", 30)];
    let (pack, save) = (stack(&mut made, &pack), stack(&mut made, &save));
    let rest = stack(&mut made, &[("run", "/srv/journal.py", 31)]);
    seen(&mut made, holder, &[]);
    for (time, end) in (0..TIMES).zip(ends_ms) {
        let at = time * APART_MS;
        for begin in (0..end).step_by(60) {
            let code = if begin / 60 % 2 == 0 { pack } else { save };
            also_seen(
                &mut made,
                holder,
                (at + begin..at + end.min(begin + 60)).step_by(12),
                Running,
                code,
            );
        }
        also_seen(&mut made, holder, (at + end + 5..at + 2400).step_by(100), Sleep, rest);
    }
    made
}

#[test]
fn a_holder_that_calls_several_functions_is_named_by_their_caller() {
    let (culprit, confidence, text) = reported(&in_batches([393, 391, 390, 392]));
    assert!(culprit.is_some() && confidence == "likely", "{text}");
    assert!(text.contains("journal.py:") && text.contains("round()"), "{text}");
    let (culprit, _, text) = reported(&in_batches([393, 120, 210, 392]));
    assert_eq!(culprit, None, "{text}");
}

/// A wait of 400 ms for room in a full queue, of code in a file that another thread works in; in
/// two other functions of it where there are `two`.
fn full(two: bool) -> Capture {
    let mut made = made::capture(WAITER, &["pack parcel"]);
    made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
    made.meta.stdlib = vec!["/lib".to_owned()];
    let put = [("hand_over", "/srv/courier.py", 37), ("Queue.put", "/lib/queue.py", 140)];
    let put = [&put[..], &[("Condition.wait", "/lib/threading.py", 327)]].concat();
    let put = stack(&mut made, &put);
    made.requests.push(made::request(100, WAITER, BEGIN, 402));
    seen(&mut made, WAITER, &[]);
    also_seen(&mut made, WAITER, (2..400).step_by(12), Futex, put);
    for (tid, function) in [(20, "ask"), (21, "count")].into_iter().take(1 + usize::from(two)) {
        let reads =
            stack(&mut made, &[("run", "/srv/courier.py", 12), (function, "/srv/courier.py", 21)]);
        seen(&mut made, tid, &[]);
        also_seen(&mut made, tid, (0..800).step_by(20), Poll, reads);
    }
    made
}

#[test]
fn a_thread_in_the_file_of_the_code_that_waits_for_room_is_to_make_some() {
    for (two, wanted) in [(false, Some("ask")), (true, None)] {
        let made = full(two);
        let verdict = diagnose(&made, |_| 100 * MS);
        let (finding, text) = (&verdict.findings[0], to_text(&verdict));
        assert_eq!(finding.cause.text(), "pool-wait", "{text}");
        let culprit = finding.culprit.as_ref().map(|p| p.function.as_str());
        assert_eq!(culprit, wanted, "{text}");
    }
}
