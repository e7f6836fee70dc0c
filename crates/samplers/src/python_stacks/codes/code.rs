//! What is kept about one code object.

use crate::python_stacks::codes::lines::{self, Row};
use crate::python_stacks::types::CodeInfo;

/// All that is kept about one code object.
#[derive(PartialEq, Eq)]
pub(crate) struct Code {
    pub info: CodeInfo,
    pub(crate) rows: Vec<Row>,
    /// Instructions in front of this byte offset are the prologue: the frame is not complete.
    pub(crate) first_traceable: i64,
    /// Locals, cells and free variables (3.11+), in front of the value stack.
    pub locals: usize,
    pub stack_size: usize,
    /// The exception table (3.11+), which gives the depth of the live value stack.
    pub exceptions: Vec<u8>,
}

impl Code {
    /// The source line at a byte offset; 0 for none.
    pub fn line(&self, offset: i64) -> u32 {
        lines::line_at(&self.rows, offset, self.info.first_line)
    }

    /// What it counts against `MAX_TABLE_BYTES`.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>()
            + self.exceptions.len()
            + self.info.qualname.len()
            + self.info.file.len()
    }

    /// True once the frame's prologue is over; before that CPython itself does not show it.
    pub fn is_complete(&self, offset: i64) -> bool {
        offset >= self.first_traceable
    }

    /// What a frame without a code object has.
    pub(crate) fn unknown() -> Code {
        let info =
            CodeInfo { qualname: "?".into(), file: String::new(), first_line: 0, releases: false };
        Code {
            info,
            rows: Vec::new(),
            first_traceable: i64::MIN,
            locals: 0,
            stack_size: 0,
            exceptions: Vec::new(),
        }
    }
}
