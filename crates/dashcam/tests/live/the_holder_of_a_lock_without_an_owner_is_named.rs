//! Rust's own locks do not name their holder. Where the kernel records wakers, the verdict names
//! the holder, measured: by its function, though it shares no code with the waiting thread.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use capture::read::Capture;
use diagnosis::Cause;
use diagnosis::{Confidence, Diagnosis, Evidence, Finding};
use format::wake::Waker;

/// Long compared to what the sampler needs to see what waits, also on a busy machine.
const SLOW: Duration = Duration::from_millis(400);

static STOCK: Mutex<u32> = Mutex::new(0);
static PRICES: RwLock<u32> = RwLock::new(0);
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
    let _ = *PRICES.read().expect("nobody panics");
    done();
}

#[inline(never)]
fn recount(taken: &Sender<()>) {
    let mut stock = STOCK.lock().expect("nobody panics");
    taken.send(()).expect("the test waits");
    std::thread::sleep(SLOW);
    *stock += 1;
    drop(stock);
    done();
}

#[inline(never)]
fn reprice(taken: &Sender<()>) {
    let mut prices = PRICES.write().expect("nobody panics");
    taken.send(()).expect("the test waits");
    std::thread::sleep(SLOW);
    *prices += 1;
    drop(prices);
    done();
}

/// Runs `hold` each time it is asked to, on a thread of its own.
fn holder(name: &str, hold: fn(&Sender<()>)) -> (Sender<()>, Receiver<()>) {
    let (report, reported) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let body = move || {
        while reported.recv().is_ok() {
            hold(&say);
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread");
    (report, said)
}

/// Runs a little, all the time: it is always among those that ran when a wait ended.
fn bystand() {
    loop {
        std::thread::sleep(Duration::from_micros(700));
        done();
    }
}

fn turn(slow: bool, holder: &(Sender<()>, Receiver<()>), name: &'static str, wait: fn()) {
    if slow {
        holder.0.send(()).expect("it listens");
        holder.1.recv().expect("it has the lock");
    }
    match name {
        "reserve" => {
            let _request = dashcam::request!("reserve");
            wait();
        }
        _ => {
            let _request = dashcam::request!("quote");
            wait();
        }
    }
}

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED who held a lock: {why}");
}

/// How many waits were recorded as ended by a thread of this process.
fn reported(capture: &Capture) -> usize {
    let rows = capture.wakes.values().flatten();
    rows.filter(|wake| matches!(wake.by, Waker::Thread(_))).count()
}

#[test]
fn the_holder_of_a_lock_without_an_owner_is_named() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("wakers-{}", std::process::id()));
    let settings = dashcam::Config::new().service("wakers").slow("50ms");
    dashcam::start(settings.out(out.display())).expect("settings");
    std::thread::sleep(Duration::from_millis(200));
    std::thread::spawn(bystand);
    let counting = holder("counting", recount);
    let pricing = holder("pricing", reprice);
    for round in 0..80 {
        turn(round % 20 == 19, &counting, "reserve", reserve);
        turn(round % 20 == 19, &pricing, "quote", quote);
    }
    let path = dashcam::snap("test").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    testkit::remove(&out);
    let state = capture.meta.sources.iter().find(|(name, _)| name == "wakers");
    let state = &state.expect("the source is told").1;
    if !state.starts_with("on") {
        assert!(state.starts_with("off: "), "{state}");
        assert_eq!(reported(&capture), 0);
        return skipped(state);
    }
    assert!(reported(&capture) >= 8, "{} of 8 waits", reported(&capture));
    let notes = symbols::name_native(&mut capture);
    assert!(notes.is_empty(), "{notes:?}");
    let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
    println!("{}", report::to_text(&diagnosis));
    for (waits, holds) in [("reserve", "recount"), ("quote", "reprice")] {
        let finding = at(&diagnosis, waits).expect(waits);
        let culprit = finding.culprit.as_ref().expect("who held it");
        assert_eq!(culprit.function, holds, "{}", finding.summary);
        let held = finding.summary.contains(", held by ");
        assert!(held && finding.summary.contains("which slept"), "{}", finding.summary);
        let inferred = finding.missing.iter().any(|why| why.contains("inferred"));
        assert!(!inferred, "{:?}", finding.missing);
        let ended = |e: &Evidence| e.what.starts_with("the longest wait was ended by thread");
        assert!(finding.evidence.iter().any(ended), "{:?}", finding.evidence);
    }
    // The same without the kernel's records of wakers: at best a guess.
    capture.wakes.clear();
    let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
    println!("{}", report::to_text(&diagnosis));
    for waits in ["reserve", "quote"] {
        let sure = at(&diagnosis, waits).is_some_and(|f| f.confidence == Confidence::Confirmed);
        assert!(!sure, "{}", report::to_text(&diagnosis));
    }
}

/// What made requests wait for a lock in this function.
fn at<'d>(diagnosis: &'d Diagnosis<'_>, function: &str) -> Option<&'d Finding> {
    let there = |f: &&Finding| {
        let place = f.place.as_ref().is_some_and(|p| p.function == function);
        f.cause == Cause::LockWait && place
    };
    diagnosis.findings.iter().find(there)
}
