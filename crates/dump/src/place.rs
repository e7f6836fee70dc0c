//! Frames, addresses and lists as JSON.
//!
//! How it works: names are copied from the stack reader, which may forget them. What it promises:
//! code that the reader has no room for is `?`. What is missing on purpose: columns.

use format::json::Object;
use samplers::python_stacks::{CodeId, Frame, PythonStacks};

/// A frame of a stack in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    function: String,
    file: String,
    line: u32,
}

impl Place {
    pub fn of(stacks: &PythonStacks, frame: Frame) -> Place {
        let unknown = || Place { function: "?".into(), file: "?".into(), line: frame.line };
        let code = (frame.code != CodeId::UNKNOWN).then(|| stacks.code(frame.code)).flatten();
        code.map_or_else(unknown, |code| Place {
            function: code.qualname.clone(),
            file: code.file.clone(),
            line: frame.line,
        })
    }

    pub fn json(&self) -> String {
        let out = Object::new().text("function", &self.function).text("file", &self.file);
        out.int("line", u64::from(self.line)).finish()
    }
}

pub fn address(at: usize) -> String {
    format!("{at:#x}")
}

/// A list of JSON values.
pub fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}
