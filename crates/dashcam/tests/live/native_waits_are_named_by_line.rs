//! Requests of a Rust program that wait, three calls deep: the verdict names function, file, line.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use capture::read::Capture;
use diagnosis::Cause;
use diagnosis::Finding;

const SLOW: Duration = Duration::from_millis(150);

static TURNS: AtomicU32 = AtomicU32::new(0);
static STOCK: Mutex<u32> = Mutex::new(0);
/// The lines of the waits, as they say themselves.
static SLEEPS: AtomicU32 = AtomicU32::new(0);
static LOCKS: AtomicU32 = AtomicU32::new(0);
static READS: AtomicU32 = AtomicU32::new(0);

/// Keeps a call from being the last thing its caller does.
fn done() {
    TURNS.fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn back_off(time: Duration) {
    SLEEPS.store(line!() + 1, Ordering::Relaxed);
    std::thread::sleep(time);
    done();
}

#[inline(never)]
fn reserve() {
    LOCKS.store(line!() + 1, Ordering::Relaxed);
    *STOCK.lock().expect("nobody panics") += 1;
    done();
}

#[inline(never)]
fn ask(peer: &mut TcpStream) {
    peer.write_all(b"?").expect("connected");
    READS.store(line!() + 1, Ordering::Relaxed);
    peer.read_exact(&mut [0]).expect("connected");
    done();
}

#[inline(never)]
fn lookup(then: &mut dyn FnMut()) {
    then();
    done();
}

#[inline(never)]
fn price(then: &mut dyn FnMut()) {
    lookup(then);
    done();
}

/// Levels of `descend` below the one that sleeps, and the levels of a call just before it, whose
/// leftovers lie in the frames of the real one.
const LEVELS: usize = 9;
const DEEPER: usize = 25;

#[inline(never)]
fn descend(levels: usize, time: Duration) -> usize {
    let room = std::hint::black_box(MaybeUninit::<[usize; 24]>::uninit());
    if levels == 0 {
        std::thread::sleep(time);
    } else {
        descend(levels - 1, time);
    }
    done();
    std::hint::black_box(&room);
    levels
}

#[inline(never)]
fn restock(taken: &Barrier) {
    let mut stock = STOCK.lock().expect("nobody panics");
    taken.wait();
    std::thread::sleep(SLOW);
    *stock += 1;
}

fn serve() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        while client.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(SLOW);
            client.write_all(b"!").expect("connected");
        }
    });
    TcpStream::connect(address).expect("served")
}

#[test]
fn native_waits_are_named_by_line() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("native-{}", std::process::id()));
    let settings = dashcam::Config::new().service("native").slow("50ms");
    let settings = settings.out(out.display());
    dashcam::start(settings).expect("settings");
    let mut peer = serve();
    std::thread::sleep(Duration::from_millis(200));
    for turn in 0..60 {
        let slow = turn % 20 == 19;
        {
            let _request = dashcam::request!("sleep");
            price(&mut || back_off(if slow { SLOW } else { Duration::from_millis(1) }));
        }
        let taken = Barrier::new(2);
        std::thread::scope(|scope| {
            if slow {
                scope.spawn(|| restock(&taken));
                taken.wait();
            }
            let _request = dashcam::request!("lock");
            price(&mut reserve);
        });
        if slow {
            let _request = dashcam::request!("read");
            price(&mut || ask(&mut peer));
        }
        descend(DEEPER, Duration::ZERO);
        if slow {
            let _request = dashcam::request!("descend");
            descend(LEVELS, SLOW);
        }
    }
    let path = dashcam::snap("test").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    let notes = symbols::name_native(&mut capture);
    assert!(notes.is_empty(), "{notes:?}");
    let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
    println!("{}", report::to_text(&diagnosis));
    let wanted = [
        (Cause::Sleep, "back_off", &SLEEPS),
        (Cause::LockWait, "reserve", &LOCKS),
        (Cause::DownstreamWait, "ask", &READS),
    ];
    for (cause, function, line) in wanted {
        let is_it = |f: &&Finding| {
            f.cause == cause && f.place.as_ref().is_some_and(|p| p.function == function)
        };
        let finding = diagnosis.findings.iter().find(is_it).expect(function);
        let place = finding.place.as_ref().expect("a place");
        let line = line.load(Ordering::Relaxed);
        assert_eq!((place.function.as_str(), place.line), (function, line), "{place:?}");
        assert!(place.file.ends_with("tests/live/native_waits_are_named_by_line.rs"), "{place:?}");
        assert!(finding.path.iter().any(|f| f == "price"), "{:?}", finding.path);
        // The lock, too: it lies in static memory.
        let target = finding.target().unwrap_or_default();
        let named = target.contains("STOCK in native_waits_are_named_by_line-");
        assert_eq!(named, cause == Cause::LockWait, "{target}");
    }
    // Every frame of a recursion, and none that an earlier one left behind.
    let stacks = capture.samples.values().flatten().filter(|s| s.stack != 0).map(|s| s.stack);
    let levels = |stack| {
        let frames = capture.frames(stack).filter(|f| f.function.ends_with("descend"));
        frames.count()
    };
    let deep: Vec<usize> = stacks.map(levels).filter(|levels| *levels > 0).collect();
    assert!(deep.len() >= 3 && deep.iter().all(|l| *l == LEVELS + 1), "{deep:?}");
    testkit::remove(&out);
}
