//! Records from signal handlers, from inside records, from threads that end in unusual ways: all
//! are in the box or counted, and recording allocates nothing.
//!
//! One process records once, so everything is one test, step by step.
#![allow(clippy::expect_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use format::block::{unpack_pair, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{decode, Record};
use format::region::{losses, thread, THREAD_WORDS};
use recorder::{Limit, Recorder};
use ring::{BlockCopy, Region};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator; the counter is a plain thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

/// Records in the box, by name: how many, and from how many rows of the thread table.
fn in_the_box(region: &Region, name: u32) -> (u64, usize) {
    let (mut count, mut owners) = (0, std::collections::HashSet::new());
    let mut buffer = BlockCopy::default();
    let copied = region.copy_blocks(0, &mut buffer, |block| {
        let words = block.words();
        let (mut owner, mut seq) = (unpack_pair(words[OWNER]), words[FIRST_SEQ]);
        let mut at = HEADER_WORDS;
        while at < words.len() {
            let (len, record) = decode(&words[at..]).expect("whole records");
            at += len;
            match record {
                Record::Thread { tid, serial, seq: first } => {
                    (owner, seq) = ((tid, serial), first);
                    continue;
                }
                Record::Event { name: n, .. } | Record::Span { name: n, .. } if n == name => {
                    count += 1;
                    owners.insert(owner);
                }
                _ => (),
            }
            seq += 1;
        }
        let _ = seq;
        Ok::<(), ()>(())
    });
    copied.expect("the reader does not fail");
    (count, owners.len())
}

fn written(region: &Region) -> (u64, u64) {
    let (rows, [past, past_dropped]) = region.copy_threads();
    let sum = |index: usize| rows.chunks_exact(THREAD_WORDS).map(|r| r[index]).sum::<u64>();
    let halves: u64 = rows.chunks_exact(THREAD_WORDS).map(|r| r[thread::PROGRESS] / 2).sum();
    (halves + past, sum(thread::DROPPED) + past_dropped)
}

static SIGNAL_NAME: AtomicU64 = AtomicU64::new(0);
static FROM_SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    let calls = FROM_SIGNALS.fetch_add(1, Ordering::Relaxed);
    let before = ALLOCATIONS.get();
    recorder::event(SIGNAL_NAME.load(Ordering::Relaxed) as u32, calls, &[]);
    assert_eq!(ALLOCATIONS.get(), before, "a record from a signal handler allocates nothing");
}

/// Signals to one thread, each sent when the one before was handled, up to a number.
struct Burst(std::thread::JoinHandle<()>);

impl Burst {
    /// Sends to the calling thread, and to that alone: the kernel gives most signals of a timer,
    /// which go to any thread, to the process's first thread, which only waits for its tests.
    fn begin(signals: u64) -> Burst {
        // SAFETY: a handler that only records, installed by plain calls.
        let target = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
            libc::pthread_self()
        };
        Burst(std::thread::spawn(move || {
            for sent in 0..signals {
                // SAFETY: the thread lives: it waits for this one at its end.
                unsafe { libc::pthread_kill(target, libc::SIGALRM) };
                while FROM_SIGNALS.load(Ordering::Relaxed) == sent {
                    std::thread::yield_now();
                }
            }
        }))
    }
}

/// The threads that ended by the raw exit system call.
static ENDED: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());

extern "C" fn ends_inside(name: *mut c_void) -> *mut c_void {
    if let Ok(mut ended) = ENDED.lock() {
        ended.push(sys::thread::tid());
    }
    recorder::event(name as usize as u32, 0, &[]);
    // SAFETY: no Rust frame above needs unwinding: this is the thread's first function.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    std::ptr::null_mut()
}

fn raw_thread(body: extern "C" fn(*mut c_void) -> *mut c_void, argument: u32) -> libc::pthread_t {
    let mut id = 0;
    // SAFETY: default attributes, a function of the right type, an argument it understands.
    let made = unsafe {
        libc::pthread_create(&mut id, std::ptr::null(), body, argument as usize as *mut c_void)
    };
    assert_eq!(made, 0);
    id
}

/// 50 threads record and end by the raw exit system call.
fn threads_end_unseen(region: &Region, odd: u32) {
    let ids: Vec<_> = (0..50).map(|_| raw_thread(ends_inside, odd)).collect();
    for id in ids {
        // SAFETY: a thread of this test that nobody else joins.
        assert_eq!(unsafe { libc::pthread_join(id, std::ptr::null_mut()) }, 0);
    }
    assert_eq!(in_the_box(region, odd).0, 50);
    // The kernel wakes the joining thread a moment before it takes the dead one off its list.
    let ended = ENDED.lock().expect("no panic").clone();
    assert_eq!(ended.len(), 50);
    while ended.iter().any(|tid| sys::thread::exists(*tid)) {
        std::thread::yield_now();
    }
    let blocks = region.layout().block_count;
    let back: usize = (0..blocks).step_by(32).map(|from| region.take_back(from, 32)).sum();
    assert!(back >= 1, "blocks of the dead came back");
}

/// Records that surely fit into the box together with the signals that interrupt them.
const MOST: u64 = 1_000_000;
const SIGNALS: u64 = 1000;

#[test]
fn records_from_signal_handlers() {
    let region = Region::in_process(128 << 20, std::process::id(), "test").expect("memory");
    let recorder = Recorder::new(region, Box::new(|_| Limit { ns: u64::MAX, group: 0 }));
    let region = recorder.region();
    let name = |text: &str| recorder.tables().name(text);
    recorder::install(recorder);

    // 1. The first record of a thread allocates nothing, nor do later ones.
    let (plain, span) = (name("plain"), name("span"));
    let fresh = std::thread::spawn(move || {
        allocations(|| {
            for i in 0..5000 {
                recorder::event(plain, i, &[]);
                recorder::span(span, 1, i, false, &[]);
            }
        })
    });
    assert_eq!(fresh.join().expect("no panic"), 0, "allocations of 10,000 records");
    assert_eq!(in_the_box(region, plain), (5000, 1));

    // 2. Signals interrupt a thread that records all the time.
    let (signal, busy) = (name("from a signal"), name("interrupted"));
    SIGNAL_NAME.store(u64::from(signal), Ordering::Relaxed);
    let mut many = 0u64;
    let burst = Burst::begin(SIGNALS);
    let mut signals = 0;
    while signals < SIGNALS {
        // So many until the next signal is there: if signals come late, the records do not fill the
        // box.
        let most = (signals + 1) * (MOST / SIGNALS);
        if many < most {
            recorder::event(busy, many, &[]);
            many += 1;
        }
        signals = FROM_SIGNALS.load(Ordering::Relaxed);
    }
    burst.0.join().expect("no panic");
    let overwritten = region.overwritten();
    assert_eq!(overwritten, 0, "the box is large enough for this test ({many} records)");
    assert_eq!(in_the_box(region, busy).0, many);
    assert_eq!(in_the_box(region, signal).0, signals);
    assert_eq!(region.losses()[losses::DROPPED_REENTRANT], 0);

    // 3. Threads that end by the raw exit system call are noticed later: their rows stay, their
    //    blocks come back when they are in the way. ThreadSanitizer does not see such an end, so
    //    its `pthread_join` waits for ever.
    let odd = name("odd end");
    if !cfg!(tsan) {
        threads_end_unseen(region, odd);
    }

    // 4. A record as the very last thing a thread does, from a thread-local's destructor.
    struct Late(u32);
    impl Drop for Late {
        fn drop(&mut self) {
            recorder::event(self.0, 0, &[]);
        }
    }
    thread_local! {
        static LATE: Cell<Option<Late>> = const { Cell::new(None) };
    }
    let late = name("late");
    for _ in 0..20 {
        std::thread::spawn(move || LATE.set(Some(Late(late)))).join().expect("no panic");
    }
    assert_eq!(in_the_box(region, late).0, 20);

    // The account: what the thread table counts as written is read, dropped or overwritten.
    let (total, dropped) = written(region);
    let seen: u64 =
        [plain, span, busy, signal, odd, late].iter().map(|n| in_the_box(region, *n).0).sum();
    let overwritten = region.overwritten();
    assert_eq!(total, seen + overwritten + dropped);
}
