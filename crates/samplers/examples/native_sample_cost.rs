//! The cost of one sample of a native stack:
//! `cargo run --release -p dashcam-samplers --example native_sample_cost`.
#![allow(clippy::expect_used)]

use samplers::native_stacks::NativeStacks;
use sys::mem::Reader;
use sys::task::{TaskCall, TaskReader};

/// Calls itself, with something on the stack at every level.
#[inline(never)]
fn deep(levels: usize) -> u64 {
    let room = std::hint::black_box([levels as u64; 8]);
    if levels == 0 {
        std::thread::sleep(std::time::Duration::from_secs(600));
        return room[0];
    }
    deep(levels - 1) + room[levels % 8]
}

fn main() {
    let mem = Reader::new().expect("a process may read itself");
    let mut known = Vec::new();
    sys::task::list(&mut known).expect("procfs");
    for levels in [3, 30, 300] {
        std::thread::spawn(move || deep(levels));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut now = Vec::new();
        sys::task::list(&mut now).expect("procfs");
        let tid = *now.iter().find(|tid| !known.contains(tid)).expect("a new thread");
        known = now;
        let call = TaskReader::open(tid).and_then(|mut t| t.call()).expect("the call");
        let TaskCall::Syscall { sp, pc, .. } = call else { panic!("{call:?}") };
        let mut stacks = NativeStacks::new(1000).expect("x86-64");
        let mut frames = Vec::new();
        let begin = sys::clock::thread_cpu_ns();
        stacks.read(&mem, (sp, pc), sys::clock::now_ns(), &mut frames);
        let first = sys::clock::thread_cpu_ns() - begin;
        let begin = sys::clock::thread_cpu_ns();
        for _ in 0..10_000 {
            stacks.read(&mem, (sp, pc), sys::clock::now_ns(), &mut frames);
        }
        let each = (sys::clock::thread_cpu_ns() - begin) / 10_000;
        println!("{levels} calls: {} frames, first {first} ns, again {each} ns", frames.len());
    }
}
