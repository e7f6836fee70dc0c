//! `dashcam dump`: the stacks, locks, tasks and open requests of a process now.
//!
//! How it works: a recorded process reads itself and answers on its control socket; it alone knows
//! the open requests. Any other CPython process, and one whose socket does not answer, is read from
//! outside through /proc/PID/mem. Both give the same JSON (crates/dump); the text is made from it.
//!
//! JSON of several processes is an object for each.
//!
//! What it promises: nothing is stopped or written. A refusal is one line: what was found, what is
//! wanted, what would help. Exit codes: 0; 1 no such process; 2 a refusal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::dump::Process;
use attach::{Kind, Outside, Refusal};
use samplers::python_stacks::{PythonStacks, RuntimeInfo, TypeAddresses};
use serde_json::Value;
use sys::mem::Reader;

use crate::output::columns::plain;
use crate::output::exit_code::{NOTHING, USAGE};
use crate::processes::named::Named;
use crate::processes::{dump_text, live};

/// A recorded process reads itself within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the state of the processes that `word` names: a process id, or a service.
pub fn dump(word: &str, as_json: bool) -> ExitCode {
    let all = match live::named(word) {
        Ok(all) => all,
        Err(code) => return code,
    };
    let mut worst = ExitCode::SUCCESS;
    for (at, named) in all.into_iter().enumerate() {
        if at > 0 && !as_json {
            println!();
        }
        let code = dump_one(&named, as_json);
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    worst
}

fn dump_one(named: &Named, as_json: bool) -> ExitCode {
    let pid = named.pid;
    let found = match recorded(named) {
        Some(found) => Ok(found),
        None if named.is_here => outside(pid),
        None => Err(Refusal {
            kind: Kind::Refused,
            thing: "process".to_owned(),
            found: "one of another container".to_owned(),
            wanted: "one that this shell can see".to_owned(),
            remedy: "run dashcam in its container, or outside of both".to_owned(),
        }),
    };
    match found {
        Ok(mut found) => {
            found["schema"] = Value::from(1);
            match as_json {
                true => println!("{found:#}"),
                false => print!("{}", dump_text::of(&found)),
            }
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("dashcam: {pid}: {}", plain(&refusal.to_string()));
            ExitCode::from(if refusal.kind == Kind::Gone { NOTHING } else { USAGE })
        }
    }
}

/// What the process says of itself. None: it is not recorded, or did not answer.
fn recorded(named: &Named) -> Option<Value> {
    let (pid, path) = (named.pid, named.socket.as_ref().ok()?);
    match live::answer_of(path, "dump", PATIENCE) {
        Ok(mut answer) => {
            let mut found = answer["dump"].take();
            found["pid"] = Value::from(pid);
            found["read"] = Value::from("inside");
            Some(found)
        }
        Err(why) => {
            eprintln!("dashcam: {pid}: its control socket: {why}; it is read from outside");
            None
        }
    }
}

/// What is read of a process that is not recorded.
fn outside(pid: u32) -> Result<Value, Refusal> {
    let target = Outside::open(pid)?;
    let gone = |error: std::io::Error| Refusal {
        kind: Kind::Gone,
        thing: "process".to_owned(),
        found: error.to_string(),
        wanted: "a running process".to_owned(),
        remedy: "it has ended".to_owned(),
    };
    let process = Process::other(pid, target.own_pid).map_err(gone)?;
    let memory = Reader::of_process(&target.folder).map_err(gone)?;
    let [code, builtin_method] = target.types.map(|at| at as usize);
    let info = RuntimeInfo {
        version_hex: target.version_hex,
        runtime: target.runtime as usize,
        types: TypeAddresses { code, lock: 0, rlock: 0, builtin_method },
    };
    let stacks = PythonStacks::attach_to(info, memory, process.subject());
    let mut stacks = stacks.map_err(|why| Refusal {
        kind: Kind::Refused,
        thing: why.thing.to_owned(),
        found: why.found,
        wanted: why.wanted,
        remedy: why.remedy.to_owned(),
    })?;
    let root = target.folder.join("root");
    stacks.find_tasks_outside(&target.maps, &target.program, &root);
    let text = ::dump::dump(&process, Ok(&mut stacks), None)
        .text("runtime", &runtime(target.version_hex))
        .text("read", "outside")
        .text("command", &command(&target.words))
        .finish();
    serde_json::from_str(&text).map_err(|error| Refusal {
        kind: Kind::Refused,
        thing: "what was read".to_owned(),
        found: error.to_string(),
        wanted: "JSON".to_owned(),
        remedy: "report this to the authors of dashcam".to_owned(),
    })
}

/// `cpython 3.14.10`, as a recorded process says it. 3.9 and 3.10 do not export the patch level.
fn runtime(version_hex: u32) -> String {
    let (minor, patch) = ((version_hex >> 16) & 0xff, (version_hex >> 8) & 0xff);
    match minor {
        ..=10 => format!("cpython 3.{minor}"),
        _ => format!("cpython 3.{minor}.{patch}"),
    }
}

/// The program's name and what is behind it.
fn command(words: &[String]) -> String {
    let mut words = words.iter();
    let program = words.next().map(PathBuf::from).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    [program].into_iter().chain(words.cloned()).collect::<Vec<_>>().join(" ")
}
