//! A live stream is a readable capture, cut off or not, and a sink that takes nothing harms nobody.
#![allow(clippy::expect_used, missing_docs)]

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use capture::read::Capture;
use dashcam::{Runtime, Stream, StreamConfig};

fn folder() -> PathBuf {
    let path = std::env::temp_dir().join(format!("dashcam-streams-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("temp dir is writable");
    path
}

/// One recorder a process; the tests take turns.
fn started() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let out = folder().display().to_string();
    let given = [("service", "streams"), ("memory", "4MiB"), ("out", out.as_str())];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    dashcam::start_with_runtime(&given, Runtime::default()).expect("starts");
    turn
}

fn name(text: &str) -> u32 {
    dashcam::current().expect("recording").tables().name(text)
}

#[test]
fn a_stream_holds_what_was_asked_for_and_reports_its_losses() {
    let _turn = started();
    let path = folder().join("spans.dashcam");
    let config = StreamConfig::to(&path.display().to_string())
        .set("kinds", "span")
        .and_then(|c| c.set("names", "db.*"))
        .and_then(|c| c.set("min_duration", "1ms"))
        .expect("right settings");
    let stream = Stream::open(&config).expect("opens");
    let (db, web) = (name("db.query"), name("web.page"));
    let now = dashcam::now_ns();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                for i in 0..1000 {
                    dashcam::span(db, now - 2_000_000, i, false, &[]);
                    dashcam::span(db, dashcam::now_ns(), i, false, &[]);
                    dashcam::span(web, now - 2_000_000, i, false, &[]);
                    dashcam::event(db, i, &[]);
                }
            });
        }
    });
    let status = dashcam::status_json();
    // Streams of other tests may be there too, one whose reader never reads among them.
    assert!(status.contains("\"filtered\":") && status.contains("spans.dashcam\""), "{status}");
    let counts = stream.close().expect("a file takes everything");
    assert_eq!((counts.queue.offered, counts.queue.read, counts.queue.dropped), (3000, 3000, 0));
    let capture = Capture::open(&path).expect("a capture");
    assert_eq!(capture.damage, Vec::<String>::new());
    assert_eq!((capture.spans.len(), capture.events.len()), (3000, 0));
    assert!(capture.spans.iter().all(|s| capture.name(s.name) == "db.query"));
    assert_eq!(capture.meta.all["session"]["read"], 3000);
    assert_eq!(capture.coverage.iter().map(|c| c.read).sum::<u64>(), 3000);
    let again = Stream::open(&config).err().expect("the file is there already");
    assert!(again.contains("spans.dashcam: cannot stream there"), "{again}");
}

#[test]
fn a_stream_that_is_cut_off_can_be_read_up_to_there() {
    let _turn = started();
    let path = folder().join("cut.dashcam");
    let stream = Stream::open(&StreamConfig::to(&path.display().to_string())).expect("opens");
    let id = name("early");
    (0..500).for_each(|i| dashcam::event(id, i, &[]));
    let deadline = Instant::now() + Duration::from_secs(10);
    let events = || Capture::open(&path).map_or(0, |capture| capture.events.len());
    // Read while it is being written: as after a kill.
    while events() < 500 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let capture = Capture::open(&path).expect("a capture");
    assert_eq!(capture.events.iter().filter(|e| capture.name(e.name) == "early").count(), 500);
    assert!(capture.damage.iter().any(|d| d.contains("no end mark")), "{:?}", capture.damage);
    stream.close().expect("a file takes everything");
}

/// A reader of a stream knows its end by the end of the connection; a child that was forked
/// meanwhile and lives on must not keep that open.
#[test]
fn a_forked_child_does_not_keep_a_stream_open() {
    let _turn = started();
    let path = folder().join("with a child");
    let listener = UnixListener::bind(&path).expect("binds");
    let config = StreamConfig::to(&format!("unix:{}", path.display()));
    let stream = Stream::open(&config).expect("connects");
    let (mut reader, _) = listener.accept().expect("the stream");
    let child = testkit::start_child(|| {
        std::thread::sleep(Duration::from_secs(100));
        0
    });
    stream.close().expect("a socket takes everything");
    reader.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let (mut bytes, mut all) = (vec![0; 1 << 20], 0);
    let ended = loop {
        match reader.read(&mut bytes) {
            Ok(0) => break true,
            Ok(more) => all += more,
            Err(_) => break false,
        }
    };
    // SAFETY: our child, not waited for yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert_eq!(testkit::wait_for_child(child), -libc::SIGKILL, "it lived on");
    assert!(ended && all > 0, "{all} bytes, and no end");
}

/// The kernel reports a thread's system call only while the thread waits in it.
fn is_stuck_in_write(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this process");
    let call = format!("{} ", libc::SYS_write);
    tasks.filter_map(Result::ok).map(|task| task.path()).any(|task| {
        let text = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        text("comm").trim() == name && text("syscall").starts_with(&call)
    })
}

#[test]
fn a_reader_that_never_reads_fills_its_own_queue_only() {
    let _turn = started();
    let path = folder().join("socket");
    let listener = UnixListener::bind(&path).expect("binds");
    let config = StreamConfig::to(&format!("unix:{}", path.display()))
        .set("kinds", "event")
        .and_then(|c| c.set("memory", "64KiB"))
        .expect("right settings");
    let stream = Stream::open(&config).expect("connects");
    let id = name("flood");
    let mut sent = 0;
    testkit::until("a write that hangs, and a full queue", || {
        (0..1000).for_each(|i| dashcam::event(id, i, &[]));
        sent += 1000;
        is_stuck_in_write("dashcam-stream") && stream.counts().queue.dropped > 0
    });
    assert_eq!(stream.counts().queue.offered, sent);
    let refused = stream.close().expect_err("nobody reads");
    assert!(refused.contains("takes nothing"), "{refused}");
    drop(listener);
}

#[test]
fn a_sink_that_breaks_ends_the_stream_with_its_reason() {
    let _turn = started();
    let path = folder().join("closing");
    // Of a run that was killed, whose process had the same number.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("binds");
    let stream = Stream::open(&StreamConfig::to(&format!("unix:{}", path.display())));
    let stream = stream.expect("connects");
    drop(listener.accept().expect("connected"));
    let id = name("into the void");
    let deadline = Instant::now() + Duration::from_secs(20);
    while stream.error().is_none() && Instant::now() < deadline {
        (0..1000).for_each(|i| dashcam::event(id, i, &[]));
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = stream.error().expect("told");
    assert!(error.contains("closing: the stream ended"), "{error}");
}

#[test]
fn wrong_settings_name_what_is_wanted() {
    let config = || StreamConfig::to("x");
    for (name, value, wanted) in [
        ("kinds", "span,spam", "found \"span,spam\", wanted some of request, span"),
        ("on_full", "wait", "wanted drop-newest, overwrite-oldest or block:TIME"),
        ("memory", "1KiB", "8KiB to 1GiB"),
        ("min_duration", "soon", "min_duration"),
        ("colour", "red", "stream setting: found \"colour\""),
    ] {
        let error = config().set(name, value).expect_err("refused");
        assert!(error.contains(wanted), "{error}");
    }
}
