//! Requests of a Rust program that compute, three calls deep or inlined: the verdict names
//! function, file and line of the code that burned the CPU.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::time::Duration;

use capture::read::Capture;
use diagnosis::Cause;

/// CPU time, so that a busy machine makes the requests longer and not emptier.
const SLOW_NS: u64 = 150_000_000;
const QUICK_NS: u64 = 1_000_000;

/// Begin and end of the loops that burn.
const DIGEST: RangeInclusive<u32> = line!() + 4..=line!() + 11;

#[inline(never)]
fn digest(cpu_ns: u64) -> u64 {
    let end_ns = sys::clock::thread_cpu_ns() + cpu_ns;
    let mut sum = 1u64;
    while sys::clock::thread_cpu_ns() < end_ns {
        for i in 0..20_000u64 {
            sum = black_box(sum.rotate_left(7) ^ i);
        }
    }
    sum
}

const MIX: RangeInclusive<u32> = line!() + 4..=line!() + 12;

#[inline(always)]
fn mix(cpu_ns: u64, table: &mut [u64; 64]) -> u64 {
    let end_ns = sys::clock::thread_cpu_ns() + cpu_ns;
    while sys::clock::thread_cpu_ns() < end_ns {
        for i in 0..20_000usize {
            let at = i & 63;
            table[at] = black_box(table[at].wrapping_mul(31) + i as u64);
        }
    }
    table[7]
}

#[inline(never)]
fn lookup(then: &mut dyn FnMut() -> u64) -> u64 {
    then().wrapping_add(black_box(1))
}

#[inline(never)]
fn price(then: &mut dyn FnMut() -> u64) -> u64 {
    lookup(then).wrapping_add(black_box(2))
}

#[inline(never)]
fn total(cpu_ns: u64) -> u64 {
    let mut table = [3u64; 64];
    mix(cpu_ns, &mut table).wrapping_add(black_box(&table)[9])
}

#[test]
fn native_cpu_is_named_by_line() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("burn-{}", std::process::id()));
    let settings = dashcam::Config::new().service("burn").slow("50ms").out(out.display());
    dashcam::start(settings).expect("settings");
    std::thread::sleep(Duration::from_millis(200));
    for turn in 0..60 {
        let cpu_ns = if turn % 20 == 19 { SLOW_NS } else { QUICK_NS };
        {
            let _request = dashcam::request!("deep");
            price(&mut || digest(cpu_ns));
        }
        {
            let _request = dashcam::request!("inlined");
            price(&mut || total(cpu_ns));
        }
    }
    let path = dashcam::snap("test").expect("a capture");
    let capture = Capture::open(&path).expect("a whole capture");
    let state = capture.meta.sources.iter().find(|(name, _)| name.as_str() == "running_stacks");
    let state = state.expect("a source").1.clone();
    let wanted = [("deep", "digest", DIGEST, "price"), ("inlined", "mix", MIX, "total")];
    for (request, function, lines, caller) in wanted {
        let mut capture = Capture::open(&path).expect("a whole capture");
        let notes = symbols::name_native(&mut capture);
        assert!(notes.is_empty(), "{notes:?}");
        let name = capture.name_id(request);
        capture.requests.retain(|r| Some(r.name) == name);
        let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
        println!("{}", report::to_text(&diagnosis));
        let finding = diagnosis.findings.iter().find(|f| f.cause == Cause::Cpu);
        let finding = finding.expect("they computed");
        if state != "on" {
            // The verdict goes without a place, and the capture says why.
            assert!(state.starts_with("off: perf_event_open refused"), "{state}");
            assert_eq!(finding.place, None);
            eprintln!("SKIPPED native_cpu_is_named_by_line: {state}");
            continue;
        }
        let place = finding.place.as_ref().expect("a place");
        assert_eq!(place.function, function, "{place:?}");
        assert!(lines.contains(&place.line), "{place:?}, wanted {lines:?}");
        assert!(place.file.ends_with("tests/live/native_cpu_is_named_by_line.rs"), "{place:?}");
        assert!(finding.path.iter().any(|f| f == caller), "{:?}", finding.path);
    }
    testkit::remove(&out);
}
