//! `dashcam mcp`: a transcript of messages and answers, and what its tools may not do.
//!
//! `mcp_transcript.txt` has messages (`>`) and the answers (`<`) that they must have; of a tool's
//! text it has the first line. After a change
//! that is meant: `DASHCAM_WRITE_TRANSCRIPT=1 cargo test -p dashcam-cli`.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use common::{dashcam, Folder};
use serde_json::{json, Value};

const TRANSCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_transcript.txt");

fn capture(folder: &Folder, golden: &str, file: &str) {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let found = golden::store::entries(&all, golden).expect("the golden captures");
    let entry = found.into_iter().find(|entry| entry.name == golden).expect("there");
    let path = folder.0.join(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, entry.capture().expect("unpacks")).expect("a file");
}

struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(folder: &Folder, words: &[&str]) -> Server {
        let mut words = words.to_vec();
        words.insert(0, "mcp");
        let mut command = dashcam(&folder.0, &words);
        // No recorded process of this machine is seen.
        command.env("XDG_RUNTIME_DIR", &folder.0).env("TMPDIR", &folder.0);
        command.env("PATH", "");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("dashcam starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Server { child, stdin, stdout: BufReader::new(stdout) }
    }

    fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").expect("it reads");
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("one line of JSON")
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> (bool, String) {
        let parameters = json!({"name": tool, "arguments": arguments});
        let message =
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": parameters});
        self.send(&message.to_string());
        let answer = self.answer();
        let text = answer["result"]["content"][0]["text"].as_str().expect("text").to_owned();
        (answer["result"]["isError"] == true, text)
    }

    /// Exits once its input ends.
    fn end(mut self) {
        self.stdin = None;
        assert_eq!(self.child.wait().expect("ours").code(), Some(0));
    }
}

#[test]
fn messages_have_the_answers_of_the_transcript() {
    let folder = Folder::new("mcp-transcript");
    capture(&folder, "cpu_loop-healthy", "captures/before.dashcam");
    capture(&folder, "cpu_loop", "captures/now.dashcam");
    let real = folder.0.canonicalize().expect("there").display().to_string();
    let mut server = Server::start(&folder, &[]);
    let transcript = std::fs::read_to_string(TRANSCRIPT).expect("the transcript");
    let mut written = String::new();
    for line in transcript.lines().filter(|line| !line.starts_with("< ")) {
        written += &format!("{line}\n");
        let Some(message) = line.strip_prefix("> ") else { continue };
        server.send(message);
        // Others have no answer: the next one is that of the next message.
        if !message.starts_with(r#"{"jsonrpc":"2.0","method""#) {
            let mut answer = server.answer();
            if let Some(info) = answer.pointer_mut("/result/serverInfo/version") {
                assert_eq!(*info, env!("CARGO_PKG_VERSION"));
                *info = "VERSION".into();
            }
            if let Some(text) = answer.pointer_mut("/result/content/0/text") {
                // Words of verdicts have their own tests.
                let first = text.as_str().and_then(|text| text.lines().next()).unwrap_or_default();
                *text = first.replace(&real, "FOLDER").into();
            }
            written += &format!("< {answer}\n");
        }
    }
    server.end();
    if std::env::var_os("DASHCAM_WRITE_TRANSCRIPT").is_some() {
        std::fs::write(TRANSCRIPT, &written).expect("written");
    }
    for (found, wanted) in written.lines().zip(transcript.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(written.lines().count(), transcript.lines().count());
}

#[test]
fn captures_of_all_folders_are_listed_and_no_other_path_is_read() {
    let folder = Folder::new("mcp-folders");
    capture(&folder, "cpu_loop", "one/a.dashcam");
    capture(&folder, "lock_chain", "two/b.dashcam");
    capture(&folder, "lock_chain", "three/c.dashcam");
    let mut server = Server::start(&folder, &["one", "two"]);
    let (is_error, text) = server.call("list_captures", &json!({}));
    assert!(!is_error && text.contains(" a.dashcam") && text.contains(" b.dashcam"), "{text}");
    assert!(!text.contains("c.dashcam"), "{text}");
    let (is_error, text) = server.call("why", &json!({"capture": "b.dashcam"}));
    assert!(!is_error && text.contains("\n1. lock-wait: "), "{text}");
    let outside = folder.0.join("three/c.dashcam").display().to_string();
    for path in ["three/c.dashcam", "../three/c.dashcam", &outside, "/", "--explain"] {
        for tool in ["why", "explain", "show", "show_request"] {
            let (is_error, text) = server.call(tool, &json!({"capture": path}));
            assert!(is_error && text.contains("no capture of that name"), "{tool} {path}: {text}");
        }
    }
    server.end();
}

#[test]
fn what_a_tool_cannot_do_is_an_error_that_the_agent_reads() {
    let folder = Folder::new("mcp-errors");
    let mut server = Server::start(&folder, &[]);
    let (is_error, text) = server.call("list_captures", &json!({}));
    assert!(is_error && text.contains("no such folder: captures"), "{text}");
    let (is_error, text) = server.call("status", &json!({"process": "--json"}));
    assert!(is_error && text.contains("no process of this user is recorded as"), "{text}");
    let (is_error, text) = server.call("dump", &json!({"process": 4_294_967_295_u32}));
    assert!(is_error && text.contains("4294967295: "), "{text}");
    // Captures may come later.
    capture(&folder, "cpu_loop", "captures/a.dashcam");
    let (is_error, text) = server.call("why", &json!({"capture": "a.dashcam", "slow": "quick"}));
    assert!(is_error && text.contains("quick"), "{text}");
    let (is_error, text) = server.call("why", &json!({"capture": "a.dashcam"}));
    assert!(!is_error && text.contains("\n1. cpu: "), "{text}");
    server.end();
}

#[test]
fn a_long_answer_is_cut() {
    let folder = Folder::new("mcp-long");
    capture(&folder, "cpu_loop", "captures/a.dashcam");
    let mut server = Server::start(&folder, &[]);
    let all = json!({"capture": "a.dashcam", "all": true});
    let (is_error, text) = server.call("show_request", &all);
    assert!(!is_error && text.len() < 110_000 && text.chars().count() < 24_200);
    assert!(text.contains("[left out: "), "{}", text.len());
    server.end();
}
