//! A capture with more observations of threads than are kept: the verdict rests on some of them,
//! says so, and is the same.

use std::collections::HashSet;

use capture::read::{Capture, Wanted};
use diagnosis::{diagnose, wanted};
use golden::large;
use report::{to_json, to_text};

const LIMIT_NS: u64 = 100_000_000;

fn limit_ns(_: &str) -> u64 {
    LIMIT_NS
}

fn bytes_of(capture: &Capture) -> usize {
    let off = capture.off_cpu.values().map(Vec::len).sum::<usize>();
    let samples = capture.samples.values().map(Vec::len).sum::<usize>();
    off * size_of::<capture::read::OffCpu>() + samples * size_of::<format::record::Sample>()
}

#[test]
fn an_excerpt_gives_the_same_cause_from_bounded_rows() {
    let (bytes, requests) = large::write(Vec::new(), 52).expect("written");
    let whole = Capture::parse_for(&bytes, Wanted::Causes).expect("a capture");
    let most = 1 << 19;
    assert!(bytes_of(&whole) > 4 * most, "{}", bytes_of(&whole));
    let choose = |capture: &Capture| wanted(capture, limit_ns);
    let read = || Capture::parse_judged(&bytes, &choose, most).expect("a capture");
    let part = read();
    // Besides what is wanted there are the first and the last row of each of 31 threads.
    assert!(bytes_of(&part) < most + most / 4, "{}", bytes_of(&part));
    let excerpt = part.excerpt.as_ref().expect("only a part was read");
    assert!(excerpt.read < excerpt.all / 3, "{excerpt:?}");

    let (all, some) = (diagnose(&whole, limit_ns), diagnose(&part, limit_ns));
    assert_eq!((all.total as u64, all.slow), (requests, some.slow));
    assert_eq!(all.total, some.total);
    let first = |d: &diagnosis::Diagnosis<'_>| {
        let finding = d.findings.first().expect("a cause");
        (finding.cause, finding.place.clone(), finding.culprit.clone())
    };
    assert_eq!(first(&all), first(&some));
    assert!(all.examined.0 <= 200 && some.examined.0 <= all.examined.0);
    assert!(some.examined.0 > 0 && some.examined.1 > 0, "{:?}", some.examined);

    let text = to_text(&some);
    let said = text.lines().find(|line| line.starts_with("The capture is large: "));
    assert!(said.is_some_and(|line| line.contains(" slow requests and ")), "{text}");
    assert!(!to_text(&all).contains("The capture is large"));
    let json = to_json(&some, "x");
    assert_eq!(json["capture"]["observations_read"], excerpt.read);
    assert_eq!(to_json(&diagnose(&read(), limit_ns), "x"), json, "the same each time");
}

#[test]
fn what_was_not_read_is_not_known() {
    let (bytes, _) = large::write(Vec::new(), 52).expect("written");
    let choose = |capture: &Capture| wanted(capture, limit_ns);
    let part = Capture::parse_judged(&bytes, &choose, 1 << 19).expect("a capture");
    let excerpt = part.excerpt.as_ref().expect("only a part was read");
    let (from_ns, to_ns) = excerpt
        .unread
        .iter()
        .copied()
        .max_by_key(|(from, to)| to.min(&part.meta.to_ns).saturating_sub(*from))
        .expect("some time");
    let to_ns = to_ns.min(part.meta.to_ns);
    let middle = from_ns.midpoint(to_ns);
    let tids: HashSet<u32> = part.off_cpu.keys().copied().collect();
    assert_eq!(tids.len(), 30);
    for tid in tids {
        let states = analysis::timeline::of_thread(&part, tid, middle, middle + 1_000_000);
        let unknown = |s: &analysis::timeline::Segment<'_>| !s.exact;
        assert!(states.iter().all(unknown), "thread {tid} ran? {states:?}");
    }
}
