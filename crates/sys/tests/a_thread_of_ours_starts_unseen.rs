//! Starting a thread of ours leaves no trace in the program's descriptors, and survives forks.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use sys::thread::{comm, spawn_quiet};

/// A program of the kernel's filter: kills the process that opens a file by its path.
fn kill_at_an_open_file() -> bool {
    let load_number = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = |value| row(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    fn row(code: u32, if_true: u8, if_false: u8, value: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k: value }
    }
    // The call's number is the first word of what the filter sees.
    let mut rows = vec![
        row(load_number, 0, 0, 0),
        row(is_equal, 0, 1, libc::SYS_openat as u32),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
    ];
    #[cfg(target_arch = "x86_64")]
    rows.extend([
        row(is_equal, 0, 1, libc::SYS_open as u32),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
    ]);
    rows.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: rows.len() as u16, filter: rows.as_mut_ptr() };
    // SAFETY: only the calling process gives up privileges; the kernel copies the filter.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// A code of exit that no assertion has.
const NO_FILTERS: i32 = 77;

#[test]
fn no_file_is_opened_in_the_table_of_the_program() {
    let code = common::in_a_child(|| {
        if !kill_at_an_open_file() {
            return NO_FILTERS;
        }
        let all_named = (0..20).all(|_| {
            static IS_NAMED: AtomicBool = AtomicBool::new(false);
            let named = || IS_NAMED.store(&comm() == b"dashcam-unseen\0\0", Ordering::Relaxed);
            spawn_quiet("dashcam-unseen", named).map(|thread| thread.join()).is_ok()
                && IS_NAMED.swap(false, Ordering::Relaxed)
        });
        i32::from(!all_named)
    });
    if code == NO_FILTERS {
        return common::skipped("the kernel has no filters of system calls");
    }
    assert_eq!(code, 0, "SIGSYS: a file was opened");
}

#[test]
fn a_child_of_a_fork_while_another_thread_starts_threads_starts_its_own() {
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    let starts = || {
        while !ENOUGH.load(Ordering::Relaxed) {
            spawn_quiet("dashcam-many", || ()).expect("starts").join();
        }
    };
    let other = std::thread::spawn(starts);
    let codes: Vec<i32> = (0..50)
        .map(|_| {
            common::in_a_child(|| i32::from(spawn_quiet("own", || ()).map(|t| t.join()).is_err()))
        })
        .collect();
    ENOUGH.store(true, Ordering::Relaxed);
    other.join().expect("ends");
    assert_eq!(codes, [0; 50]);
}
