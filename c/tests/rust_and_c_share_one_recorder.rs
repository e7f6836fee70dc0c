//! A Rust program with C in it that links this crate: both record into one black box, and C's spans
//! belong to Rust's request.
#![allow(clippy::expect_used, missing_docs)]

extern crate dashcam_c as _;

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use capture::read::Capture;

extern "C" {
    fn dashcam_start(settings: *const c_void, count: usize) -> c_int;
    fn dashcam_name(name: *const c_char) -> u32;
    fn dashcam_event(name: u32, attributes: *const c_void, count: usize) -> c_int;
}

#[test]
fn one_recorder_serves_both() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("both");
    let config = dashcam::Config::new().memory("4MiB").out(out.display());
    assert!(dashcam::start(config).expect("starts"));
    let request = dashcam::request!("of Rust");
    // SAFETY: the functions accept NULL with a count of 0, and a text ended by NUL.
    unsafe {
        assert_eq!(dashcam_start(std::ptr::null(), 0), 1, "it is on already");
        let name = dashcam_name(c"of C".as_ptr());
        assert_eq!(dashcam_event(name, std::ptr::null(), 0), 0);
    }
    let id = request.id();
    drop(request);
    let capture = Capture::open(&dashcam::snap("test").expect("written")).expect("readable");
    let event = &capture.events[0];
    assert_eq!((capture.name(event.name), event.request), ("of C", id));
    testkit::remove(&out);
}
