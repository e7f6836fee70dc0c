//! The control socket answers whole requests of its own user, and survives every other client.
#![allow(clippy::expect_used, missing_docs)]

use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dashcam-control-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::DirBuilder::new().mode(0o700).create(&path).expect("temp dir is writable");
    path
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a number");
    stream
}

fn rest(mut stream: UnixStream) -> String {
    let mut answer = Vec::new();
    // Closed with our bytes unread, the connection ends with a reset behind the answer.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("JSON is text")
}

fn ask(path: &Path, request: &[u8]) -> String {
    let mut stream = connect(path);
    let _ = stream.write_all(request);
    rest(stream)
}

fn loss(status: &str) -> u64 {
    let (_, after) = status.split_once("\"control_refused\":").expect("a counter");
    after.split([',', '}']).next().and_then(|n| n.parse().ok()).expect("a number")
}

/// One test: there is one recorder a process.
#[test]
fn it_answers_whole_requests_and_survives_the_rest() {
    let (runtime, out) = (folder("run"), folder("out"));
    std::env::set_var("XDG_RUNTIME_DIR", &runtime);
    let config = || {
        let config = dashcam::Config::new().service("controlled").memory("4MiB");
        config.slow("10s").out(out.display())
    };
    dashcam::start(config()).expect("starts");
    let path = runtime.join(format!("dashcam/{}.sock", std::process::id()));
    let mode = std::fs::metadata(runtime.join("dashcam")).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    drop(dashcam::request!("GET /checkout"));
    let row = ask(&path, b"ps\n");
    assert!(row.starts_with(r#"{"ok":true,"pid":"#) && row.ends_with("}\n"), "{row}");
    assert!(row.contains(r#""service":"controlled","on":true"#), "{row}");
    assert!(row.contains(r#""requests":1,"slow":0,"captures":0"#), "{row}");
    // In parts, with a pause between them. If this thread has no CPU for the two seconds that a
    // client may take, the client is refused, and another one tries.
    let mut late = 0;
    let status = testkit::wait_for("an answer to a slow client", || {
        let mut slow = connect(&path);
        let is_sent = [b"sta".as_slice(), b"tus", b"\nignored"].iter().all(|part| {
            std::thread::sleep(Duration::from_millis(30));
            slow.write_all(part).is_ok()
        });
        let answer = rest(slow);
        let is_answered = is_sent && !answer.is_empty();
        late += u64::from(!is_answered);
        is_answered.then_some(answer)
    });
    assert!(status.contains(r#""control":"on""#) && loss(&status) == late, "{status}");

    // A capture, with a reason that is made harmless.
    let saved = ask(&path, b"snap\tlooked \x1b[31modd\n");
    let file = saved.split('"').nth(5).expect("a path");
    assert!(saved.starts_with(r#"{"ok":true,"path":""#) && Path::new(file).exists(), "{saved}");
    let capture = capture::read::Capture::open(Path::new(file)).expect("a capture");
    assert_eq!(capture.meta.reason, "looked  [31modd");

    malformed(&path);
    crowd(&path);
    changed(&path);

    // Silent clients have been counted, and their places are free again.
    let refused = loss(&ask(&path, b"status\n"));
    dashcam::stop();
    assert!(refused >= 7, "{refused}");
    assert!(!path.exists(), "removed");

    refused_folder(&runtime);
    testkit::remove(&runtime);
    testkit::remove(&out);
}

fn malformed(path: &Path) {
    for bad in [b"\n".as_slice(), b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\n", b"set\tout=/\n"] {
        let answer = ask(path, bad);
        assert!(answer.starts_with(r#"{"ok":false,"error":""#), "{answer}");
    }
    let huge = ask(path, &vec![b'x'; 1 << 20]);
    assert!(huge.contains("found a request of over 4096 bytes"), "{huge}");
    // Gone before the end of its request, and before its answer.
    connect(path).write_all(b"stat").expect("listens");
    for _ in 0..20 {
        connect(path).write_all(b"status\n").expect("listens");
    }
    assert!(ask(path, b"ps\n").starts_with(r#"{"ok":true"#));
}

/// Clients that say nothing hold all places until their time is up; the next one is refused with
/// that reason.
fn crowd(path: &Path) {
    // They are taken one after another. If the time of the first is up before the last has come,
    // all go, which the socket sees before it takes others.
    let silent = testkit::wait_for("a crowd", || {
        let silent: Vec<UnixStream> = (0..8).map(|_| connect(path)).collect();
        ask(path, b"ps\n").contains("found 8 clients already").then_some(silent)
    });
    for stream in silent {
        assert_eq!(rest(stream), "", "closed without an answer");
    }
    assert!(ask(path, b"ps\n").starts_with(r#"{"ok":true"#));
}

fn changed(path: &Path) {
    let set = |text: &str| ask(path, format!("set\t{text}\n").as_bytes());
    let answer = set("slow=check*>1ms, 9s\tbudget_percent=2\trate_hz=50");
    assert!(answer.contains(r#""slow":"check*>1ms, 9s""#), "{answer}");
    assert!(answer.contains(r#""period_ns":20000000,"budget_percent":2"#), "{answer}");
    // All or none.
    let answer = set("slow=7s\trate_hz=0");
    assert!(answer.contains(r#"rate_hz: found \"0\", wanted"#), "{answer}");
    assert!(ask(path, b"status\n").contains(r#""slow":"check*>1ms, 9s""#));
    // A name known before is judged by the new rule.
    assert!(set("slow=checkout>1ms").starts_with(r#"{"ok":true"#));
    {
        let _request = dashcam::request!("GET /checkout");
        std::thread::sleep(Duration::from_millis(5));
    }
    let row = ask(path, b"ps\n");
    assert!(row.contains(r#""requests":2,"slow":1"#), "{row}");
    // Off: nothing is recorded, a capture can be made all the same; and on again.
    assert!(set("enabled=off").contains(r#""enabled":false"#));
    assert!(!dashcam::is_on());
    drop(dashcam::request!("GET /checkout"));
    assert!(ask(path, b"ps\n").contains(r#""on":false,"#));
    assert!(ask(path, b"snap\n").starts_with(r#"{"ok":true"#));
    assert!(set("enabled=on").starts_with(r#"{"ok":true"#));
    drop(dashcam::request!("GET /checkout"));
    let row = ask(path, b"ps\n");
    assert!(row.contains(r#""requests":3,"#), "{row}");
}

/// A folder that others may enter, or a link: everything else works, and the state says why.
fn refused_folder(runtime: &Path) {
    std::fs::set_permissions(runtime.join("dashcam"), std::fs::Permissions::from_mode(0o755))
        .expect("ours");
    dashcam::start(dashcam::Config::new().slow("10s")).expect("starts");
    let status = dashcam::status_json();
    dashcam::stop();
    assert!(status.contains(r#""on":true"#), "{status}");
    assert!(
        status.contains("found a folder of user") && status.contains("with mode 755"),
        "{status}"
    );
}
