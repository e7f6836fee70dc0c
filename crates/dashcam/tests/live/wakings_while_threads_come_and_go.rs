//! Threads come and go, and with them the threads whose wakeups and stacks are asked for. Each long
//! wait of a followed thread has its wakeup, once or twice, in order, inside of that wait; and each
//! stack belongs to one wakeup.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::{Duration, Instant};

use capture::read::{Capture, OffCpu};
use format::wake::Waker;

const HELD: Duration = Duration::from_millis(250);
const SERVERS: usize = 3;

static LOCKS: [Mutex<u32>; SERVERS] = [Mutex::new(0), Mutex::new(0), Mutex::new(0)];
static TURNS: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn hold_and_let_go(lock: &Mutex<u32>, taken: &mpsc::Sender<()>) {
    let mut guard = lock.lock().expect("nobody panics");
    taken.send(()).expect("the server waits");
    std::thread::sleep(HELD);
    *guard += 1;
    drop(guard);
    TURNS.fetch_add(1, Ordering::Relaxed);
}

/// One request in a few waits for a lock whose holder lives for that alone.
fn serve(lock: &'static Mutex<u32>, until: Instant) -> u32 {
    while Instant::now() < until {
        for _ in 0..20 {
            let _request = dashcam::request!("churn");
            TURNS.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::scope(|scope| {
            let (say, said) = mpsc::channel();
            scope.spawn(move || hold_and_let_go(lock, &say));
            said.recv().expect("it has the lock");
            let _request = dashcam::request!("churn");
            *lock.lock().expect("nobody panics") += 1;
        });
    }
    sys::thread::tid()
}

fn come_and_go(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let few: Vec<_> = (0..3).map(|_| std::thread::spawn(sys::thread::tid)).collect();
        few.into_iter().for_each(|one| drop(one.join()));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn long(off: &&OffCpu) -> bool {
    off.in_ns - off.out_ns > HELD.as_nanos() as u64 / 2
}

#[test]
fn wakings_while_threads_come_and_go() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("churn-{}", std::process::id()));
    let settings = dashcam::Config::new().service("churn").slow("10s").window("20s");
    dashcam::start(settings.out(out.display())).expect("settings");
    std::thread::sleep(Duration::from_millis(200));
    let stop = Arc::new(AtomicBool::new(false));
    let churn = std::thread::spawn({
        let stop = stop.clone();
        move || come_and_go(&stop)
    });
    let until = Instant::now() + Duration::from_secs(5);
    let servers = LOCKS.each_ref().map(|lock| std::thread::spawn(move || serve(lock, until)));
    let tids = servers.map(|server| server.join().expect("it only waits"));
    stop.store(true, Ordering::Relaxed);
    churn.join().expect("it only starts threads");
    std::thread::sleep(Duration::from_millis(200));
    let path = dashcam::snap("test").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    testkit::remove(&out);
    let state = capture.meta.sources.iter().find(|(name, _)| name == "wakers");
    let state = state.expect("the source is told").1.clone();
    if state != "on" {
        let known = ["off: ", "on; without their stacks: "];
        assert!(known.iter().any(|k| state.starts_with(k)), "{state}");
        let _ = writeln!(std::io::stderr(), "SKIPPED wakings while threads come and go: {state}");
        return;
    }
    for rows in capture.wakes.values() {
        assert!(rows.windows(2).all(|two| two[0].t_ns < two[1].t_ns), "by time, none told again");
    }
    for (tid, t_ns) in capture.waker_stacks.keys() {
        let rows = &capture.wakes[tid];
        assert!(rows.iter().any(|wake| wake.t_ns == *t_ns), "a stack of no waking");
    }
    // Not those before they were asked for, nor any beside a gap in the switch records.
    let (mut waits, mut with_stack) = (0, 0);
    for tid in tids {
        let rows = capture.wakes.get(&tid).map_or(&[][..], Vec::as_slice);
        let first_ns = rows.first().map_or(u64::MAX, |wake| wake.t_ns);
        let all = capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
        let reported = |off: &&OffCpu| off.out_ns > first_ns && off.in_ns < capture.meta.to_ns;
        for off in all.iter().filter(long).filter(reported) {
            if !capture.has_switches(off.out_ns, off.in_ns) {
                continue;
            }
            let inside =
                rows.iter().filter(|wake| (off.out_ns..=off.in_ns).contains(&wake.t_ns)).count();
            assert!((1..=2).contains(&inside), "{inside} wakings of {tid} in one wait");
            let wake = capture.wake_in(tid, off).expect("counted");
            assert!(matches!(wake.by, Waker::Thread(_)), "{wake:?}");
            waits += 1;
            with_stack += u32::from(capture.waker_stack_in(tid, off) != 0);
        }
    }
    println!("{waits} waits, {with_stack} with a stack");
    assert!(waits >= 15, "{waits} waits");
    // Those of threads that were in no list yet are missing, and what found no room.
    assert!(with_stack * 2 >= waits, "{with_stack} stacks of {waits} waits");
    symbols::name_native(&mut capture);
    let lets_go = |stack: &u32| {
        capture.frames(*stack).any(|frame| frame.function.ends_with("::hold_and_let_go"))
    };
    let named = capture.waker_stacks.values().filter(|stack| lets_go(stack)).count();
    assert!(
        named * 4 >= capture.waker_stacks.len() * 3,
        "{named} of {}",
        capture.waker_stacks.len()
    );
}
