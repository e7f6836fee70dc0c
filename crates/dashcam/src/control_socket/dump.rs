//! The answer to `dump`: what every thread and task of this process does now.
//!
//! How it works: a stack reader of its own, made for the answer, reads as the sampler does, on the
//! thread that answers; crate `dump` puts it together with the open requests. What it promises: the
//! GIL is not taken, and no thread is stopped. What is missing on purpose: a reader that is kept:
//! its buffers would be held for a question that is rarely asked.

use std::collections::HashMap;

use dump::{Process, Request};
use format::block::unpack_pair;
use format::json::Object;
use format::region::{thread, THREAD_WORDS};
use ring::Name;
use samplers::python_stacks::PythonStacks;
use sys::mem::Reader;

use crate::recording::Recording;

/// The whole answer.
pub(crate) fn answer(recording: &Recording) -> Result<String, String> {
    let process = Process::own().map_err(|error| format!("/proc/self: {error}"))?;
    let process = process.named(thread_names(recording));
    let requests = open_requests(recording);
    let mut reader = stacks(recording);
    let stacks = reader.as_mut().map_err(|why| why.clone());
    let read = dump::dump(&process, stacks, Some(&requests))
        .text("service", &recording.config().service)
        .text("runtime", &recording.runtime.name)
        .finish();
    Ok(Object::new().flag("ok", true).raw("dump", &read).finish() + "\n")
}

fn stacks(recording: &Recording) -> Result<PythonStacks, String> {
    let runtime = &recording.runtime;
    let info = runtime.python.ok_or_else(|| match runtime.no_stacks.as_str() {
        "" => "no Python in this process".to_owned(),
        why => why.to_owned(),
    })?;
    let memory = Reader::new().map_err(|error| format!("own memory: {error}"))?;
    PythonStacks::attach(info, memory).map_err(|why| why.to_string())
}

/// Names that the program gave its threads, by kernel id. CPython gives them to the kernel from
/// 3.14 on only, and cut.
fn thread_names(recording: &Recording) -> HashMap<u32, String> {
    let (rows, _) = recording.recorder.region().copy_threads();
    let alive = rows.chunks_exact(THREAD_WORDS).filter(|row| row[thread::END_NS] == 0);
    let halves = alive.map(|row| [thread::IDENT, thread::NAME].map(|at| unpack_pair(row[at]).0));
    // 0: the kernel's name.
    let named: Vec<[u32; 2]> = halves.filter(|[_, name]| *name != 0).collect();
    let texts = texts(recording, named.iter().map(|[_, name]| *name));
    named.iter().filter_map(|[tid, name]| Some((*tid, texts.get(name)?.clone()))).collect()
}

/// The texts of these names.
fn texts(recording: &Recording, names: impl Iterator<Item = Name>) -> HashMap<Name, String> {
    let mut texts: HashMap<Name, String> = names.map(|name| (name, String::new())).collect();
    recording.recorder.tables().each_name(|id, text| {
        if let Some(name) = texts.get_mut(&id) {
            text.clone_into(name);
        }
    });
    texts
}

/// The oldest first.
fn open_requests(recording: &Recording) -> Vec<Request> {
    let now = sys::clock::now_ns();
    let mut open = Vec::new();
    recording.recorder.open_requests().each(|request| open.push(request));
    let names = texts(recording, open.iter().map(|r| r.name));
    let request = |open: &recorder::OpenRequest| Request {
        id: open.id,
        name: names.get(&open.name).cloned().unwrap_or_default(),
        age_ns: now.saturating_sub(open.begin_ns),
        tid: open.tid,
        task: open.task,
    };
    let mut found: Vec<Request> = open.iter().map(request).collect();
    found.sort_by_key(|request| std::cmp::Reverse(request.age_ns));
    found
}
