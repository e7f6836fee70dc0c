//! On captures made by hand: a thread that waits for a fraction of a millisecond, again and again,
//! is mostly found running in between; the samples that found it waiting at the same place say what
//! for.

use crate::made;

use capture::read::{Capture, OffCpu};
use diagnosis::{diagnose, Diagnosis};
use format::record::flag;
use format::wait::WaitKind::{self, FileSync, Gil, Running};
use made::{request, seen, stack, BEGIN, MS};

const OWN: u32 = 7;
const US: u64 = 1_000;

/// A request of 500 ms, four fifths of it waits of 80 us. It is sampled each 10 ms: what the
/// samples see comes in turns, in `settle()` called by `append()`, but what `elsewhere` says is in
/// `append()` alone.
fn syncs(exact: bool, samples: &[WaitKind], elsewhere: Option<WaitKind>) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let append = stack(&mut made, &[("append", "/srv/journal.py", 27)]);
    let settle = made::stack_on(&mut made, append, &[("settle", "/srv/journal.py", 17)]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    if exact {
        let wait = |i: u64| {
            let out_ns = BEGIN + i * 100 * US + 10 * US;
            OffCpu { out_ns, in_ns: out_ns + 80 * US, preempted: false, cpu: None }
        };
        made.off_cpu.insert(OWN, (0..5000).map(wait).collect());
    } else {
        made.meta.sources.retain(|(name, _)| name != "switches");
        made.meta.sources.push(("switches".to_owned(), "off: turned off by settings".to_owned()));
    }
    let kinds = samples.iter().chain(&elsewhere);
    let place = |i: usize| if i < samples.len() { settle } else { append };
    let turns: Vec<_> = kinds.copied().enumerate().map(|(i, kind)| (kind, place(i))).collect();
    let rows = turns.iter().cycle().zip((0..500).step_by(10));
    let rows: Vec<_> = rows.map(|((kind, stack), at)| (at, *kind, *stack)).collect();
    seen(&mut made, OWN, &rows);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        (look.flags, look.wall_ns, look.cpu_ns) = (flag::TIMES, 10 * MS, 2 * MS);
    }
    made
}

fn first<'d>(verdict: &'d Diagnosis<'_>) -> (&'static str, f64, Option<&'d str>) {
    let first = &verdict.findings[0];
    let place = first.place.as_ref().map(|place| place.function.as_str());
    (first.cause.text(), first.share, place)
}

#[test]
fn what_most_looks_at_the_place_saw_it_wait_for() {
    for exact in [true, false] {
        let mut samples = [Running; 9];
        samples[4] = FileSync;
        let made = syncs(exact, &samples, None);
        let verdict = diagnose(&made, |_| 300 * MS);
        let (cause, share, place) = first(&verdict);
        assert_eq!((cause, place), ("disk-io", Some("settle")), "exact: {exact}");
        assert!(share > 0.7, "exact: {exact}: {share}");
    }
}

/// Any thread may wait for the GIL behind a call that releases it, and a wait in another function
/// is another.
#[test]
fn neither_the_gil_nor_a_wait_elsewhere_says_what_for() {
    for exact in [true, false] {
        let mut gil = [Running; 9];
        gil[4] = Gil;
        for (samples, elsewhere) in [(gil, None), ([Running; 9], Some(FileSync))] {
            let made = syncs(exact, &samples, elsewhere);
            let verdict = diagnose(&made, |_| 300 * MS);
            let of = |text: &str| -> f64 {
                let those = verdict.findings.iter().filter(|f| f.cause.text() == text);
                those.map(|f| f.share).sum()
            };
            let (unknown, reported) = (of("unknown"), of("disk-io"));
            assert!(unknown > 0.25, "exact: {exact}, {samples:?}: {unknown}");
            assert!(reported < 0.5, "exact: {exact}, {samples:?}: {reported}");
        }
    }
}
