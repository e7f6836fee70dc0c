//! A program that runs without stderr is given number 2 for what it opens next: no line of ours
//! goes there.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;

use sys::stderr;

/// Makes number 2 lead to what `file` does.
fn become_two(file: impl IntoRawFd) {
    let number = file.into_raw_fd();
    // SAFETY: only this child's descriptors.
    assert_eq!(unsafe { libc::dup2(number, 2) }, 2);
}

fn temporary(append: bool) -> (File, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("dashcam-two-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.create(true).append(append).write(true);
    (options.open(&path).expect("opens"), path)
}

#[test]
fn nothing_goes_to_a_file_or_a_socket_that_got_its_number() {
    let code = common::in_a_child(|| {
        // SAFETY: only this child's.
        unsafe { libc::close(2) };
        stderr::note();
        let (file, path) = temporary(false);
        become_two(file);
        stderr::line("ours");
        assert!(sys::ours::own_stderr().is_err());
        assert_eq!(std::fs::read(&path).expect("read"), b"");
        std::fs::remove_file(&path).expect("removed");
        let (here, mut there) = UnixStream::pair().expect("sockets are there");
        become_two(here);
        stderr::line("ours");
        there.set_nonblocking(true).expect("settable");
        assert!(there.read(&mut [0; 8]).is_err(), "nothing came");
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn lines_go_to_what_it_led_to_and_to_logs_it_is_sent_to_later() {
    let code = common::in_a_child(|| {
        let (here, mut there) = UnixStream::pair().expect("sockets are there");
        become_two(here);
        stderr::note();
        stderr::line("to the journal");
        let mut said = [0; 64];
        let length = there.read(&mut said).expect("came");
        assert_eq!(&said[..length], b"to the journal\n");
        let (log, path) = temporary(true);
        become_two(log);
        stderr::line("to the log");
        let copy = sys::ours::own_stderr().expect("a log");
        assert!(copy.as_raw_fd() > 2);
        assert_eq!(std::fs::read(&path).expect("read"), b"to the log\n");
        std::fs::remove_file(&path).expect("removed");
        0
    });
    assert_eq!(code, 0);
}
