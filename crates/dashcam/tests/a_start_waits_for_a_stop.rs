//! A recording that is started while another thread still stops the last one goes on.
#![allow(clippy::expect_used, missing_docs)]

use dashcam::{start, status_json, stop, Config};
use testkit::{until, Folder};

fn begin(folder: &Folder) -> bool {
    let config = Config::new().memory("1MiB").out(folder.path().display()).control(false);
    start(config).expect("starts")
}

#[test]
fn the_end_of_a_stop_does_not_turn_the_next_recording_off() {
    let folder = Folder::new("start-stop");
    for _ in 0..5 {
        assert!(begin(&folder));
        std::thread::scope(|scope| {
            let stopping = scope.spawn(stop);
            // Its parts are taken back at once; then it waits for the threads.
            until("the stop to begin", || !dashcam::is_started());
            assert!(begin(&folder));
            stopping.join().expect("stops");
        });
        assert!(status_json().contains("\"on\":true"), "{}", status_json());
        stop();
        assert!(status_json().contains("\"on\":false"));
    }
}
