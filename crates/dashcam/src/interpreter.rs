//! The interpreter in this process: how its stacks are read, or why not (source `stacks`).

use samplers::python_stacks::PythonStacks;

use crate::control::Shared;
use crate::sampler::TURNED_OFF;

/// The reader of its stacks, if there is one and it can be read.
pub(crate) fn attach(shared: &Shared) -> Option<PythonStacks> {
    let (stacks, state) = match (&shared.runtime.python, shared.config().stacks) {
        (_, false) => (None, TURNED_OFF.to_owned()),
        // No Python here: nothing is missing.
        (None, _) if shared.runtime.name.is_empty() => return None,
        (None, _) => (None, format!("off: {}", shared.runtime.no_stacks)),
        (Some(info), true) => match sys::mem::Reader::new() {
            Err(error) => (None, format!("off: cannot read own memory: {error}")),
            Ok(mem) => match PythonStacks::attach(*info, mem) {
                Ok(stacks) => (Some(stacks), "on".to_owned()),
                Err(unsupported) => (None, format!("off: {unsupported}")),
            },
        },
    };
    shared.set_source("stacks", state);
    stacks
}
