//! From the moment a request is past its limit its thread is sampled several times as often as any
//! other that does the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use capture::read::Capture;

const OTHERS: usize = 64;
/// Passes of the sampler that are compared.
const PASSES: u64 = 200;
/// Far above what they take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What all of them do: they wait, and run now and then.
fn works() {
    std::thread::sleep(Duration::from_millis(2));
    std::hint::black_box((0..1000).fold(0u64, |sum, n| sum ^ std::hint::black_box(n)));
}

fn passes() -> u64 {
    let status = dashcam::status_json();
    let (_, behind) = status.split_once(r#""passes":"#).expect("a counter");
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Works until the sampler made so many more passes.
fn works_for(count: u64) {
    let (begin, before) = (Instant::now(), passes());
    while passes() < before + count {
        assert!(begin.elapsed() < LIMIT, "{}", dashcam::status_json());
        (0..10).for_each(|_| works());
    }
}

/// One test: there is one recorder a process.
#[test]
fn than_any_other_thread() {
    let out = std::env::temp_dir().join(format!("dashcam-samples-{}", std::process::id()));
    // Switch records would make it depend on what the kernel allows; the budget on the machine.
    let config = dashcam::Config::new().memory("16MiB").out(out.display()).control("off");
    let config = config.slow("30ms").switches(false).budget_percent(100.0).at_exit("never");
    dashcam::start(config.cooldown("1h")).expect("starts");
    let (stop, all) = (&AtomicBool::new(false), &Barrier::new(OTHERS + 1));
    let path = std::thread::scope(|scope| {
        let _stops = testkit::SetsAtEnd(stop);
        for _ in 0..OTHERS {
            scope.spawn(move || {
                drop(dashcam::request!("knows its thread"));
                all.wait();
                while !stop.load(Ordering::Acquire) {
                    works();
                }
            });
        }
        all.wait();
        works_for(PASSES / 4);
        let late = dashcam::request!("late");
        works_for(PASSES);
        drop(late);
        dashcam::snap("to count samples").expect("written")
    });
    dashcam::stop();
    let capture = Capture::open(&path).expect("a capture");
    testkit::remove(&out);

    let late = capture.requests.iter().find(|row| capture.name(row.name) == "late");
    let late = late.expect("the request");
    let (from, to) = (late.begin_ns + 30_000_000, late.end_ns.expect("ended"));
    let samples_in = |tid: &u32, from: u64, to: u64| {
        let samples = capture.samples.get(tid).map_or(&[][..], |samples| samples);
        samples.iter().filter(|sample| (from..to).contains(&sample.t_ns)).count()
    };
    let quick = capture.requests.iter().filter(|row| row.tid != late.tid);
    let mut others: Vec<usize> = quick.map(|row| samples_in(&row.tid, from, to)).collect();
    others.sort_unstable();
    let (its, median, most) =
        (samples_in(&late.tid, from, to), others[OTHERS / 2], others[OTHERS - 1]);
    assert_eq!(others.len(), OTHERS);
    // Of 16 places in a pass it has one for itself; 64 share the others: four times as many
    // samples.
    assert!(median >= 5, "the others are looked at, too: {others:?}");
    assert!(its >= 3 * median && its >= 2 * most, "{its} samples, others {others:?}");
}
