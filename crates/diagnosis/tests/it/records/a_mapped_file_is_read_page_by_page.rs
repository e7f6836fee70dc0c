//! On captures made by hand: thousands of short waits for pages, of which samples find a few, are
//! one cause.

use capture::read::{Capture, RequestRow, VitalRow};
use diagnosis::diagnose;
use format::record::{flag, Sample};
use format::usage::Usage;
use format::wait::WaitKind::{self, Fault, Poll, Running, SocketRead};
use made::{also_off, also_seen, off, request, sample, seen, stack, stack_on, used, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;

/// A request of 500 ms that waits for 4 of each 5 ms. Samples find it running, or in `wait`, every
/// 20 ms.
fn many(wait: WaitKind) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let scan = stack(&mut made, &[("view", "/srv/app.py", 12), ("scan", "/srv/app.py", 30)]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    off(&mut made, OWN, &[]);
    seen(&mut made, OWN, &[]);
    for at in (0..500).step_by(5) {
        also_off(&mut made, OWN, false, &[(at, at + 4)]);
        if at % 20 == 0 {
            let (kind, ms) = if at % 60 == 40 { (Running, at + 4) } else { (wait, at + 2) };
            also_seen(&mut made, OWN, [ms].into_iter(), kind, scan);
        }
    }
    made
}

fn share(made: &Capture, cause: &str) -> f64 {
    let verdict = diagnose(made, |_| 300 * MS);
    let own = verdict.findings.iter().filter(|f| f.cause.text() == cause);
    let share: f64 = own.map(|f| f.share).sum();
    assert!(share <= 1.0, "{}", to_text(&verdict));
    share
}

#[test]
fn short_waits_between_those_that_looks_found_to_be_faults_are_faults() {
    assert!(share(&many(Fault), "page-fault") > 0.7, "{}", share(&many(Fault), "page-fault"));
}

#[test]
fn one_sample_of_a_fault_says_nothing_of_the_waits_around_it() {
    let mut made = many(SocketRead);
    made.samples.get_mut(&OWN).expect("seen")[3].wait = Fault;
    assert!(share(&made, "page-fault") < 0.05, "{}", share(&made, "page-fault"));
}

#[test]
fn what_the_kernel_reads_from_storage_amid_faults_is_read_by_faults() {
    // Runs of 1 ms, mostly in the kernel, which moves far more than a fault of one small page would
    // explain.
    let reads = Usage { faults: 4, storage_kib: 400, user_us: 100, system_us: 900 };
    let mut made = many(Fault);
    used(&mut made, OWN, reads);
    let (faults, disk) = (share(&made, "page-fault"), share(&made, "disk-io"));
    assert!(faults > 0.9 && disk < 0.05, "{faults} {disk}");
    let mut made = many(SocketRead);
    used(&mut made, OWN, reads);
    assert!(share(&made, "disk-io") > 0.1, "{}", share(&made, "disk-io"));
}

/// Without switch records: a request of 500 ms that runs for 4 of each 10 ms. Samples find it
/// running in between, or in `wait`, with what the interpreter called on its stack. A second one
/// lies in the socket meanwhile. Their server waited for a connection until shortly before.
fn by_samples(wait: WaitKind) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off: not permitted".to_owned())];
    let scan = stack(&mut made, &[("view", "/srv/app.py", 12), ("scan", "/srv/app.py", 30)]);
    let item = stack_on(&mut made, scan, &[("get", "/usr/lib/python3.11/mmap.py", 3)]);
    let idle = stack(&mut made, &[("wait", "/usr/lib/python3.11/selectors.py", 9)]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    let behind = request(100, OWN, BEGIN + 50 * MS, 452);
    made.requests.push(RequestRow { started_ns: BEGIN + 500 * MS, ..behind });
    seen(&mut made, OWN, &[]);
    let look = |at_ms: u64, kind, stack| Sample {
        wall_ns: 10 * MS,
        cpu_ns: 4 * MS,
        flags: flag::TIMES,
        ..sample(OWN, BEGIN - 10 * MS + at_ms * MS, kind, stack)
    };
    let own = made.samples.entry(OWN).or_default();
    own.push(Sample { cpu_ns: 0, ..look(9, Poll, idle) });
    own.extend((20..=510).step_by(10).map(|at| match at % 30 {
        0 => look(at, wait, item),
        _ => look(at, Running, scan),
    }));
    made
}

#[test]
fn without_switch_records_the_time_between_two_samples_amid_faults_is_theirs_too() {
    let share_of = |wait, cause| share(&by_samples(wait), cause);
    let faults = share_of(Fault, "page-fault");
    assert!(faults > 0.75, "{faults}: {}", to_text(&diagnose(&by_samples(Fault), |_| 300 * MS)));
    assert!(share_of(SocketRead, "page-fault") < 0.05);
}

/// A request of 500 ms that runs, in the kernel, with a fault for each 10 ms; the process has
/// `mib` more memory behind it.
fn huge_pages(mib: u64) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let fill = stack(&mut made, &[("view", "/srv/app.py", 12), ("fill", "/srv/app.py", 30)]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    off(&mut made, OWN, &[]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (10..500).step_by(20), Running, fill);
    used(&mut made, OWN, Usage { faults: 2, storage_kib: 0, user_us: 0, system_us: 20_000 });
    made.names.push("rss_bytes".to_owned());
    let name = made.names.len() as u32 - 1;
    for (t_ns, mib) in [(BEGIN - 400 * MS, 100), (BEGIN + 600 * MS, 100 + mib)] {
        made.vitals.push(VitalRow { t_ns, name, value: (mib << 20) as f64 });
    }
    made
}

#[test]
fn few_faults_in_huge_pages_are_known_by_the_growth_of_memory() {
    let (grown, same) = (huge_pages(400), huge_pages(0));
    assert!(share(&grown, "page-fault") > 0.9, "{}", share(&grown, "page-fault"));
    assert!(share(&same, "page-fault") < 0.05, "the kernel did something else");
    assert!(share(&same, "cpu") > 0.9, "{}", share(&same, "cpu"));
}

#[test]
fn memory_that_was_given_back_before_the_next_vital_is_known_by_its_place() {
    let mut made = huge_pages(400);
    let fill = made.samples[&OWN][0].stack;
    made.requests.push(request(98, OWN, BEGIN + 800 * MS, 500));
    also_seen(&mut made, OWN, (810..1300).step_by(20), Running, fill);
    used(&mut made, OWN, Usage { faults: 2, storage_kib: 0, user_us: 0, system_us: 20_000 });
    let before = made.vitals[0].value;
    let name = made.vitals[0].name;
    made.vitals.push(VitalRow { t_ns: BEGIN + 1600 * MS, name, value: before });
    assert!(share(&made, "page-fault") > 0.9, "{}", share(&made, "page-fault"));
}
