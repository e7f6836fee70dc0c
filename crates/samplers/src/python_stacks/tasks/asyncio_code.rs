//! Which function of asyncio a frame runs, or an object is: `("tasks.py", "wait_for")`.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::types::CodeInfo;

impl PythonStacks {
    /// File and function of a frame in asyncio itself.
    pub(crate) fn asyncio_place(&self, frame: &RawFrame) -> Option<(String, String)> {
        let code = self.code_of(frame)?;
        Some((asyncio_file(code)?.to_owned(), function(code).to_owned()))
    }

    /// File and name of a function of asyncio.
    pub(crate) fn asyncio_function(&mut self, address: usize) -> Option<(String, String)> {
        let kind = self.type_at(address)?;
        if kind.sort != Sort::Function {
            return None;
        }
        let code = self.mem.word(address.wrapping_add(self.layout.function_code)).ok()?;
        let info = self.codes.glance(&self.mem, &self.layout, code)?;
        Some((asyncio_file(&info)?.to_owned(), function(&info).to_owned()))
    }
}

/// `tasks.py` of `.../asyncio/tasks.py`.
fn asyncio_file(code: &CodeInfo) -> Option<&str> {
    let (folder, file) = code.file.rsplit_once('/')?;
    folder.ends_with("/asyncio").then_some(file)
}

pub(crate) fn function(code: &CodeInfo) -> &str {
    code.qualname.rsplit('.').next().unwrap_or(&code.qualname)
}
