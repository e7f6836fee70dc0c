//! Stacks of wakers: of a thread of this process that wakes a followed one, its stack at that
//! instant is recorded, with the function that it was in. Of other processes nothing is recorded;
//! and in any case the wakeups themselves are recorded as before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use sys::perf::{Switch, SwitchKind, SwitchStream, Take, Waker, WakerStacks, Wakings, Woke};
use sys::task::{TaskCall, TaskReader};
use sys::thread;

/// The kernel reads the clock for each of the two records of a waking; a hypervisor may come
/// between.
const TOGETHER_NS: u64 = 5_000_000;

fn ready() -> Option<(SwitchStream, Wakings, WakerStacks)> {
    let stream = crate::common::stream_or_skip(&[])?;
    let Some(stacks) = WakerStacks::new() else {
        crate::common::skipped("the registers of this architecture are not known");
        return None;
    };
    match Wakings::find() {
        Ok(wakings) => Some((stream, wakings, stacks)),
        Err(refused) => {
            crate::common::skipped(&refused.to_string());
            None
        }
    }
}

static DONE: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn rings(waiter: &Thread) {
    waiter.unpark();
    DONE.fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn knocks(waiter: &Thread) {
    waiter.unpark();
    DONE.fetch_sub(1, Ordering::Relaxed);
}

/// A thread that waits in a futex whenever it is woken again. One wakeup ends one wait: a channel
/// has a lock besides, for which it may wait once more.
struct Waiter {
    tid: u32,
    stop: Arc<AtomicBool>,
    body: JoinHandle<()>,
}

impl Waiter {
    fn start() -> Waiter {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (say, said) = mpsc::channel();
        let body = std::thread::spawn(move || {
            say.send(thread::tid()).expect("the test listens");
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park();
            }
        });
        Waiter { tid: said.recv().expect("it sends its id"), stop, body }
    }

    fn thread(&self) -> &Thread {
        self.body.thread()
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.body.thread().unpark();
        self.body.join().expect("it only waits");
    }
}

/// Drains until `tid` waits.
fn waits(stream: &mut SwitchStream, tid: u32, each: &mut impl FnMut(Switch)) {
    let mut reader = TaskReader::open(tid).expect("it lives");
    crate::common::wait_for("the thread waits", || {
        stream.drain(&mut *each);
        matches!(reader.call(), Ok(TaskCall::Syscall { .. })).then_some(())
    });
}

fn words(stack: &[u8]) -> impl Iterator<Item = usize> + '_ {
    stack.chunks_exact(8).map(|b| b.try_into().map(usize::from_le_bytes).unwrap_or_default())
}

/// A thread that calls `wakes` at each message; its id.
fn waker(wakes: fn(&Thread), waiter: Thread) -> (u32, mpsc::Sender<()>, JoinHandle<()>) {
    let (go, goes) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let body = std::thread::spawn(move || {
        say.send(thread::tid()).expect("the test listens");
        while goes.recv().is_ok() {
            wakes(&waiter);
        }
    });
    (said.recv().expect("it sends its id"), go, body)
}

#[test]
fn the_stack_of_a_waker_leads_into_its_function() {
    let Some((mut stream, mut wakings, mut stacks)) = ready() else { return };
    let waiter = Waiter::start();
    let tid = waiter.tid;
    // Each on a stack of its own, that has nothing of the other.
    let functions = [rings as fn(&Thread), knocks];
    let wakers = functions.map(|function| waker(function, waiter.thread().clone()));
    stream.follow(&mut wakings, &[tid]).expect("it was found a moment ago");
    let ids = [wakers[0].0, wakers[1].0];
    stacks.follow(&wakings, &[tid], &ids).expect("as the wakings themselves");
    let mut stack = Vec::new();
    for turn in 0..20 {
        let (function, (by, go, _)) = (functions[turn % 2], &wakers[turn % 2]);
        let mut reported = Vec::new();
        waits(&mut stream, tid, &mut |_| ());
        go.send(()).expect("it listens");
        let woke = crate::common::wait_for("a stack", || stacks.next(&mut stack, |_| Take::This));
        crate::common::wait_for("the waking itself", || {
            stream.drain(|s| {
                reported
                    .extend(matches!(s.kind, SwitchKind::Woken { .. }).then_some((s.tid, s.t_ns)));
            });
            (!reported.is_empty()).then_some(())
        });
        assert_eq!((woke.tid, woke.by), (tid, *by));
        let near = |t_ns: u64| t_ns.abs_diff(woke.seen.t_ns) < TOGETHER_NS;
        assert!(
            reported.iter().all(|(to, t_ns)| *to == tid && near(*t_ns)),
            "{reported:?} {woke:?}"
        );
        // The return address behind the call of `unpark`.
        let begins = |word: usize| {
            let before = functions.iter().map(|f| *f as usize).filter(|begin| *begin < word);
            before.max().filter(|begin| word - begin < 200)
        };
        let found: Vec<usize> = words(&stack).filter_map(begins).collect();
        // The innermost: further up may be leftovers of earlier calls.
        let own = found.first() == Some(&(function as usize));
        assert!(own, "turn {turn}: {found:x?} of {} bytes", stack.len());
        assert!(woke.seen.sp % 8 == 0 && woke.seen.pc != 0);
    }
    assert_eq!((stacks.lost(), stacks.garbled(), stacks.foreign()), (0, 0, 0));
    for (_, go, body) in wakers {
        drop(go);
        body.join().expect("it only wakes");
    }
    waiter.end();
}

#[test]
fn only_listed_wakers_are_copied_and_none_in_an_interrupt() {
    let Some((_stream, wakings, mut stacks)) = ready() else { return };
    let waiter = Waiter::start();
    let tid = waiter.tid;
    let naps = std::thread::spawn(|| {
        (0..100).for_each(|_| std::thread::sleep(Duration::from_micros(200)));
        thread::tid()
    });
    stacks.follow(&wakings, &[tid], &[1 << 21]).expect("as the wakings themselves");
    assert!(stacks.descriptors() > 0);
    let mut stack = Vec::new();
    for _ in 0..20 {
        rings(waiter.thread());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(stacks.next(&mut stack, |_| Take::This), None);
    // All waits of this thread are ended by timers, whichever thread they interrupt.
    let napping = naps.join().expect("it only sleeps");
    let me = thread::tid();
    stacks.follow(&wakings, &[me, napping], &[me, tid, napping]).expect("another list");
    for _ in 0..100 {
        std::thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(stacks.next(&mut stack, |_| Take::This), None);
    stacks.follow(&wakings, &[tid], &[]).expect("none");
    assert_eq!(stacks.descriptors(), 0);
    waiter.end();
}

#[test]
fn another_processes_stack_is_not_copied_and_if_it_were_not_read() {
    let Some((_stream, wakings, mut stacks)) = ready() else { return };
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
    let mut stack = Vec::new();
    let mut child = |stacks: &mut WakerStacks, listed: bool| {
        let parent = thread::tid();
        stacks.follow(&wakings, &[tid], &[parent]).expect("as the wakings themselves");
        let mut gate = [0; 2];
        // SAFETY: `gate` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(gate.as_mut_ptr()) }, 0);
        let mut own = std::process::Command::new("sh");
        // SAFETY: duplicates one descriptor onto another in the child.
        unsafe {
            use std::os::unix::process::CommandExt;
            own.pre_exec(move || {
                libc::dup2(write, 7);
                libc::dup2(gate[0], 8);
                Ok(())
            });
        }
        let script = "read go <&8; for i in 1 2 3 4 5 6 7 8; do echo -n x >&7; sleep 0.005; done";
        let mut child = own.args(["-c", script]).spawn().expect("a shell");
        if listed {
            // As if its id had been a thread's of ours.
            stacks.follow(&wakings, &[tid], &[child.id()]).expect("a list");
        }
        // SAFETY: an open pipe of the test's, one word.
        assert_eq!(unsafe { libc::write(gate[1], b"\n".as_ptr().cast(), 1) }, 1);
        assert!(child.wait().expect("it ends").success());
        // SAFETY: the test's own pipe.
        gate.iter().for_each(|end| unsafe {
            libc::close(*end);
        });
        stacks.next(&mut stack, |_| Take::This)
    };
    assert_eq!(child(&mut stacks, false), None);
    assert_eq!(stacks.foreign(), 0, "nothing of it was copied");
    assert_eq!(child(&mut stacks, true), None);
    assert!(stacks.foreign() > 0);
    // SAFETY: the test's own end of the pipe.
    unsafe { libc::close(write) };
    reads.join().expect("it ends with the pipe");
}

#[test]
fn a_full_ring_loses_stacks_and_no_wakings() {
    let Some((mut stream, mut wakings, mut stacks)) = ready() else { return };
    let waiter = Waiter::start();
    let tid = waiter.tid;
    let me = thread::tid();
    stream.follow(&mut wakings, &[tid]).expect("it was found a moment ago");
    stacks.follow(&wakings, &[tid], &[me]).expect("as the wakings themselves");
    let mut reported = 0;
    let mut count = |s: Switch| {
        reported +=
            u32::from(s.kind == SwitchKind::Woken { by: Waker::Thread(me) } && s.tid == tid);
    };
    for _ in 0..60 {
        waits(&mut stream, tid, &mut count);
        rings(waiter.thread());
    }
    waits(&mut stream, tid, &mut count);
    // On a busy machine it may have lost its CPU on the way into its wait: then it needs no waker.
    assert!(reported >= 30, "{reported}");
    assert_eq!(stream.lost(), 0);
    let mut stack = Vec::new();
    let mut read = || std::iter::from_fn(|| stacks.next(&mut stack, |_| Take::This)).count();
    let kept = read();
    assert!((7..reported as usize).contains(&kept), "{kept} of {reported}");
    // The next record that fits has the number that did not.
    for _ in 0..4 * stream.cpus() {
        waits(&mut stream, tid, &mut |_| ());
        rings(waiter.thread());
    }
    waits(&mut stream, tid, &mut |_| ());
    let more = read();
    assert!(more > 0 && stacks.lost() > 0, "{more}, {}", stacks.lost());
    waiter.end();
}

/// Threads come and go, and the lists of followed threads and of wakers change all the while. No
/// wakeup of the thread that stays followed is missing, and each stack is of a wakeup that was
/// recorded.
#[test]
fn lists_that_change_lose_no_waking_and_no_stack_is_of_another() {
    let Some((mut stream, mut wakings, mut stacks)) = ready() else { return };
    let waiter = Waiter::start();
    let tid = waiter.tid;
    let stop = Arc::new(AtomicBool::new(false));
    let wakes = std::thread::spawn({
        let (stop, waiter) = (stop.clone(), waiter.thread().clone());
        move || {
            let mut turns = 0u32;
            while !stop.load(Ordering::Relaxed) {
                rings(&waiter);
                turns += 1;
                std::thread::sleep(Duration::from_micros(300));
            }
            (thread::tid(), turns)
        }
    });
    let short = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                let all: Vec<_> = (0..4).map(|_| std::thread::spawn(thread::tid)).collect();
                all.into_iter().for_each(|one| drop(one.join()));
            }
        }
    });
    let mut alive = Vec::new();
    let (mut of_tid, mut woken, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    let mut stack = Vec::new();
    let mut refused = 0;
    for round in 0..200 {
        sys::task::list(&mut alive).expect("/proc is there");
        let others = alive.iter().copied().filter(|one| *one != tid).take(round % 9);
        let list: Vec<u32> = std::iter::once(tid).chain(others).collect();
        stream.follow(&mut wakings, &list).expect("it was found a moment ago");
        let wakers = if round % 11 == 10 { &[][..] } else { &alive };
        refused += u32::from(stacks.follow(&wakings, &list, wakers).is_err());
        std::thread::sleep(Duration::from_millis(1));
        stream.drain(|s| match s.kind {
            SwitchKind::Woken { by: Waker::Thread(by) } => {
                woken.push((s.tid, by, s.t_ns));
                of_tid.extend((s.tid == tid).then_some(s));
            }
            _ => of_tid.extend((s.tid == tid).then_some(s)),
        });
        while let Some(Woke { tid, by, seen: at }) = stacks.next(&mut stack, |_| Take::This) {
            seen.push((tid, by, at.t_ns));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (waker, turns) = wakes.join().expect("it only wakes");
    short.join().expect("it only starts threads");
    stream.drain(|s| {
        if let SwitchKind::Woken { by: Waker::Thread(by) } = s.kind {
            woken.push((s.tid, by, s.t_ns));
        }
    });
    assert!(turns > 100 && refused == 0, "{turns} turns, {refused} lists refused");
    assert_eq!(stream.lost(), 0);
    assert!(of_tid.windows(2).all(|two| two[0].t_ns <= two[1].t_ns), "by time");
    // From one time on a CPU to the next. A waking may come between the decision to wait and the
    // switch.
    let is_in = |s: &Switch| s.kind == SwitchKind::In;
    let (mut waited, mut strays) = (0, 0);
    for run in of_tid.split(is_in).filter(|run| run.iter().any(|s| s.kind == SwitchKind::Out)) {
        let by = |s: &&Switch| s.kind == SwitchKind::Woken { by: Waker::Thread(waker) };
        let times: Vec<u64> = run.iter().filter(by).map(|s| s.t_ns).collect();
        // Before the first list it was not followed; the last wait goes on; and some are for one of
        // the kernel's own locks (threads are born and die beside it), which others end, not all of
        // them by a waking.
        let last = run.last() == of_tid.last();
        strays += u32::from(times.is_empty() && waited != 0 && !last);
        assert!(times.len() <= 2 && times.iter().all(|t| t - times[0] < TOGETHER_NS), "{times:?}");
        waited += 1;
    }
    assert!(waited > 100 && strays * 50 <= waited, "{waited} waits, {strays} ended by nobody");
    let mut at: HashMap<(u32, u32), Vec<u64>> = HashMap::new();
    woken.iter().for_each(|(tid, by, t_ns)| at.entry((*tid, *by)).or_default().push(*t_ns));
    let known = |(tid, by, t_ns): &&(u32, u32, u64)| {
        let reported = at.get(&(*tid, *by)).map_or(&[][..], Vec::as_slice);
        reported.iter().any(|reported| reported.abs_diff(*t_ns) < TOGETHER_NS)
    };
    // Others may have left the one list, and not yet the other.
    let own = |one: &&(u32, u32, u64)| one.0 == tid;
    let strange: Vec<_> = seen.iter().filter(own).filter(|one| !known(one)).collect();
    assert!(
        seen.len() > 50 && strange.is_empty(),
        "{} stacks, not reported: {strange:?}",
        seen.len()
    );
    assert_eq!((stacks.garbled(), stacks.foreign()), (0, 0));
    waiter.end();
}

#[test]
fn a_forked_child_gets_no_stacks_and_changes_nothing() {
    let Some((_stream, wakings, mut stacks)) = ready() else { return };
    let waiter = Waiter::start();
    let tid = waiter.tid;
    stacks.follow(&wakings, &[tid], &[thread::tid()]).expect("as the wakings themselves");
    let mut stack = Vec::new();
    let code = crate::common::in_a_child(|| {
        let none = stacks.next(&mut stack, |_| Take::This).is_none();
        i32::from(!none)
    });
    assert_eq!(code, 0);
    let woke = crate::common::wait_for("a stack", || {
        rings(waiter.thread());
        std::thread::sleep(Duration::from_millis(1));
        stacks.next(&mut stack, |_| Take::This)
    });
    assert_eq!(woke.tid, tid);
    waiter.end();
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
