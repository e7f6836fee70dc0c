//! `explain`: each capture is judged by a command outside the service; its verdict is in `status`
//! and reaches the hook. The command here is a script: what it is given, and what is made of it.
#![allow(clippy::expect_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testkit::wait_for;

/// Of the test, and of its boxes.
struct Folder(PathBuf, PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("dashcam-explain-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        // Tests beside this one judge captures, too.
        let boxes = PathBuf::from(format!("/dev/shm/dashcam-explain-{}", std::process::id()));
        fs::create_dir_all(&boxes).expect("a folder");
        std::env::set_var("DASHCAM_SHM", &boxes);
        Folder(path, boxes)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_dir_all(&self.1);
    }
}

/// Writes to a file in one step: a reader finds all of it.
const HOOK: &str = r#"{ echo "$DASHCAM_CAUSE|$DASHCAM_PLACE|$DASHCAM_HOLDER|$DASHCAM_SHARE"
echo "$DASHCAM_CONFIDENCE|$DASHCAM_FINGERPRINT|$DASHCAM_SEEN|$DASHCAM_REASON|$DASHCAM_SERVICE"
echo "$DASHCAM_FILE|$1"; cat; } > "$1.hooked.new"; mv "$1.hooked.new" "$1.hooked"
"#;

/// Judges captures, and notes how it was called. Of a capture that is named `silent` it says
/// nothing.
const COMMAND: &str = r#"here=$(dirname "$0")
case "$(cat "$here/mode")" in silent) exit 1;; esac
echo "$DASHCAM_ENABLED $1 $2 $3 $4" > "$here/called"
while [ "$(cat "$here/mode")" = wait ]; do sleep 0.02; done
printf 'lock-wait\ta.py:1 f()\tb.py:2 g()\t90\tlikely\tf00d\tnew\tlock-wait at a.py:1 f()\n'
"#;

fn hooked(path: &Path) -> String {
    let file = PathBuf::from(format!("{}.hooked", path.display()));
    wait_for("the hook's file", || fs::read_to_string(&file).ok())
}

fn has_no_child() -> bool {
    let mut status = 0;
    // SAFETY: `status` is ours.
    let found = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    found < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
}

/// The file of the turn, beside the box.
fn turn_of(status: &str) -> PathBuf {
    let place = status.split(r#""box":""#).nth(1).and_then(|rest| rest.split('"').next());
    Path::new(place.expect("a box in a file")).with_file_name("judging")
}

/// One test: there is one recorder a process.
#[test]
fn a_verdict_reaches_status_and_hook_and_a_missing_one_only_costs_the_verdict() {
    let folder = Folder::new();
    fs::write(folder.0.join("mode"), "judge").expect("a file");
    let (hook, command) = (folder.script("hook", HOOK), folder.script("command", COMMAND));
    std::env::set_var("DASHCAM_COMMAND", &command);
    let config = || {
        let config = dashcam::Config::new().service("judged").memory("4MiB");
        let config = config.out(folder.0.display()).hook(hook.display());
        config.at_exit("never").control("off").post("1ms")
    };
    dashcam::start(config()).expect("starts");

    let first = dashcam::snap("first").expect("written");
    let name = first.display();
    let text = hooked(&first);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "lock-wait|a.py:1 f()|b.py:2 g()|90");
    assert_eq!(lines[1], "likely|f00d|new|first|judged");
    assert_eq!(lines[2], format!("{name}|{name}"));
    assert!(lines[3].starts_with(&format!(r#"{{"file":"{name}","reason":"first""#)), "{text}");
    let log = folder.0.join("judged.captures.log");
    let called = format!("off judge --log {} {name}\n", log.display());
    assert_eq!(folder.read("called"), Some(called));
    let status = dashcam::status_json();
    assert!(status.contains(r#""verdicts":{"on":true,"refused":"","missing":0,"#), "{status}");
    assert!(status.contains(r#""fingerprint":"f00d","seen":"new""#), "{status}");
    wait_for("no child of the hook either", || has_no_child().then_some(()));

    fs::write(folder.0.join("mode"), "silent").expect("ours");
    let silent = dashcam::snap("silent").expect("written");
    assert!(hooked(&silent).starts_with("|||\n|||silent|judged\n"), "{}", hooked(&silent));
    assert!(dashcam::status_json().contains(r#""missing":1,"#));

    // Another process judges: the capture waits, and the command keeps its turn while it runs.
    fs::write(folder.0.join("mode"), "judge").expect("ours");
    fs::remove_file(folder.0.join("called")).expect("it was called");
    let turn = turn_of(&dashcam::status_json());
    let other = sys::turn::take(&turn).expect("a file").expect("nobody judges");
    let later = dashcam::snap("later").expect("written");
    // A second one: `dashcam-capture` has come by since the first was written.
    let latest = dashcam::snap("latest").expect("written");
    assert_eq!(folder.read("called"), None, "it is not judged yet");
    fs::write(folder.0.join("mode"), "wait").expect("ours");
    drop(other);
    wait_for("the command", || folder.read("called"));
    assert!(sys::turn::take(&turn).expect("a file").is_none(), "the command has the turn");
    fs::write(folder.0.join("mode"), "judge").expect("ours");
    for judged in [&later, &latest] {
        assert!(hooked(judged).starts_with("lock-wait|"), "{}", hooked(judged));
    }

    // Off: no command is started at all.
    fs::remove_file(folder.0.join("called")).expect("it was called");
    dashcam::stop();
    dashcam::start(config().explain("off")).expect("starts again");
    let off = dashcam::snap("off").expect("written");
    assert!(hooked(&off).starts_with("|||\n"), "{}", hooked(&off));
    assert_eq!(folder.read("called"), None);
    assert!(dashcam::status_json().contains(r#""verdicts":{"on":false,"#));
    dashcam::stop();
}
