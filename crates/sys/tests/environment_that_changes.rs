//! The copy of the environment while the host changes it, without any lock.
#![allow(clippy::expect_used)]

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

extern "C" {
    static mut environ: *mut *mut libc::c_char;
}

fn text(of: &str) -> *mut libc::c_char {
    CString::new(of).expect("no zero byte").into_raw()
}

/// One test: there is one environment.
#[test]
fn what_is_gone_or_moves_meanwhile_does_not_end_the_process() {
    // A text that was freed meanwhile, with its page; behind it a long one and an odd one.
    let long = "v".repeat(10_000);
    let gone = 8 as *mut libc::c_char;
    let texts = ["FIRST=1", "=ODD=2", "NOTHING", "LAST=", &format!("LONG={long}")].map(text);
    let [first, rest @ ..] = texts;
    let mut table: Vec<_> = [first, gone].into_iter().chain(rest).collect();
    table.push(std::ptr::null_mut());
    let place = &raw mut environ;
    // SAFETY: no other thread runs, and a whole table is put back.
    let bare = unsafe { std::mem::replace(&mut *place, table.as_mut_ptr()) };
    sys::environment::copy();
    let seen = sys::environment::all();
    let added = sys::environment::add(&[(b"LAST".to_vec(), b"3".to_vec())]);
    // SAFETY: as above; `add` has made the table that is there now.
    let after = unsafe { std::mem::replace(&mut *place, bare) };
    let pair = |name: &str, value: &str| (name.into(), value.into());
    let wanted = [pair("FIRST", "1"), pair("=ODD", "2"), pair("LAST", ""), pair("LONG", &long)];
    assert_eq!(seen, wanted);
    // SAFETY: as many pointers as the table had, one of which was replaced.
    let after = unsafe { std::slice::from_raw_parts(after, table.len()) };
    let [.., long, last, null] = after else { panic!("too short") };
    assert!(added && after[..2] == table[..2] && long == &rest[3] && null.is_null());
    // SAFETY: a text that `add` made.
    assert_eq!(unsafe { std::ffi::CStr::from_ptr(*last) }, c"LAST=3");

    // A thread that lets the table grow and move, as code in C does.
    let (steady, ends) = ("DASHCAM_TEST_STEADY", AtomicBool::new(false));
    std::env::set_var(steady, "there");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let names: Vec<_> = (0..100).map(|n| text(&format!("DASHCAM_TEST_{n}"))).collect();
            while !ends.load(Ordering::Relaxed) {
                for name in &names {
                    // SAFETY: texts that are never freed; the C library locks its own changes.
                    unsafe { libc::setenv(*name, *name, 1) };
                }
                for name in &names {
                    // SAFETY: as above.
                    unsafe { libc::unsetenv(*name) };
                }
            }
        });
        for _ in 0..testkit::count("DASHCAM_ENVIRONMENTS", 10) {
            sys::environment::copy();
            let seen = sys::environment::text(steady);
            // None: it never paused for as long as a reading takes.
            assert!(seen.as_deref().is_none_or(|value| value == "there"), "{seen:?}");
        }
        ends.store(true, Ordering::Relaxed);
    });
}
