//! On captures made by hand: the cause is named, the twin is not blamed, names do not matter, times
//! sum up.

use crate::divided::divided;
use crate::made;

use analysis::timeline::{of_thread, Segment, State};
use capture::read::{Capture, OffCpu};
use diagnosis::{diagnose, Confidence};
use format::usage::Usage;
use format::wait::{AwaitKind, HolderSource, WaitKind};
use made::{awaited, code, node, off, off_row, request, sample, seen, span, used, BEGIN, MS};

/// Fifty requests of 2 ms on thread 7 and, when `sick`, one of 500 ms that waits as `wait`.
fn capture(names: [&str; 4], sick: bool, wait: WaitKind) -> Capture {
    let mut made = made::capture(7, &names);
    made.codes = vec![code(1, 3), code(2, 3)];
    made.stacks = vec![node(0, 1, 4), node(1, 2, 12)];
    // Between requests the thread is off the CPU.
    let idle = |i: u64| OffCpu {
        out_ns: i * 1000 * MS + 2 * MS,
        in_ns: (i + 1) * 1000 * MS,
        preempted: false,
        cpu: None,
    };
    let mut off: Vec<OffCpu> = (1..60).map(idle).collect();
    if sick {
        made.requests.push(request(99, 7, BEGIN, 500));
        off.push(off_row(1, 499, false));
        let samples: Vec<_> = (1..49).map(|i| (i * 10, wait, 2)).collect();
        seen(&mut made, 7, &samples);
    }
    made.off_cpu.insert(7, off);
    made
}

const NAMES: [&str; 4] = ["GET /", "outer", "inner", "/srv/app.py"];

#[test]
fn a_sleep_is_named_with_its_function_and_line() {
    let capture = capture(NAMES, true, WaitKind::Sleep);
    let verdict = diagnose(&capture, |_| 300 * MS);
    let finding = &verdict.findings[0];
    let place = finding.place.as_ref().expect("a place");
    assert_eq!((finding.cause.text(), place.short().as_str()), ("sleep", "app.py:12 inner()"));
    assert_eq!(finding.confidence, Confidence::Confirmed, "{:?}", finding.missing);
    assert!(finding.share > 0.95 && verdict.unexplained_share < 0.05);
    assert_eq!((finding.slow_requests, finding.normal_requests), (1, 0));
}

#[test]
fn the_twin_is_not_blamed_and_neither_is_anybody_without_a_limit() {
    let healthy = capture(NAMES, false, WaitKind::Sleep);
    assert!(diagnose(&healthy, |_| 300 * MS).findings.is_empty());
    let sick = capture(NAMES, true, WaitKind::Sleep);
    assert!(diagnose(&sick, |_| u64::MAX).findings.is_empty());
}

#[test]
fn names_of_functions_change_no_verdict() {
    for names in
        [["sleep", "lock", "gil", "gc.py"], ["a", "time.sleep", "acquire", "/x/threads.py"]]
    {
        let capture = capture(names, true, WaitKind::SocketRead);
        let verdict = diagnose(&capture, |_| 300 * MS);
        assert_eq!(verdict.findings[0].cause.text(), "downstream-wait");
    }
}

#[test]
fn a_wait_no_rule_knows_is_unknown_and_stays_unexplained() {
    let capture = capture(NAMES, true, WaitKind::Other);
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "unknown");
    assert!(verdict.unexplained_share > 0.9);
    assert_eq!(verdict.findings[0].confidence, Confidence::Possible);
}

#[test]
fn a_timeline_is_exclusive_and_sums_to_the_wall_time() {
    let mut word = 88_172_645_463_325_252u64;
    let mut random = |below: u64| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word % below
    };
    for round in 0..500 {
        let mut capture = Capture::default();
        let state = if round % 2 == 0 { "on" } else { "off: not here" };
        capture.meta.sources = vec![("switches".to_owned(), state.to_owned())];
        let (mut at, mut off, mut samples) = (0, Vec::new(), Vec::new());
        for _ in 0..40 {
            let out_ns = at + random(30 * MS);
            let in_ns = out_ns + random(80 * MS);
            off.push(OffCpu { out_ns, in_ns, preempted: random(3) == 0, cpu: None });
            at = in_ns;
            let kind = WaitKind::from_u8(random(24) as u8);
            let mut seen = sample(7, out_ns + random(90 * MS), kind, 0);
            (seen.wall_ns, seen.cpu_ns, seen.run_delay_ns) =
                (random(20 * MS), random(30 * MS), random(30 * MS));
            seen.flags = format::record::flag::TIMES * (random(2) as u16);
            samples.push(seen);
        }
        samples.sort_by_key(|s| s.t_ns);
        capture.off_cpu.insert(7, off);
        capture.samples.insert(7, samples);
        let (from, length) = (random(at), random(at));
        let timeline = of_thread(&capture, 7, from, from + length);
        assert_eq!(timeline.iter().map(Segment::ns).sum::<u64>(), length, "round {round}");
        assert!(timeline.windows(2).all(|w| w[0].to_ns == w[1].from_ns), "round {round}");
        let preempted_counts_as_ready = timeline.iter().any(|s| s.state == State::Ready);
        assert!(preempted_counts_as_ready || round % 2 == 1 || length < 2000 * MS, "round {round}");
    }
}

/// As `capture`, on an event loop: its thread polls, the request's task was seen `seen`.
fn on_loop(seen: &[(u64, u64, AwaitKind, u32)]) -> Capture {
    let mut made = capture(NAMES, true, WaitKind::Poll);
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    let row = |(ms, task, kind, stack): &_| awaited(*ms, 99, *task, *kind, *stack);
    made.awaits.insert(99, seen.iter().map(row).collect());
    made
}

#[test]
fn a_suspended_task_is_explained_by_what_it_awaits() {
    for (kind, cause) in [
        (AwaitKind::Sleep, "sleep"),
        (AwaitKind::Lock, "lock-wait"),
        (AwaitKind::Semaphore, "pool-wait"),
        (AwaitKind::Queue, "pool-wait"),
        (AwaitKind::Socket, "downstream-wait"),
        (AwaitKind::Connect, "connect"),
        (AwaitKind::Resolve, "dns"),
        (AwaitKind::Child, "subprocess-wait"),
        (AwaitKind::Future, "unknown"),
    ] {
        let samples: Vec<_> = (1..5).map(|i| (i * 100, 8, kind, 2)).collect();
        let capture = on_loop(&samples);
        let verdict = diagnose(&capture, |_| 300 * MS);
        let first = &verdict.findings[0];
        let place = first.place.as_ref().map(|p| p.short());
        assert_eq!((first.cause.text(), place.as_deref()), (cause, Some("app.py:12 inner()")));
        assert!(first.confidence < Confidence::Confirmed, "when it began was not seen");
    }
}

#[test]
fn of_several_tasks_awaited_the_one_seen_longest_counts() {
    let mut samples = Vec::new();
    for i in 1..10 {
        samples.push((i * 50, 8, AwaitKind::Socket, 2));
        if i < 4 {
            samples.push((i * 50, 7, AwaitKind::Sleep, 1));
        }
    }
    let capture = on_loop(&samples);
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(verdict.findings.len(), 1);
    assert_eq!(verdict.findings[0].cause.text(), "downstream-wait");
}

#[test]
fn a_task_nobody_looked_at_stays_unknown() {
    let capture = on_loop(&[(1, 8, AwaitKind::Sleep, 2)]);
    let verdict = diagnose(&capture, |_| 300 * MS);
    let share = |cause: &str| {
        verdict.findings.iter().filter(|f| f.cause.text() == cause).map(|f| f.share).sum::<f64>()
    };
    assert!(share("unknown") > 0.3, "300 ms after the look nothing is known any more");
}

#[test]
fn segments_of_a_suspended_request_are_exclusive_and_sum_to_its_time() {
    let mut word = 88_172_645_463_325_252u64;
    let mut random = |below: u64| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word % below
    };
    for round in 0..300 {
        let mut samples: Vec<(u64, u64, AwaitKind, u32)> = (0..random(30))
            .map(|_| {
                let kind = AwaitKind::from_u8(random(16) as u8);
                (random(700), 7 + random(3), kind, random(4) as u32)
            })
            .collect();
        samples.sort_by_key(|look| look.0);
        let capture = on_loop(&samples);
        let times = divided(&capture, 99);
        assert_eq!(times.iter().map(|(from, to, _)| to - from).sum::<u64>(), 500 * MS, "{round}");
        assert!(times.windows(2).all(|w| w[0].1 == w[1].0), "round {round}: {times:?}");
    }
}

/// One request of 500 ms on thread 7 that runs all the time and uses so much in each 10 ms.
fn computing(each: Usage) -> Capture {
    let mut made = capture(NAMES, true, WaitKind::Running);
    if let Some(off) = made.off_cpu.get_mut(&7) {
        off.retain(|o| o.out_ns != BEGIN + MS);
    }
    used(&mut made, 7, each);
    made
}

#[test]
fn what_keeps_the_kernel_busy_is_separate_from_computing() {
    let cause = |each: Usage| {
        let capture = computing(each);
        let verdict = diagnose(&capture, |_| 300 * MS);
        verdict.findings[0].cause.text()
    };
    let own = Usage { faults: 5, storage_kib: 0, user_us: 9_000, system_us: 1_000 };
    assert_eq!(cause(own), "cpu");
    let touching = Usage { faults: 1_500, storage_kib: 0, user_us: 2_000, system_us: 8_000 };
    assert_eq!(cause(touching), "page-fault");
    let syncing = Usage { faults: 2, storage_kib: 4_000, user_us: 1_000, system_us: 9_000 };
    assert_eq!(cause(syncing), "disk-io");
    let scanning = Usage { faults: 2, storage_kib: 0, user_us: 1_000, system_us: 9_000 };
    assert_eq!(cause(scanning), "cpu", "in the kernel, but nothing explains it");
    // A program that faults all the time while it computes is computing.
    let both = Usage { faults: 1_500, storage_kib: 4_000, user_us: 8_000, system_us: 2_000 };
    assert_eq!(cause(both), "cpu");
}

#[test]
fn a_fork_is_separate_from_the_work_around_it() {
    let mut capture = computing(Usage { faults: 0, storage_kib: 0, user_us: 9_000, system_us: 0 });
    capture.names.push(format::own_span::FORK.to_owned());
    capture.own_spans.push(span(4, 7, 0, BEGIN + 50 * MS, 400));
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "fork");
    // Another thread's fork is nothing to a thread that runs.
    capture.own_spans[0].tid = 8;
    assert_eq!(diagnose(&capture, |_| 300 * MS).findings[0].cause.text(), "cpu");
}

#[test]
fn a_circle_of_locks_is_a_deadlock_and_a_line_is_not() {
    let mut capture = capture(NAMES, true, WaitKind::Futex);
    let held_by = |capture: &mut Capture, tid: u32, holder: u32, lock: u64| {
        for sample in capture.samples.get_mut(&tid).into_iter().flatten() {
            (sample.lock_holder, sample.target) = (holder, lock);
            sample.holder_source = HolderSource::WithBlock;
        }
    };
    let samples: Vec<_> = (0..50).map(|i| (i * 10, WaitKind::Futex, 2)).collect();
    seen(&mut capture, 8, &samples);
    off(&mut capture, 8, &[(0, 500)]);
    held_by(&mut capture, 7, 8, 0x10);
    held_by(&mut capture, 8, 7, 0x20);
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "deadlock-timeout");
    held_by(&mut capture, 8, 9, 0x20);
    assert_eq!(diagnose(&capture, |_| 300 * MS).findings[0].cause.text(), "lock-wait");
}
