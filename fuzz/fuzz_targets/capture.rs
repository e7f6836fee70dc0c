//! Any bytes as a capture: unchanged, and as chunks with right checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    dashcam_fuzz::read(data);
    dashcam_fuzz::read(&dashcam_fuzz::chunks(data));
});
