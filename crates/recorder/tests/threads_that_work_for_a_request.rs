//! Several threads work for one request: which of them do now.
#![allow(clippy::expect_used, missing_docs)]

use std::collections::HashSet;
use std::sync::mpsc::channel;

use recorder::{install, Limit, Recorder, Request};
use ring::Region;

#[test]
fn all_threads_that_work_for_a_request_are_known_until_they_are_done() {
    let region = Region::in_process(8 << 20, 1, "test").expect("memory");
    let recorder = Recorder::new(region, Box::new(|_: &str| Limit { ns: u64::MAX, group: 0 }));
    install(recorder);
    let name = recorder.request_name("fan out");
    let request = Request::begin(name, false, 0);
    let helpers = || {
        let mut found = HashSet::new();
        recorder.open_requests().each(|open| found.extend(open.helpers));
        found.remove(&0);
        found
    };
    let begin = || {
        let ((send, sent), (end, ends)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            recorder::task_begins(name, request.begin_ns, request.begin_ns, request.id);
            send.send(sys::thread::cached_tid()).expect("heard");
            let _ = ends.recv();
            recorder::task(name, request.begin_ns, request.begin_ns, request.id);
        });
        (sent.recv().expect("it begins"), end, thread)
    };
    let mut threads: Vec<_> = (0..3).map(|_| begin()).collect();
    assert_eq!(helpers(), threads.iter().map(|t| t.0).collect());
    // Whichever thread is done first, the others remain known.
    while !threads.is_empty() {
        let (_, end, thread) = threads.remove(threads.len() / 2);
        drop(end);
        thread.join().expect("ends");
        assert_eq!(helpers(), threads.iter().map(|t| t.0).collect());
    }
    // More than there is room for: the last is known, and no thread that is done remains.
    let many: Vec<_> = (0..10).map(|_| begin()).collect();
    assert!(helpers().contains(&many[9].0));
    for (_, end, thread) in many {
        drop(end);
        thread.join().expect("ends");
    }
    assert!(helpers().is_empty());
    request.end(name, false, &[]);
}
