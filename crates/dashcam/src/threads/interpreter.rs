//! The interpreter in this process: how its stacks are read, or why not (source `stacks`). Stacks
//! that cannot be read may still be handed in by the interpreter itself: `under_gil`.

use format::source::SourceState;
use sampler::under_gil::UnderGil;
use sampler::TURNED_OFF;
use samplers::python_stacks::{own_memory, PythonStacks, RuntimeInfo};

use crate::recording::runtime::Runtime;
use crate::recording::Recording;

/// Whether stacks of this interpreter can be read from memory. For bindings, which can sample under
/// its lock if not. Costs microseconds if so, up to a tenth of a second if not.
pub fn can_be_read(runtime: &Runtime) -> bool {
    runtime.python.is_some_and(|info| read(info).is_ok())
}

/// The reader of its stacks, if there is one and it can be read.
pub(crate) fn attach(recording: &Recording, under_gil: &UnderGil) -> Option<PythonStacks> {
    // Without one nothing is missing.
    let none = recording.runtime.name.is_empty();
    if none || !recording.config().stacks {
        under_gil.decide(None);
        if !none {
            recording.set_source("stacks", SourceState::off(TURNED_OFF));
        }
        return None;
    }
    let read = match recording.runtime.python {
        Some(info) => read(info),
        None => Err(recording.runtime.no_stacks.clone()),
    };
    // A binding that can sample otherwise says so when it does.
    let state = read.as_ref().map_or_else(SourceState::off, |_| SourceState::On);
    recording.set_source("stacks", state);
    if let (Err(_), Some(info)) = (&read, recording.runtime.python) {
        own_memory(info.runtime).into_iter().for_each(|own| under_gil.set_own_memory(own));
    }
    under_gil.decide(read.as_ref().err().cloned());
    read.ok()
}

fn read(info: RuntimeInfo) -> Result<PythonStacks, String> {
    let mem = sys::mem::Reader::new();
    let mem = mem.map_err(|error| format!("cannot read own memory: {error}"))?;
    PythonStacks::attach(info, mem).map_err(|unsupported| unsupported.to_string())
}
