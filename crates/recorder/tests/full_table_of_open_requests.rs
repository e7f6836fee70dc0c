//! The table of open requests when it is full, and after a slot was freed.
#![allow(clippy::expect_used, missing_docs)]

use format::region::losses;
use recorder::{install, Limit, Recorder, Request};
use ring::Region;

#[test]
fn requests_beyond_the_table_are_counted_and_a_place_that_is_left_is_taken_again() {
    let region = Region::in_process(8 << 20, 1, "test").expect("memory");
    let recorder = Recorder::new(region, Box::new(|_: &str| Limit { ns: u64::MAX, group: 0 }));
    install(recorder);
    let name = recorder.request_name("many");
    let untracked = || recorder.region().losses()[losses::REQUESTS_UNTRACKED];
    let mut open: Vec<Request> = (0..4095).map(|_| Request::begin(name, true, 0)).collect();
    assert_eq!(untracked(), 0);
    let mut seen = 0;
    recorder.open_requests().each(|_| seen += 1);
    assert_eq!(seen, 4095, "each has a slot of its own");
    for beyond in 1..=2 {
        Request::begin(name, true, 0).end(name, false, &[]);
        assert_eq!(untracked(), beyond);
    }
    // From any place, more than once each.
    for place in [0, 4094, 2000, 17, 17] {
        open[place].end(name, false, &[]);
        open[place] = Request::begin(name, true, 0);
        assert!(recorder.open_requests().is_open(open[place].id));
    }
    assert_eq!(untracked(), 2);
    for request in open.drain(..) {
        request.end(name, false, &[]);
    }
    recorder.open_requests().each(|request| panic!("left open: {request:?}"));
    let again = Request::begin(name, true, 0);
    assert!(recorder.open_requests().is_open(again.id));
}
