//! The stacks of samples, awaits and wakings, and their frames.
//!
//! Costs a list of the stacks in use. In a capture with over `MOST_FRAMES` frames (no recorder
//! makes such) the stacks past that are cut to `FEW_FRAMES` frames.

use analysis::frames::{Frames, Owner, Place};

use crate::cell::{always, int, maybe, text, Cell, Kind};
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

/// Frames that are written in full.
const MOST_FRAMES: usize = 8_000_000;
/// Frames of each stack past that.
const FEW_FRAMES: usize = 16;

pub(crate) const STACKS: Table = Table {
    name: "stacks",
    about: "A stack of a sample, an await or a wakeup. By `stack_id`.",
    columns: &[
        always("stack_id", Kind::Int, "Its id"),
        always("frames", Kind::Int, "How many frames it has in the table `frames`"),
        maybe(
            "place",
            Kind::Text,
            "The innermost frame of the user's or a library's code, `file:line function()`",
        ),
        maybe("function", Kind::Text, "Its function, without its class"),
        maybe("file", Kind::Text, "Its file, as the interpreter knows it"),
        maybe("line", Kind::Int, "Its line"),
        maybe("module", Kind::Text, "Its dotted module, if the path shows it"),
        maybe("user_place", Kind::Text, "The innermost frame of the user's code, else as `place`"),
        maybe("leaf", Kind::Text, "The innermost frame of all, `file:line function()`"),
        always("is_cut", Kind::Bool, "It has more frames, which were left out: a damaged capture"),
    ],
    rows: Rows::Once(stacks),
};

pub(crate) const FRAMES: Table = Table {
    name: "frames",
    about: "A frame of a stack. By `stack_id` and depth.",
    columns: &[
        always("stack_id", Kind::Int, "The stack"),
        always("depth", Kind::Int, "0: the innermost; its caller is 1"),
        always("function", Kind::Text, "Function, without its class"),
        always("qualified", Kind::Text, "Function, with its class and enclosing functions"),
        always("file", Kind::Text, "Its file, as the interpreter knows it"),
        always("line", Kind::Int, "The line being executed; 0: not known (native code)"),
        maybe("first_line", Kind::Int, "First line of the function"),
        always("module", Kind::Text, "Dotted module, if the path shows it"),
        always("owner", Kind::Text, "Owner of the code: `user`, `library`, `runtime`, `dashcam`"),
        always("is_native", Kind::Bool, "An address of native code that could not be named"),
        always("releases_lock", Kind::Bool, "Its code names `release`: it may hold a lock by hand"),
    ],
    rows: Rows::Once(frames),
};

/// Calls `each` with every stack in use and its number of written frames.
fn in_use(
    source: &Source,
    mut each: impl FnMut(u32, usize) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let capture = &source.capture;
    let known = |id: &u32| (*id as usize).checked_sub(1).is_some_and(|i| i < capture.stacks.len());
    let used = source.stacks_in_use();
    let mut written = 0;
    for stack in used.iter().copied().filter(known) {
        let most = if written < MOST_FRAMES { usize::MAX } else { FEW_FRAMES };
        each(stack, most)?;
        written += capture.frames(stack).take(most).count();
    }
    Ok(())
}

fn stacks(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let frames = Frames::new(capture);
    in_use(source, |stack, most| {
        let count = capture.frames(stack).count();
        let place = frames.innermost(stack);
        let short = |place: Option<&Place>| place.map(Place::short);
        let user = frames.innermost_user(stack);
        let leaf = capture.frames(stack).next().map(|f| frames.place(&f));
        sink.row([
            int(stack),
            int(count.min(most)),
            text(short(place.as_ref()).as_deref()),
            text(place.as_ref().map(|p| p.function.as_str())),
            text(place.as_ref().map(|p| p.file.as_str())),
            place.as_ref().map_or(Cell::Null, |p| int(p.line)),
            text(place.as_ref().map(|p| p.module.as_str())),
            text(short(user.as_ref()).as_deref()),
            text(short(leaf.as_ref()).as_deref()),
            Cell::Bool(count > most),
        ])
    })
}

fn frames(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let named = Frames::new(capture);
    in_use(source, |stack, most| {
        for (depth, frame) in capture.frames(stack).take(most).enumerate() {
            let place = named.place(&frame);
            let code = (frame.code as usize).checked_sub(1).and_then(|i| capture.codes.get(i));
            sink.row([
                int(stack),
                int(depth),
                Cell::Text(&place.function),
                Cell::Text(frame.function),
                Cell::Text(frame.file),
                int(frame.line),
                code.map_or(Cell::Null, |c| int(c.first_line)),
                Cell::Text(&place.module),
                Cell::Text(owner(named.owner(frame.file))),
                Cell::Bool(code.is_some_and(|c| c.native)),
                Cell::Bool(frame.releases),
            ])?;
        }
        Ok(())
    })
}

fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::User => "user",
        Owner::Library => "library",
        Owner::Runtime => "runtime",
        Owner::Dashcam => "dashcam",
    }
}
