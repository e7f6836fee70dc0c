//! Wakeups: of a followed thread, what ended each of its waits is recorded; where the kernel
//! forbids that, the refusal says what would help.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;
use sys::perf::{Switch, SwitchKind, SwitchStream, Waker, Wakings};
use sys::thread;

/// A stream and the tracepoint; prints why if the test cannot run here.
fn ready() -> Option<(SwitchStream, Wakings)> {
    let stream = crate::common::stream_or_skip(&[])?;
    match Wakings::find() {
        Ok(wakings) => Some((stream, wakings)),
        Err(refused) => {
            let known = ["mount tracefs", "CAP_PERFMON", "--pid=host", "no such tracepoint"];
            let text = refused.to_string();
            assert!(known.iter().any(|words| text.contains(words)), "a remedy: {text}");
            crate::common::skipped(&text);
            None
        }
    }
}

/// A thread that waits for what `sender` sends, and sends its id.
fn waiter() -> (u32, mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let waits = std::thread::spawn(move || {
        say.send(thread::tid()).expect("the test listens");
        while receiver.recv().is_ok() {}
    });
    (said.recv().expect("it sends its id"), sender, waits)
}

/// All switches of `tid` until `enough` is true.
fn until(
    stream: &mut SwitchStream,
    tid: u32,
    mut act: impl FnMut(),
    enough: impl Fn(&[Switch]) -> bool,
) -> Vec<Switch> {
    let mut all: Vec<Switch> = Vec::new();
    crate::common::wait_for("enough wakings", || {
        act();
        std::thread::sleep(Duration::from_millis(2));
        stream.drain(|s| all.extend((s.tid == tid).then_some(s)));
        enough(&all).then_some(())
    });
    all
}

fn wakers(all: &[Switch]) -> Vec<Waker> {
    let by = |s: &Switch| match s.kind {
        SwitchKind::Woken { by } => Some(by),
        _ => None,
    };
    all.iter().filter_map(by).collect()
}

#[test]
fn a_waker_thread_has_its_tid() {
    let Some((mut stream, mut wakings)) = ready() else { return };
    let (tid, sender, waits) = waiter();
    stream.follow(&mut wakings, &[tid]).expect("it was found a moment ago");
    assert!(stream.follows());
    let me = thread::tid();
    let send = || sender.send(()).expect("it waits");
    let all = until(&mut stream, tid, send, |all| wakers(all).len() >= 5);
    assert!(wakers(&all).iter().all(|by| *by == Waker::Thread(me)), "{all:?}");
    // Out, woken, in: the waking lies inside of the time off the CPU.
    let inside = all.windows(3).filter(|w| {
        let [out, woken, back] = w else { return false };
        out.kind == SwitchKind::Out
            && matches!(woken.kind, SwitchKind::Woken { .. })
            && back.kind == SwitchKind::In
            && out.t_ns <= woken.t_ns
            && woken.t_ns <= back.t_ns
    });
    assert!(inside.count() >= 3, "{all:?}");
    drop(sender);
    waits.join().expect("it only waits");
}

#[test]
fn wakeups_by_timers_are_the_kernels() {
    let Some((mut stream, mut wakings)) = ready() else { return };
    let (say, said) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let naps = std::thread::spawn(move || {
        say.send(thread::tid()).expect("the test listens");
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let tid = said.recv().expect("it sends its id");
    stream.follow(&mut wakings, &[tid]).expect("it was found a moment ago");
    let all = until(&mut stream, tid, || (), |all| wakers(all).len() >= 5);
    assert!(wakers(&all).iter().all(|by| *by == Waker::Kernel), "{all:?}");
    drop(stop);
    naps.join().expect("it only sleeps");
}

#[test]
fn a_waker_of_another_process_has_its_pid() {
    let Some((mut stream, mut wakings)) = ready() else { return };
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [read, write] = ends;
    let (say, said) = mpsc::channel();
    let reads = std::thread::spawn(move || {
        say.send(thread::tid()).expect("the test listens");
        let mut byte = [0u8; 1];
        // SAFETY: one byte of room; ends at the end of the pipe.
        while unsafe { libc::read(read, byte.as_mut_ptr().cast(), 1) } == 1 {}
    });
    let tid = said.recv().expect("it sends its id");
    stream.follow(&mut wakings, &[tid]).expect("it was found a moment ago");
    let child = crate::common::in_a_child(|| {
        // SAFETY: the descriptor is inherited and has no other owner.
        let mut pipe = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(write) };
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(2));
            let _ = pipe.write_all(b"x");
        }
        0
    });
    assert_eq!(child, 0);
    let all = until(&mut stream, tid, || (), |all| wakers(all).len() >= 5);
    let own = std::process::id();
    let other = |by: &Waker| matches!(by, Waker::Process(pid) if *pid != own);
    assert!(wakers(&all).iter().filter(|by| other(by)).count() >= 5, "{all:?}");
    // SAFETY: the test's own end of the pipe.
    unsafe { libc::close(write) };
    reads.join().expect("it ends with the pipe");
}

#[test]
fn the_list_of_followed_threads_can_change() {
    let Some((mut stream, mut wakings)) = ready() else { return };
    let (first, first_sender, first_waits) = waiter();
    let (second, second_sender, second_waits) = waiter();
    let before = stream.descriptors();
    let seen_of = |stream: &mut SwitchStream| {
        let mut seen = Vec::new();
        for _ in 0..20 {
            let _ = (first_sender.send(()), second_sender.send(()));
            std::thread::sleep(Duration::from_millis(2));
        }
        stream.drain(|s| {
            seen.extend(matches!(s.kind, SwitchKind::Woken { .. }).then_some(s.tid));
        });
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(seen_of(&mut stream), [], "nobody is followed yet");
    stream.follow(&mut wakings, &[first]).expect("it was found");
    let one = stream.descriptors();
    assert_eq!(one, before + stream.cpus());
    assert_eq!(seen_of(&mut stream), [first]);
    stream.follow(&mut wakings, &[second, first]).expect("a longer list");
    let mut both = [first, second];
    both.sort_unstable();
    assert_eq!(seen_of(&mut stream), both);
    assert_eq!(stream.descriptors(), one, "the events before are closed");
    let many: Vec<u32> = (0..40).map(|i| if i == 0 { second } else { 1 << 21 | i }).collect();
    stream.follow(&mut wakings, &many).expect("what is too much is left out");
    assert_eq!(seen_of(&mut stream), [second]);
    stream.follow(&mut wakings, &[]).expect("none");
    assert!(!stream.follows());
    assert_eq!(seen_of(&mut stream), []);
    assert_eq!(stream.descriptors(), before);
    drop((first_sender, second_sender));
    for waits in [first_waits, second_waits] {
        waits.join().expect("it only waits");
    }
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
