//! A forked child is not recorded, can release the stream, and does not disturb the parent's.
//!
//! One test, because the descriptors of other streams would disturb the counting.

use std::collections::HashSet;
use std::time::Duration;
use sys::thread;

fn nap() {
    std::thread::sleep(Duration::from_millis(2));
}

#[test]
fn a_child_is_not_recorded_and_can_forget_the_stream() {
    let Some(stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    let mut stream = Some(stream);
    let held = crate::common::open_descriptors("perf_event");
    assert_eq!(held, stream.as_ref().map_or(0, |s| s.descriptors()));

    // One releases by name; one releases by dropping; one drains without harm.
    let (first, forgets) = crate::common::child(|| {
        nap();
        stream.take().into_iter().for_each(|s| s.forget_after_fork());
        crate::common::open_descriptors("perf_event") as i32
    });
    assert_eq!(forgets, 0, "descriptors left in the child");
    let (second, drops) = crate::common::child(|| {
        let mut delivered = 0;
        nap();
        if let Some(stream) = stream.as_mut() {
            stream.drain(|_| delivered += 1);
        }
        drop(stream.take());
        delivered + crate::common::open_descriptors("perf_event") as i32
    });
    assert_eq!(drops, 0, "records delivered or descriptors left in the child");

    let mut stream = stream.expect("the children took copies");
    nap();
    let mut tids = HashSet::new();
    stream.drain(|s| {
        tids.insert(s.tid);
    });
    assert!(tids.contains(&thread::tid()), "the parent goes on");
    // A child's only thread has the child's id.
    let children = [first, second].map(|pid| pid as u32);
    assert!(children.iter().all(|pid| !tids.contains(pid)), "{children:?} in {tids:?}");
    drop(stream);
    assert_eq!(crate::common::open_descriptors("perf_event"), 0);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is there");
    assert!(!maps.contains("perf_event"), "{maps}");
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
