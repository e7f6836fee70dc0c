//! The waker of a wait is recorded with its own stack at that instant: the function that released
//! the lock, also of a thread that was seen elsewhere for most of the wait, and of a thread that
//! lives for one lock only.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use capture::read::Capture;
use diagnosis::Cause;
use format::wake::Waker;

const SLOW: Duration = Duration::from_millis(400);

static STOCK: Mutex<u32> = Mutex::new(0);
static PRICES: Mutex<u32> = Mutex::new(0);
static TURNS: AtomicU32 = AtomicU32::new(0);

/// Keeps a call from being the last thing its caller does.
fn done() {
    TURNS.fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn reserve() {
    *STOCK.lock().expect("nobody panics") += 1;
    done();
}

#[inline(never)]
fn quote() {
    *PRICES.lock().expect("nobody panics") += 1;
    done();
}

/// What the thread does for most of the wait has another name than the function that releases the
/// lock.
#[inline(never)]
fn ponder() {
    std::thread::sleep(SLOW);
    done();
}

#[inline(never)]
fn settle(stock: MutexGuard<'_, u32>) {
    drop(stock);
    done();
}

#[inline(never)]
fn recount(taken: &Sender<()>) {
    let stock = STOCK.lock().expect("nobody panics");
    taken.send(()).expect("the test waits");
    ponder();
    settle(stock);
    done();
}

#[inline(never)]
fn reprice(taken: &Sender<()>) {
    let mut prices = PRICES.lock().expect("nobody panics");
    taken.send(()).expect("the test waits");
    std::thread::sleep(SLOW);
    *prices += 1;
    drop(prices);
    done();
}

/// Runs `recount` each time it is asked to, on a thread of its own.
fn counting() -> (Sender<()>, Receiver<()>) {
    let (report, reported) = mpsc::channel();
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        while reported.recv().is_ok() {
            recount(&say);
        }
    });
    (report, said)
}

/// The functions of the wakers that ended the long waits, innermost first; of each wait with a
/// record.
fn stacks(capture: &Capture) -> Vec<Vec<&str>> {
    let mut all = Vec::new();
    for (tid, rows) in &capture.off_cpu {
        for off in rows.iter().filter(|off| off.in_ns - off.out_ns > SLOW.as_nanos() as u64 / 2) {
            let by_thread = capture.wake_in(*tid, off).map(|wake| wake.by);
            let stack = capture.waker_stack_in(*tid, off);
            if matches!(by_thread, Some(Waker::Thread(_))) && stack != 0 {
                all.push(capture.frames(stack).map(|frame| frame.function).collect());
            }
        }
    }
    all
}

#[test]
fn waker_stacks_show_where_a_lock_was_released() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("let-go-{}", std::process::id()));
    let settings = dashcam::Config::new().service("let-go").slow("50ms");
    dashcam::start(settings.out(out.display())).expect("settings");
    std::thread::sleep(Duration::from_millis(200));
    let (report, said) = counting();
    for round in 0..80 {
        let slow = round % 20 == 19;
        if slow {
            report.send(()).expect("it listens");
            said.recv().expect("it has the lock");
        }
        {
            let _request = dashcam::request!("reserve");
            reserve();
        }
        std::thread::scope(|scope| {
            let (say, said) = mpsc::channel();
            if slow {
                scope.spawn(move || reprice(&say));
                said.recv().expect("it has the lock");
            }
            let _request = dashcam::request!("quote");
            quote();
        });
    }
    // What came last is recorded in the next pass.
    std::thread::sleep(Duration::from_millis(200));
    let path = dashcam::snap("test").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    testkit::remove(&out);
    let state = |of: &str| {
        let found = capture.meta.sources.iter().find(|(name, _)| name == of);
        found.map_or("", |(_, state)| state.as_str())
    };
    for source in ["wakers", "native_stacks"] {
        if state(source) != "on" {
            let known = ["off: ", "on; without their stacks: "];
            assert!(known.iter().any(|k| state(source).starts_with(k)), "{}", state(source));
            assert!(capture.waker_stacks.is_empty());
            let why = state(source);
            let _ = writeln!(std::io::stderr(), "SKIPPED where a lock was let go: {why}");
            return;
        }
    }
    let notes = symbols::name_native(&mut capture);
    assert!(notes.is_empty(), "{notes:?}");
    let stacks = stacks(&capture);
    let passes = |function: &str| {
        let named = |s: &&Vec<&str>| s.iter().any(|f| f.ends_with(function));
        stacks.iter().filter(named).count()
    };
    // The first wait may end before its thread is followed, on a busy machine.
    assert!(passes("::settle") >= 3 && passes("::reprice") >= 3, "{stacks:#?}");
    let of_settle = stacks.iter().find(|s| s.iter().any(|f| f.ends_with("::settle")));
    let order = ["::settle", "::recount"]
        .map(|name| of_settle.and_then(|s| s.iter().position(|f| f.ends_with(name))));
    assert!(order[0].is_some() && order[0] < order[1], "{of_settle:?}");
    let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
    println!("{}", report::to_text(&diagnosis));
    for (waits, lets_go) in [("reserve", "settle"), ("quote", "reprice")] {
        let there = |f: &&diagnosis::Finding| {
            let place = f.place.as_ref().is_some_and(|p| p.function == waits);
            f.cause == Cause::LockWait && place
        };
        let finding = diagnosis.findings.iter().find(there).expect(waits);
        let culprit = finding.culprit.as_ref().expect("who held it");
        assert_eq!(culprit.function, lets_go, "{}", finding.summary);
        assert!(finding.summary.contains(", held by "), "{}", finding.summary);
        let reported = |e: &diagnosis::Evidence| {
            e.what.starts_with("the longest wait was ended by thread") && e.what.contains(lets_go)
        };
        assert!(finding.evidence.iter().any(reported), "{:?}", finding.evidence);
    }
    // Samples alone saw what it did for most of the wait, which is another function.
    capture.waker_stacks.clear();
    let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
    let culprits = diagnosis.findings.iter().filter_map(|f| f.culprit.as_ref());
    let named: Vec<&str> = culprits.map(|place| place.function.as_str()).collect();
    assert!(!named.contains(&"settle"), "{named:?}");
}
