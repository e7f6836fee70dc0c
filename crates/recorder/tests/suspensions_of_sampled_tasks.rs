//! Between two contexts of a request its event loop's thread runs no code of it: recorded exactly
//! where a sample of the request's task lies between them.
#![allow(clippy::expect_used, missing_docs)]

use format::block::HEADER_WORDS;
use format::record::{decode, Record};
use format::suspension::Suspension;
use recorder::{context_switched, install, Limit, Recorder, Request};
use ring::{BlockCopy, Region};

fn suspensions(region: &Region) -> Vec<Suspension> {
    let (mut found, mut buffer) = (Vec::new(), BlockCopy::default());
    let copied = region.copy_blocks(0, &mut buffer, |block| {
        let (words, mut at) = (block.words(), HEADER_WORDS);
        while at < words.len() {
            let (len, record) = decode(&words[at..]).expect("whole records");
            at += len;
            if let Record::Suspension(one) = record {
                found.push(one);
            }
        }
        Ok::<(), ()>(())
    });
    copied.expect("copied");
    found
}

#[test]
fn a_suspension_is_recorded_where_the_task_was_sampled_in_it() {
    let region = Region::in_process(8 << 20, 1, "test").expect("memory");
    let recorder = Recorder::new(region, Box::new(|_: &str| Limit { ns: u64::MAX, group: 0 }));
    install(recorder);
    let (name, open) = (recorder.request_name("GET /"), recorder.open_requests());
    let (one, other) = (Request::begin(name, true, 0), Request::begin(name, true, 0));
    let on_a_thread = Request::begin(name, false, 0);
    let sampled = |request: Request| open.task_sampled(request.id, sys::clock::now_ns());
    let count = || suspensions(recorder.region()).len();

    // Not sampled; then sampled before it was left only.
    context_switched(one.id, 0);
    context_switched(0, one.id);
    sampled(one);
    context_switched(one.id, 0);
    context_switched(0, one.id);
    assert_eq!(count(), 0);

    // Sampled in between, while another request runs.
    let before_ns = sys::clock::now_ns();
    context_switched(one.id, other.id);
    sampled(one);
    sampled(on_a_thread);
    let (left_ns, entered_ns) = (sys::clock::now_ns(), sys::clock::now_ns());
    context_switched(other.id, one.id);
    let after_ns = sys::clock::now_ns();
    let found = suspensions(recorder.region());
    let [Suspension { out_ns, in_ns, request }] = found[..] else { panic!("{found:?}") };
    assert_eq!(request, one.id);
    assert!(before_ns <= out_ns && out_ns <= left_ns, "{before_ns} {out_ns} {left_ns}");
    assert!(entered_ns <= in_ns && in_ns <= after_ns, "{entered_ns} {in_ns} {after_ns}");

    // Code of the request on another thread (an executor's) neither ends nor begins one, nor does
    // a request without a loop, nor one that has ended.
    context_switched(one.id, 0);
    sampled(one);
    let (id, plain) = (one.id, on_a_thread.id);
    std::thread::spawn(move || {
        context_switched(0, id);
        context_switched(id, plain);
    })
    .join()
    .expect("ends");
    context_switched(plain, 0);
    sampled(on_a_thread);
    context_switched(0, plain);
    assert_eq!(count(), 1);
    context_switched(plain, one.id);
    assert_eq!(count(), 2);
    context_switched(one.id, 0);
    sampled(one);
    one.end(name, false, &[]);
    context_switched(0, one.id);
    assert_eq!(count(), 2);

    // A time in which a switch was not reported is none, a later one is.
    context_switched(other.id, 0);
    sampled(other);
    recorder::pause();
    context_switched(0, other.id);
    recorder::resume();
    context_switched(0, other.id);
    assert_eq!(count(), 2);
    context_switched(other.id, 0);
    sampled(other);
    context_switched(0, other.id);
    assert_eq!(count(), 3);
    other.end(name, false, &[]);
    on_a_thread.end(name, false, &[]);
}
