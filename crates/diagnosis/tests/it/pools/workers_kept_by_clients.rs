//! On captures made by hand: a client that sends nothing keeps the worker that everybody waits for,
//! and the program's code that only started a server is no place of what the server does.

use capture::read::{Capture, RequestRow};
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind;
use made::{off, seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

const MAIN: (&str, &str, u32) = ("main", "/srv/app.py", 40);
const VIEW: (&str, &str, u32) = ("view", "/srv/app.py", 12);
const HANDLE: (&str, &str, u32) = ("SyncWorker.handle", "/site/gunicorn/workers/sync.py", 134);
const CHUNK: (&str, &str, u32) = ("SocketUnreader.chunk", "/site/gunicorn/http/unreader.py", 63);

/// Thread 7 takes a request up that lay 400 ms in its socket, and was in this wait meanwhile.
fn lay(switches: bool, frames: &[(&str, &str, u32)], samples: &[u64]) -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    let started_ns = BEGIN + 400 * MS;
    made.requests.push(RequestRow { started_ns, ..made::request(99, 7, BEGIN, 402) });
    let stack = stack_on(&mut made, 0, frames);
    match switches {
        true => off(&mut made, 7, &[(0, 399)]),
        false => made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())],
    }
    let samples: Vec<_> = samples.iter().map(|at| (*at, WaitKind::SocketRead, stack)).collect();
    seen(&mut made, 7, &samples);
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn a_client_that_sends_nothing_kept_the_worker_however_the_server_was_started() {
    for switches in [true, false] {
        for frames in [&[HANDLE, CHUNK][..], &[MAIN, HANDLE, CHUNK]] {
            let made = lay(switches, frames, &[5, 100, 200, 300, 390]);
            let verdict = judge(&made);
            let first = &verdict.findings[0];
            assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
            let place = first.place.as_ref().map(|p| p.function.as_str());
            let culprit = first.culprit.as_ref().map(|p| p.function.as_str());
            assert_eq!((place, culprit), (Some("chunk"), Some("chunk")));
            let words = "for a worker that was kept in unreader.py:63 chunk() by a client that \
                         sends nothing";
            assert!(first.summary.ends_with(words), "{}", first.summary);
            assert!(first.advice.contains("proxy"), "{}", first.advice);
        }
    }
}

#[test]
fn by_estimates_a_wait_counts_only_as_long_as_samples_found_it() {
    let made = lay(false, &[HANDLE, CHUNK], &[5]);
    assert_eq!(judge(&made).findings[0].cause.text(), "unknown", "{}", to_text(&judge(&made)));
}

#[test]
fn what_the_programs_own_code_reads_is_its_peers() {
    let made = lay(true, &[HANDLE, VIEW, ("ask", "/site/client/api.py", 7)], &[5, 200, 390]);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "downstream-wait", "{}", to_text(&verdict));
    assert_eq!(verdict.findings[0].place.as_ref().expect("a place").function, "view");
}

#[test]
fn what_started_an_event_loop_is_not_to_blame_for_what_a_server_does_on_it() {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    made.requests.push(RequestRow { on_loop: true, ..made::request(99, 7, BEGIN, 500) });
    let lib = "/usr/lib/python3.11/asyncio";
    let (run, once) = (format!("{lib}/runners.py"), format!("{lib}/base_events.py"));
    let frames = [
        MAIN,
        ("run", &run, 190),
        ("_run_once", &once, 1900),
        ("start", "/site/someserver/protocol.py", 88),
    ];
    let stack = stack_on(&mut made, 0, &frames);
    off(&mut made, 7, &[(498, 600)]);
    let samples: Vec<_> = (0..49).map(|i| (i * 10, WaitKind::Running, stack)).collect();
    seen(&mut made, 7, &samples);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "event-loop-blocked", "{}", to_text(&verdict));
    assert_eq!(first.place.as_ref().expect("a place").function, "start");
    assert!(!first.summary.contains("main()"), "{}", first.summary);
}
