//! `dashcam doctor`: which sources work here, for this user, and what would enable the others.
//!
//! How it works: each source has a check that tries what the recorder would do, in this process. A
//! row has its name, `on` or `off` with the reason, and what the source gives.
//!
//! What it promises: it only tries: no capture is made, and no recorded process is changed. Missing
//! on purpose: the state of running processes (`dashcam status`).

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{json, Value};
use sys::perf::SwitchStream;

use crate::output::terminal;
use crate::recover;

/// Bytes of the file that is tried.
const FIRST_STEP: usize = 1 << 20;
/// A box takes some 1.4 MiB at first, and boxes at most half of their file system.
const LEAST_LEFT: u64 = 3 << 20;

struct Check {
    name: &'static str,
    works: Result<String, String>,
    gives: &'static str,
}

/// Tries every source and prints the result.
pub fn doctor(as_json: bool) -> ExitCode {
    let checks = [
        switches(),
        wakers(),
        memory(),
        running(),
        proc_calls(),
        shared_memory(),
        vitals(),
        take_back(),
        fast_clock(),
        control(),
        own_descriptors(),
        threads(),
    ];
    if as_json {
        let rows: Vec<Value> = checks
            .iter()
            .map(|c| {
                let (state, text) = match &c.works {
                    Ok(text) => ("on", text),
                    Err(text) => ("off", text),
                };
                json!({"source": c.name, "state": state, "detail": text, "gives": c.gives})
            })
            .collect();
        println!("{:#}", json!({"schema": 1, "sources": rows}));
    } else {
        for check in &checks {
            match &check.works {
                Ok(text) => shown(&format!("on   {}: {text}", check.name)),
                Err(text) => shown(&format!("off  {}: {text}", check.name)),
            }
            shown(&format!("     gives: {}", check.gives));
        }
        passed_over().into_iter().for_each(|text| shown(&format!("note {text}")));
    }
    ExitCode::SUCCESS
}

/// A line; at a terminal it is wrapped at its width.
fn shown(line: &str) {
    print!("{}", terminal::fitted(&format!("{line}\n")));
}

/// Variables in this shell that name a receiver and that a service started here would not use.
fn passed_over() -> Vec<String> {
    let environment = |name: &str| std::env::var(name).ok();
    let given = environment("DASHCAM_OTLP").unwrap_or_default();
    let lists = [
        ("DASHCAM_OTLP", "OTLP", otlp::env::passed_over(&given, environment)),
        ("DASHCAM_STATSD", "StatsD", statsd::passed_over(environment)),
    ];
    let used = lists.into_iter().filter(|(_, _, names)| !names.is_empty());
    used.map(|(own, what, names)| {
        format!("{}: not used; {own}=env would send by {what} to where they say", names.join(", "))
    })
    .collect()
}

fn switches() -> Check {
    let works = match SwitchStream::open(&[]) {
        Ok(stream) => Ok(format!("switch records, {} KiB a CPU", stream.ring_bytes() / 1024)),
        Err(refused) => Err(format!("{refused}")),
    };
    let gives = "exact times on and off the CPU; without it they are estimated from samples";
    Check { name: "switches", works, gives }
}

fn wakers() -> Check {
    let works = match sys::perf::Wakings::find().and_then(sys::perf::Wakings::attempt) {
        Ok(()) => Ok("the kernel reports the waker of a thread".to_owned()),
        Err(refused) => Err(format!("{refused}")),
    };
    let gives = "measured wakers of a slow request's waits, so a lock's holder; else inferred";
    Check { name: "wakers", works, gives }
}

fn memory() -> Check {
    let works = match sys::mem::Reader::new() {
        Ok(_) => Ok("this process can read itself without faulting".to_owned()),
        Err(error) => {
            Err(format!("process_vm_writev, process_vm_readv and /proc/self/mem refused: {error}"))
        }
    };
    Check { name: "stacks", works, gives: "Python stacks without the GIL and without signals" }
}

fn running() -> Check {
    /// Any values will do: the watch is never started.
    const PERIOD_NS: u64 = 10_000_000;
    let works = match sys::perf::Watch::open(sys::thread::tid(), PERIOD_NS) {
        _ if !cfg!(target_arch = "x86_64") => {
            Err("only stacks of x86-64 are understood".to_owned())
        }
        Ok(_) => Ok("registers and stack of a running thread can be had".to_owned()),
        Err(refused) => Err(format!("{refused}")),
    };
    let gives = "what native code computes (Rust, C, C extensions under Python)";
    Check { name: "running_stacks", works, gives }
}

fn proc_calls() -> Check {
    let tid = sys::thread::tid();
    let works = match sys::task::TaskReader::open(tid).and_then(|mut task| task.call()) {
        Ok(_) => Ok("/proc/self/task/*/syscall can be read".to_owned()),
        Err(error) => Err(format!("/proc/self/task/{tid}/syscall: {error}")),
    };
    Check {
        name: "waits",
        works,
        gives: "what a blocked thread waits for: lock, peer, file, child",
    }
}

fn shared_memory() -> Check {
    let works = a_box_fits(&recover::shared_memory());
    Check { name: "box", works, gives: "a black box that survives kill -9 (dashcam recover)" }
}

/// Makes a file as a box is made, in the folder of this user's boxes, and removes it.
fn a_box_fits(memory: &Path) -> Result<String, String> {
    let uid = sys::local::own_uid();
    let folder = memory.join(format!("dashcam-{uid}"));
    let remedy = "mount a tmpfs there, or name another by DASHCAM_SHM";
    let wrong = |error: io::Error| format!("{}: {error}; {remedy}", folder.display());
    let is_new = std::fs::DirBuilder::new().mode(0o700).create(&folder).is_ok();
    let found = std::fs::symlink_metadata(&folder).map_err(wrong)?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        let (owner, mode) = (found.uid(), found.mode() & 0o777);
        return Err(format!(
            "{}: found owner {owner} mode {mode:o}, wanted a folder of user {uid} with mode 700",
            folder.display()
        ));
    }
    let left = sys::room::left_in(&folder).unwrap_or(u64::MAX);
    let file = folder.join(format!(".doctor-{}", std::process::id()));
    let made = sys::map::create(&file, FIRST_STEP);
    let _ = std::fs::remove_file(&file);
    if is_new {
        let _ = std::fs::remove_dir(&folder);
    }
    made.map_err(wrong)?;
    match left {
        ..LEAST_LEFT => Err(format!(
            "{}: found {} KiB left, wanted {} KiB; {remedy}",
            memory.display(),
            left >> 10,
            LEAST_LEFT >> 10
        )),
        u64::MAX => Ok(format!("{} has room", memory.display())),
        _ => Ok(format!(
            "{} has {} MiB left, of which boxes take half",
            memory.display(),
            left >> 20
        )),
    }
}

fn take_back() -> Check {
    let works = match sys::barrier::available() {
        true => Ok("membarrier works".to_owned()),
        false => Err("membarrier is refused (kernel before 4.14, or seccomp)".to_owned()),
    };
    let gives = "memory back from threads that record little; without it each pins 8 KiB";
    Check { name: "take_back", works, gives }
}

fn fast_clock() -> Check {
    sys::clock::follow();
    let works = match sys::clock::state() {
        sys::clock::Following::Kernel(why) => Err(why.to_owned()),
        _ => Ok("the CPU's time stamp counter, which the kernel trusts too".to_owned()),
    };
    Check {
        name: "fast_clock",
        works,
        gives: "time stamps at half the cost; they are exact anyway",
    }
}

fn control() -> Check {
    let works = sys::local::folder().map(|folder| format!("sockets lie in {}", folder.display()));
    Check { name: "control", works, gives: "dashcam ps, status, snap and set" }
}

fn own_descriptors() -> Check {
    let (send, answer) = std::sync::mpsc::channel();
    let tried = sys::thread::spawn_quiet("dashcam-doctor", move || {
        // A waiting thread is gone only when this process ends.
        let _ = send.send(sys::ours::move_apart().map_err(|error| {
            let most = sys::ours::most();
            format!(
                "pidfd_getfd or close_range refused: {error}; at most {most} of the program's \
                 descriptors are taken; needs Linux 5.9, and in a container CAP_SYS_PTRACE or \
                 a seccomp profile that allows both"
            )
        }));
    });
    let answer = tried.map_err(|error| error.to_string()).and_then(|thread| {
        thread.join();
        answer.recv().unwrap_or_else(|_| Err("the thread that tried it ended".to_owned()))
    });
    let works = answer.map(|()| "threads of dashcam have a table of their own".to_owned());
    let gives = "no descriptor of the program's is taken, whatever its RLIMIT_NOFILE";
    Check { name: "own_descriptors", works, gives }
}

fn threads() -> Check {
    let tried = sys::thread::spawn_quiet("dashcam-doctor", || ());
    let works = tried.map(sys::thread::Quiet::join).map_err(|error| error.to_string());
    let works = works.map(|()| "threads of dashcam can be started".to_owned());
    Check { name: "threads", works, gives: "samples, captures, metrics and the control socket" }
}

fn vitals() -> Check {
    let vitals = sys::vitals::Vitals::open();
    let works = Ok(match sys::vitals::Missing::line(vitals.missing()) {
        nothing if nothing.is_empty() => "all counters".to_owned(),
        missing => format!("without {missing}"),
    });
    Check { name: "vitals", works, gives: "faults, throttling, pressure, memory once a second" }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_box_is_tried_where_and_as_it_would_be_made() {
        let memory = testkit::Folder::new("doctor");
        let fits = || a_box_fits(memory.path());
        assert!(fits().is_ok_and(|text| text.contains("left, of which boxes take half")));
        let all = || std::fs::read_dir(memory.path()).expect("a folder").count();
        assert_eq!(all(), 0, "nothing is left there");
        let own = memory.path().join(format!("dashcam-{}", sys::local::own_uid()));
        std::fs::create_dir(&own).expect("a folder");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o755)).expect("ours");
        assert!(fits().is_err_and(|text| text.contains("mode 755, wanted a folder of user")));
        std::fs::remove_dir(&own).expect("ours");
        std::fs::write(&own, "").expect("a file");
        assert!(fits().is_err_and(|text| text.contains("wanted a folder")));
        let error = a_box_fits(Path::new("/nonexistent")).expect_err("no such folder");
        assert!(error.ends_with("mount a tmpfs there, or name another by DASHCAM_SHM"), "{error}");
    }
}
