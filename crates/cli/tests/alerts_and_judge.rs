//! `dashcam judge` and `dashcam alert`: what the recorder, people and receivers get of a capture.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::JoinHandle;

use common::{as_text, dashcam, Folder};
use serde_json::Value;

fn capture(folder: &Folder, file: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let found = golden::store::entries(&all, "cheroot_sleep").expect("the golden captures");
    let entry = found.into_iter().find(|entry| entry.name == "cheroot_sleep").expect("there");
    let path = folder.0.join(file);
    std::fs::write(&path, entry.capture().expect("unpacks")).expect("a file");
    path
}

/// A receiver that takes `count` requests with this status; their bodies.
fn receiver(count: usize, status: &'static str) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let take = move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = stream.read(&mut part).expect("readable");
            bytes.extend_from_slice(&part[..read]);
            let text = as_text(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.and_then(|l| l.parse().ok()).expect("a length");
            if body.len() == length {
                assert!(head.contains("Content-Type: application/json"), "{head}");
                assert!(!head.contains("protobuf"), "{head}");
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).expect("written");
                return serde_json::from_str(body).expect("JSON");
            }
        }
    };
    let thread = std::thread::spawn(move || (0..count).map(|_| take()).collect());
    (format!("http://{address}/services/SECRET"), thread)
}

fn alert(folder: &Folder, file: &Path, more: &[(&str, &str)], words: &[&str]) -> Output {
    let mut command = dashcam(&folder.0, &["alert"]);
    command.arg(file).args(words).envs(more.iter().copied());
    command.output().expect("dashcam runs")
}

#[test]
fn a_verdict_is_a_line_for_people_one_for_the_list_and_one_for_the_recorder() {
    let folder = Folder::new("judge");
    let log = folder.0.join("s.captures.log");
    let judge = |file: &Path| {
        let mut command = dashcam(&folder.0, &["judge", "--log"]);
        command.arg(&log).arg(file).output().expect("dashcam runs")
    };
    let line = "sleep at program.py:16 settle(): 98 % of the excess, confirmed, new";
    let first = judge(&capture(&folder, "1.dashcam"));
    assert_eq!(as_text(&first.stderr), format!("dashcam: 1.dashcam: {line}\n"));
    let fields = as_text(&first.stdout);
    let fields: Vec<&str> = fields.trim_end().split('\t').collect();
    assert_eq!(fields.len(), 8, "{fields:?}");
    let wanted = ["sleep", "program.py:16 settle()", "", "98", "confirmed"];
    assert_eq!((&fields[..5], fields[6], fields[7]), (&wanted[..], "new", line));
    assert!(!fields[5].is_empty());

    // The same capture again is no second time; another one with the same cause is.
    assert!(as_text(&judge(&folder.0.join("1.dashcam")).stdout).contains("\tnew\t"));
    assert!(as_text(&judge(&capture(&folder, "2.dashcam")).stdout).contains("\tbefore\t"));
    let text = std::fs::read_to_string(&log).expect("the list");
    let last: Vec<&str> = text.lines().last().expect("a line").split('\t').collect();
    assert_eq!(last.len(), 8, "{last:?}");
    assert!(last[1].ends_with("/2.dashcam") && last[2].starts_with("verdict: sleep at "));
    assert_eq!((last[6], last[7]), (fields[5], "before"));
}

#[test]
fn of_a_capture_without_requests_there_is_nothing_to_judge() {
    let folder = Folder::new("none");
    let mut command = dashcam(&folder.0, &["judge", "--log", "s.captures.log"]);
    let judged = command.arg(folder.capture()).output().expect("dashcam runs");
    let line = "dashcam: one.dashcam: nothing to judge: no requests\n";
    assert_eq!(as_text(&judged.stderr), line);
}

#[test]
fn each_receiver_has_a_cause_once_an_hour() {
    let folder = Folder::new("alert");
    let (file, (url, received)) = (capture(&folder, "1.dashcam"), receiver(2, "200 OK"));
    let environment = [
        ("DASHCAM_ALERT_SLACK", &*url),
        ("DASHCAM_ALERT_PAGERDUTY", "KEY"),
        ("DASHCAM_ALERT_PAGERDUTY_URL", &*url),
    ];
    let sent = alert(&folder, &file, &environment, &[]);
    assert_eq!((sent.status.code(), as_text(&sent.stderr)), (Some(0), String::new()));
    let bodies = received.join().expect("two requests");
    let slack = bodies[0]["text"].as_str().expect("text");
    assert!(slack.contains("sleep at program.py:16 settle(): 98 % of the excess"), "{slack}");
    assert!(slack.contains("dashcam why "), "{slack}");
    let event = &bodies[1];
    assert_eq!((&event["routing_key"], &event["event_action"]), (&"KEY".into(), &"trigger".into()));
    let details = &event["payload"]["custom_details"];
    let fingerprint = details["fingerprint"].as_str().expect("text");
    let dedup = event["dedup_key"].as_str().expect("text");
    assert!(!fingerprint.is_empty() && dedup.contains(&fingerprint.replace(':', "-")), "{event:#}");
    assert_eq!(event["payload"]["class"], "sleep");

    // Nobody listens any more: a second request would be an error.
    let again = alert(&folder, &file, &environment, &[]);
    assert_eq!(again.status.code(), Some(0), "{}", as_text(&again.stderr));
    assert_eq!(as_text(&again.stderr).matches("had this cause within the hour").count(), 2);
}

#[test]
fn an_alert_that_was_not_taken_is_sent_again_and_shows_no_secret() {
    let folder = Folder::new("refused");
    let file = capture(&folder, "1.dashcam");
    for status in ["500 Broken", "200 OK"] {
        let (url, received) = receiver(1, status);
        let sent = alert(&folder, &file, &[], &["--slack", &url]);
        assert_eq!(received.join().expect("a request").len(), 1);
        assert_eq!(sent.status.success(), status == "200 OK", "{}", as_text(&sent.stderr));
        assert!(!as_text(&sent.stderr).contains("SECRET"), "{}", as_text(&sent.stderr));
    }
}

#[test]
fn a_dry_run_prints_the_hooks_own_verdict_and_sends_nothing() {
    let folder = Folder::new("dry");
    // No capture: the verdict is the one that the hook was given.
    let file = folder.0.join("gone.dashcam");
    let path = file.display().to_string();
    let environment = [
        ("DASHCAM_FILE", &*path),
        ("DASHCAM_SERVICE", "billy"),
        ("DASHCAM_CAUSE", "lock-wait"),
        ("DASHCAM_FINGERPRINT", "f00"),
        ("DASHCAM_LINE", "lock-wait at a<b>.py:1 f(): 90 % of the excess, likely, new"),
    ];
    let words = ["--slack", "http://127.0.0.1:1/x", "--pagerduty", "K", "--dry-run"];
    let printed = alert(&folder, &file, &environment, &words);
    assert_eq!(printed.status.code(), Some(0), "{}", as_text(&printed.stderr));
    let text = as_text(&printed.stdout);
    assert!(
        text.contains("*billy* on ") && text.contains("lock-wait at a&lt;b&gt;.py:1"),
        "{text}"
    );
    assert!(text.contains(r#""dedup_key": "dashcam-billy-f00""#), "{text}");
    assert!(folder.files().is_empty(), "{:?}", folder.files());
    // Without a receiver both kinds are shown, and nothing is needed to try it.
    let both = alert(&folder, &file, &environment, &["--dry-run"]);
    let text = as_text(&both.stdout);
    assert_eq!(both.status.code(), Some(0), "{}", as_text(&both.stderr));
    assert!(text.starts_with("Slack\n{") && text.contains("\nPagerDuty\n{"), "{text}");
    let wrong = alert(&folder, &file, &environment, &["--slack", "hooks"]);
    let error = as_text(&wrong.stderr);
    assert!(wrong.status.code() == Some(2) && error.contains("hooks.slack.com"), "{error}");
    let none = alert(&folder, &file, &environment, &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(as_text(&none.stderr).contains("wanted --slack URL"), "{}", as_text(&none.stderr));
}
