//! Wrong input and lost output are reported: the value found, the value wanted, the remedy; the
//! exit code says which it is.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use common::{as_text, dashcam, Folder};

/// Exit code, stdout, stderr.
fn run(folder: &Folder, words: &[&str]) -> (i32, String, String) {
    let out: Output = dashcam(&folder.0, words).output().expect("dashcam runs");
    (out.status.code().expect("it ended by itself"), as_text(&out.stdout), as_text(&out.stderr))
}

#[test]
fn a_cut_capture_without_requests_is_unreadable_and_an_empty_one_is_healthy() {
    let folder = Folder::new("cut");
    let bytes = fs::read(folder.capture()).expect("the capture");
    let (code, out, _) = run(&folder, &["why", "one.dashcam"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("No requests in this capture: nothing to judge."), "{out}");
    assert!(out.contains("dashcam.request("), "{out}");
    fs::write(folder.0.join("cut.dashcam"), &bytes[..bytes.len() - 5]).expect("a file");
    for form in [&["why", "cut.dashcam"][..], &["why", "--md", "cut.dashcam"]] {
        let (code, out, err) = run(&folder, form);
        assert_eq!(code, 3, "{out}{err}");
        assert!(
            out.contains("what is left of this damaged capture: nothing can be judged"),
            "{out}"
        );
        assert!(out.contains("damaged: cut off at byte "), "{out}");
    }
    let (code, out, _) = run(&folder, &["why", "--json", "cut.dashcam"]);
    assert!(code == 3 && out.contains("\"what\": \"cut off at byte "), "{out}");
}

#[test]
fn a_file_that_is_no_capture_is_reported_with_what_was_wanted() {
    let folder = Folder::new("foreign");
    fs::write(folder.0.join("empty.dashcam"), "").expect("a file");
    fs::write(folder.0.join("newer.dashcam"), "DASHCAM 3\n and more").expect("a file");
    fs::create_dir(folder.0.join("none")).expect("a folder");
    for (path, code, found, wanted) in [
        ("absent", 3, "absent: No such file or directory", "wanted a capture (FILE.dashcam)"),
        ("empty.dashcam", 3, "begins with nothing (the file is empty)", "wanted \"DASHCAM 2\""),
        (
            "newer.dashcam",
            3,
            "of format 3, this dashcam reads format 2",
            "with the dashcam that made it",
        ),
        ("none", 1, "no capture (*.dashcam) in none", "`dashcam snap PID` makes one now"),
    ] {
        for command in [
            &["why", path][..],
            &["show", path],
            &["view", path],
            &["export", "--to", "folded", path],
        ] {
            let (got, out, err) = run(&folder, command);
            assert_eq!((got, out.as_str()), (code, ""), "{command:?}: {err}");
            assert!(err.starts_with("dashcam: ") && err.lines().count() == 1, "{command:?}: {err}");
            assert!(err.contains(found) && err.contains(wanted), "{command:?}: {err}");
        }
    }
}

#[test]
fn other_files_of_the_folder_do_not_block() {
    let folder = Folder::new("pipe");
    let made = std::process::Command::new("mkfifo").arg(folder.0.join("pipe.dashcam")).status();
    assert!(made.is_ok_and(|status| status.success()));
    fs::create_dir(folder.0.join("folder.dashcam")).expect("a folder");
    std::os::unix::fs::symlink("nowhere", folder.0.join("link.dashcam")).expect("a link");
    // File times advance in steps of some ms, and the new file must be the newest.
    std::thread::sleep(std::time::Duration::from_millis(50));
    folder.capture();
    let (code, out, err) = run(&folder, &["why", "."]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.ends_with("Other captures here: 3 not read.\n"), "{out}");
}

#[test]
fn a_wrong_flag_is_wrong_usage_whatever_the_file_is() {
    let folder = Folder::new("flag");
    let bytes = fs::read(folder.capture()).expect("the capture");
    fs::write(folder.0.join("cut.dashcam"), &bytes[..9]).expect("a file");
    for path in ["one.dashcam", "cut.dashcam", "absent"] {
        for command in [["why", "--slow", "fast", path], ["view", "--slow", "fast", path]] {
            let (code, out, err) = run(&folder, &command);
            assert_eq!((code, out.as_str()), (2, ""), "{command:?}: {err}");
            assert!(err.starts_with("dashcam: --slow: found \"fast\""), "{command:?}: {err}");
        }
    }
}

#[test]
fn an_unreadable_capture_names_the_user_who_can_read_it() {
    let folder = Folder::new("locked");
    let capture = folder.capture();
    fs::set_permissions(&capture, fs::Permissions::from_mode(0o000)).expect("its own file");
    if fs::read(&capture).is_ok() {
        eprintln!("not tried: this user may read everything");
        return;
    }
    let (code, _, err) = run(&folder, &["why", "one.dashcam"]);
    assert_eq!(code, 3);
    assert!(
        err.contains("Permission denied") && err.contains("as the user that the service"),
        "{err}"
    );
}

#[test]
fn a_full_disk_behind_stdout_is_an_error_and_a_closed_pipe_is_not() {
    let folder = Folder::new("full");
    folder.capture();
    for words in [
        &["why", "one.dashcam"][..],
        &["show", "one.dashcam"],
        &["doctor"],
        &["why", "--json", "one.dashcam"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let out = dashcam(&folder.0, words).stdout(full).output().expect("dashcam runs");
        let err = as_text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{words:?}: {err}");
        assert!(err.contains("dashcam: cannot write to stdout: No space left on device"), "{err}");
        assert!(!err.contains("panicked"), "{err}");
    }
    let (gone, pipe) = std::io::pipe().expect("a pipe");
    drop(gone);
    let out = dashcam(&folder.0, &["show", "one.dashcam"]).stdout(Stdio::from(pipe)).output();
    let out = out.expect("dashcam runs");
    assert_eq!((out.status.code(), as_text(&out.stderr).as_str()), (Some(0), ""));
}

#[test]
fn recover_takes_boxes_only() {
    let folder = Folder::new("boxes");
    folder.capture();
    fs::write(folder.0.join("short.box"), "x".repeat(5000)).expect("a file");
    for (file, found) in [
        ("absent.box", "No such file or directory"),
        (".", "is a folder"),
        ("/dev/zero", "is no file"),
        ("short.box", "no black box"),
        ("one.dashcam", "no black box"),
    ] {
        let (code, out, err) = run(&folder, &["recover", file]);
        assert_eq!((code, out.as_str()), (3, ""), "{file}: {err}");
        assert!(err.contains(found) && err.contains("`dashcam recover` lists"), "{file}: {err}");
    }
    let (code, _, err) = run(&folder, &["recover", "-o", "x.dashcam"]);
    assert!(code == 2 && err.contains("<FILE>"), "{err}");
    assert_eq!(folder.files(), ["one.dashcam", "short.box"]);
}

#[test]
fn a_device_is_written_to_and_never_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let folder = Folder::new("device");
    folder.capture();
    // A test may not be able to make a device; a named pipe is treated like one.
    let pipe = folder.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    for words in [
        &["view", "one.dashcam", "-o", "pipe"][..],
        &["export", "one.dashcam", "--to", "chrome", "-o", "pipe"],
    ] {
        let reader = pipe.clone();
        let read = std::thread::spawn(move || fs::read(reader).expect("read"));
        let (code, _, err) = run(&folder, words);
        assert_eq!(code, 0, "{words:?}: {err}");
        let kind = fs::symlink_metadata(&pipe).expect("it is there").file_type();
        assert!(kind.is_fifo(), "{words:?} put a file in its place");
        assert!(!read.join().expect("the reader").is_empty(), "{words:?}");
    }
    let (code, _, err) = run(&folder, &["view", "one.dashcam", "-o", "/dev/full"]);
    assert!(code == 2 && err.contains("No space left on device"), "{err}");
}

#[test]
fn ctrl_c_while_a_verb_in_python_is_loaded_prints_no_traceback() {
    let folder = Folder::new("ctrl-c");
    folder.capture();
    let package = folder.0.join("dashcam");
    fs::create_dir(&package).expect("a folder");
    fs::write(package.join("__init__.py"), "").expect("a file");
    fs::write(package.join("sql.py"), "raise KeyboardInterrupt\n").expect("a file");
    let mut command = dashcam(&folder.0, &["sql", "one.dashcam", "select 1"]);
    let out = command.env("PYTHONPATH", &folder.0).output().expect("dashcam runs");
    assert_eq!((out.status.code(), as_text(&out.stderr).as_str()), (Some(130), ""));
}

#[test]
fn wrong_numbers_name_the_wanted_value() {
    let folder = Folder::new("numbers");
    folder.capture();
    let (code, _, err) = run(&folder, &["status", "no-such-service"]);
    assert!(code == 1 && err.contains("`dashcam ps` lists them"), "{err}");
    for (words, wanted) in [
        (&["attach", "abc"][..], "as `pgrep -f NAME` prints it"),
        (&["show", "one.dashcam", "--all"], "--slowest|--request <ID>"),
        (&["show", "one.dashcam", "--slowest", "--request", "1"], "cannot be used with"),
        (&["why", ".", "--since", "soon"], "wanted"),
        (&["show", "one.dashcam", "--request", "x"], "the number of a request"),
        (&["why", "one.dashcam", "--slow", "x"], "dashcam: --slow: found \"x\", wanted a limit"),
    ] {
        let (code, _, err) = run(&folder, words);
        assert!(code == 2 && err.contains(wanted), "{words:?}: {err}");
    }
}

#[test]
fn a_program_needs_no_dashes_before_it_and_wrong_flags_are_refused_all_the_same() {
    let folder = Folder::new("dashes");
    for (words, wanted) in [
        (&["run", "no-such-program", "--slow", "x"][..], 127),
        (&["run", "--keep", "3", "--", "no-such-program"], 127),
        (&["run", "--slow", "x", "no-such-program"], 2),
        (&["run", "--slwo", "500ms", "no-such-program"], 2),
        (&["run", "--keep", "3"], 2),
    ] {
        let (code, out, err) = run(&folder, words);
        assert_eq!((code, out.as_str()), (wanted, ""), "{words:?}: {err}");
        let reason = if wanted == 127 { "no-such-program: command not found" } else { "--" };
        assert!(err.contains(reason), "{words:?}: {err}");
    }
}

#[test]
fn a_pipe_is_no_capture_and_does_not_block() {
    let folder = Folder::new("pipe");
    let made = std::process::Command::new("mkfifo").arg(folder.0.join("p")).status();
    assert!(made.expect("mkfifo").success());
    for words in [&["why", "p"][..], &["show", "p"], &["export", "p", "--to", "folded"]] {
        let (code, _, err) = run(&folder, words);
        assert!(code == 3 && err.contains("p: is a pipe, wanted a capture"), "{words:?}: {err}");
    }
}

/// Of a folder of the service's user's alone, and of one file in an open one.
#[test]
fn what_another_user_may_not_read_names_who_may() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    let folder = Folder::new("others");
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    let closed = folder.0.join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::rename(folder.capture(), closed.join("one.dashcam")).expect("moved");
    fs::copy(closed.join("one.dashcam"), folder.0.join("two.dashcam")).expect("a copy");
    mode(&folder.0.join("two.dashcam"), 0o000);
    mode(&folder.0, 0o755);
    mode(&closed, 0o000);
    let is_root = fs::metadata("/proc/self").expect("there").uid() == 0;
    let command = folder.0.join("dashcam");
    if is_root {
        // Root may read all, and another user may not enter the checkout.
        fs::copy(env!("CARGO_BIN_EXE_dashcam"), &command).expect("a copy");
    }
    for path in ["closed", "closed/one.dashcam", "two.dashcam"] {
        let mut asked = dashcam(&folder.0, &["why", path]);
        if is_root {
            asked = std::process::Command::new(&command);
            asked.current_dir(&folder.0).args(["why", path]).uid(65534).gid(65534);
        }
        let out = asked.output().expect("dashcam runs");
        let err = as_text(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{path}: {err}");
        let wanted = format!(
            "dashcam: {path}: Permission denied (os error 13); ask as the service's user, or as one \
             whom its folder is open to (chmod g+rx)\n"
        );
        assert_eq!(err, wanted);
    }
    mode(&closed, 0o700);
}
