//! Code that loads modules, by its stack.

use analysis::frames::Owner;
use capture::read::Frame;

use crate::context::Context;

/// A frame of the import system.
pub fn is_import(frame: &Frame<'_>) -> bool {
    frame.file.starts_with("<frozen importlib")
}

/// The code that imports, of a stack in which a library's or the interpreter's modules are being
/// loaded: the stack from there on. None where the program's own code is at work, or nothing is
/// loaded.
pub fn importer(cx: &Context<'_>, stack: u32) -> Option<u32> {
    let inner = cx.frames.of(stack).take_while(|f| !is_import(f));
    let mut inner = inner.map(|f| cx.frames.owner(f.file));
    match cx.frames.any(stack, is_import) && !inner.any(|owner| owner == Owner::User) {
        true => cx.frames.caller_of_outermost(stack, is_import),
        false => None,
    }
}
