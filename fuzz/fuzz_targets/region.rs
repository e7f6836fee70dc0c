//! A black box with any words changed: recovered, read, diagnosed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dashcam_fuzz::recover(data));
