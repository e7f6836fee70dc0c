//! A thread's CPU clock does not move while the thread has no CPU, and grows when it has one.

use std::sync::mpsc;
use std::time::Duration;
use sys::calls::{self, WaitKind};
use sys::task::{cpu_ns, TaskReader};
use sys::{mem, thread};

#[test]
fn the_clock_grows_only_while_the_thread_runs() {
    let (sender, receiver) = mpsc::channel();
    let (wake, woken) = mpsc::channel::<()>();
    let waits = std::thread::spawn(move || {
        sender.send(thread::tid()).expect("the test listens");
        woken.iter().for_each(|()| ());
    });
    let tid = receiver.recv().expect("it sends its id");
    let mut reader = TaskReader::open(tid).expect("it lives");
    let mem = mem::Reader::new().expect("a process may read itself");
    let mut blocked = || {
        crate::common::wait_for("the wait", || {
            let call = reader.call().expect("it lives");
            (calls::meaning(&call, &mem).kind == WaitKind::Futex).then_some(())
        });
    };
    let mut before = 0;
    for _ in 0..20 {
        // It may have been read on the way into the wait: two equal readings show that it waits.
        blocked();
        let stopped = crate::common::wait_for("a clock that stands", || {
            let first = cpu_ns(tid).expect("it lives");
            std::thread::sleep(Duration::from_millis(2));
            (cpu_ns(tid) == Some(first)).then_some(first)
        });
        assert!(stopped > before, "{stopped} ns, {before} ns before it was woken");
        before = stopped;
        wake.send(()).expect("it listens");
        crate::common::wait_for("it to run", || cpu_ns(tid).filter(|ns| *ns > before));
    }
    let times = TaskReader::open(tid).and_then(|mut reader| reader.schedstat());
    assert!(times.is_ok_and(|times| times.run_ns >= before), "the kernel's file has the same time");
    drop(wake);
    waits.join().expect("it ends");
    crate::common::wait_for("its end to show", || cpu_ns(tid).is_none().then_some(()));
}

#[test]
fn another_process_has_none() {
    assert!(cpu_ns(std::os::unix::process::parent_id()).is_none());
    for odd in [0, 0x7fff_fff0, u32::MAX, 1 << 29] {
        assert!(cpu_ns(odd).is_none(), "{odd}");
    }
    assert!(cpu_ns(thread::tid()).is_some_and(|ns| ns > 0));
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
