//! Where no thread can be started (RLIMIT_NPROC, the cgroup's pids.max), the service runs on,
//! records, and says at once what is missing.
#![allow(clippy::expect_used, missing_docs)]

use std::ffi::{c_int, c_void};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use dashcam::Runtime;

static REFUSE: AtomicBool = AtomicBool::new(false);

type Create = unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *mut c_void) -> c_int;

/// In the place of the C library's: as the kernel answers at a limit.
///
/// # Safety
/// As the C library's.
#[no_mangle]
pub unsafe extern "C" fn pthread_create(
    id: *mut c_void,
    attributes: *const c_void,
    body: *const c_void,
    given: *mut c_void,
) -> c_int {
    if REFUSE.load(Ordering::SeqCst) {
        return libc::EAGAIN;
    }
    // SAFETY: the next function of this name is the C library's, of this type.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        std::mem::transmute::<*mut c_void, Create>(next)(id, attributes, body, given)
    }
}

/// Runs as a child of its own, since the recorder is the process's.
#[test]
fn refused() {
    if std::env::var_os("DASHCAM_TEST_REFUSED").is_none() {
        return;
    }
    REFUSE.store(true, Ordering::SeqCst);
    let out = std::env::temp_dir().join(format!("dashcam-refused-{}", std::process::id()));
    let out = out.display().to_string();
    let given = [("memory", "8MiB"), ("out", out.as_str())];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    assert!(dashcam::start_with_runtime(&given, Runtime::default()).expect("starts all the same"));
    let name = dashcam::current().expect("recording").tables().name("here");
    (0..1000).for_each(|i| dashcam::event(name, i, &[]));
    // At once: it would be written by one of the threads.
    println!("snap: {}", dashcam::snap("test").expect_err("nobody writes it"));
    println!("{}", dashcam::status_json());
    dashcam::before_exit();
    dashcam::stop();
}

#[test]
fn nothing_waits_for_threads_that_cannot_be_started_and_all_is_said() {
    let out = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", "refused", "--nocapture", "--test-threads", "1"])
        .env("DASHCAM_TEST_REFUSED", "1")
        .output()
        .expect("starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (text, said) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{text}{said}");
    let why = "no more threads may be started: the limit of the user's (RLIMIT_NPROC), of the \
               cgroup (pids.max) or of the machine is reached";
    let names = "dashcam-sampler, dashcam-capture, dashcam-control";
    let line =
        format!("dashcam: without {names}: {why}; what they do is missing, the program runs on\n");
    assert_eq!(said, line);
    assert!(text.contains(&format!("snap: without dashcam-capture: {why}\n")), "{text}");
    for name in
        ["control", "dashcam-sampler", "dashcam-capture", "dashcam-control", "own_descriptors"]
    {
        assert!(text.contains(&format!("\"{name}\":\"off: {why}\"")), "{name}: {text}");
    }
    assert!(text.contains("\"captures_failed\":1,"), "{text}");
}
