//! Tables of names, frames, stacks and threads that the page refers to; only those in use.
//!
//! How it works: each first use of an object appends it to its table; later uses get the same
//! index. Stacks form a tree: an entry has its caller's index and its own frame.
//!
//! What it promises: the callers of a stack come before it; texts and stacks have a bounded length.
//! Entry 0 of names and stacks means none.

use std::collections::HashMap;

use analysis::frames::{Frames, Owner};
use capture::read::{Capture, Text};

use crate::json::{self, Object};

/// A text has at most this many characters; the rest is cut.
const MOST_CHARS: usize = 400;
/// A stack has at most this many frames.
const MOST_FRAMES: usize = 4096;

/// The tables.
pub struct Tables<'c> {
    capture: &'c Capture,
    frames_of: Frames<'c>,
    names: Vec<String>,
    name_ids: HashMap<String, i64>,
    frames: Vec<[i64; 4]>,
    frame_ids: HashMap<(u32, u32), i64>,
    stacks: Vec<(i64, i64)>,
    stack_ids: HashMap<u32, i64>,
    threads: Vec<u32>,
    thread_ids: HashMap<u32, i64>,
}

impl<'c> Tables<'c> {
    /// Empty tables; entry 0 of names and stacks means none.
    pub fn new(capture: &'c Capture) -> Tables<'c> {
        let mut tables = Tables {
            capture,
            frames_of: Frames::new(capture),
            names: Vec::new(),
            name_ids: HashMap::new(),
            frames: Vec::new(),
            frame_ids: HashMap::new(),
            stacks: vec![(0, 0)],
            stack_ids: HashMap::from([(0, 0)]),
            threads: Vec::new(),
            thread_ids: HashMap::new(),
        };
        tables.text("");
        tables
    }

    /// The index of a text.
    pub fn text(&mut self, text: &str) -> i64 {
        let cut: String = match text.char_indices().nth(MOST_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        if let Some(id) = self.name_ids.get(&cut) {
            return *id;
        }
        let id = self.names.len() as i64;
        self.names.push(cut.clone());
        self.name_ids.insert(cut, id);
        id
    }

    /// The index of a name of the capture.
    pub fn name(&mut self, id: u32) -> i64 {
        let name = self.capture.name(id);
        self.text(name)
    }

    /// The index of the text `key=value, key=value`; 0 without attributes.
    pub fn attributes(&mut self, attributes: &[(u32, Text)]) -> i64 {
        let one = |(key, value): &(u32, Text)| {
            let key = self.capture.name(*key);
            match value {
                Text::Int(v) => format!("{key}={v}"),
                Text::Float(v) => format!("{key}={v}"),
                Text::Bool(v) => format!("{key}={v}"),
                Text::Text(v) => format!("{key}={v}"),
            }
        };
        let all: Vec<String> = attributes.iter().map(one).collect();
        self.text(&all.join(", "))
    }

    /// The index of a thread.
    pub fn thread(&mut self, tid: u32) -> i64 {
        if let Some(id) = self.thread_ids.get(&tid) {
            return *id;
        }
        let id = self.threads.len() as i64;
        self.threads.push(tid);
        self.thread_ids.insert(tid, id);
        id
    }

    /// The index of a thread plus 1; 0 for none.
    pub fn thread_or_none(&mut self, tid: u32) -> i64 {
        if tid == 0 {
            0
        } else {
            self.thread(tid) + 1
        }
    }

    /// The index of a stack; its callers come before it.
    pub fn stack(&mut self, stack: u32) -> i64 {
        let mut missing: Vec<u32> = Vec::new();
        let mut at = stack;
        while !self.stack_ids.contains_key(&at) && missing.len() < MOST_FRAMES {
            let Some(node) = (at as usize).checked_sub(1).and_then(|i| self.capture.stacks.get(i))
            else {
                break;
            };
            missing.push(at);
            // A parent is always older than its child; anything else is damage and ends the walk.
            at = if node.parent < at { node.parent } else { 0 };
        }
        let mut parent = self.stack_ids.get(&at).copied().unwrap_or(0);
        for id in missing.into_iter().rev() {
            let frame = self.frame(id);
            self.stacks.push((parent, frame));
            parent = self.stacks.len() as i64 - 1;
            self.stack_ids.insert(id, parent);
        }
        parent
    }

    fn frame(&mut self, stack: u32) -> i64 {
        let Some(frame) = self.capture.frames(stack).next() else { return 0 };
        if let Some(id) = self.frame_ids.get(&(frame.code, frame.line)) {
            return *id;
        }
        let owner = match self.frames_of.owner(frame.file) {
            _ if self.frames_of.serves(&frame) => 4,
            // Below the Python frame that called it: the interpreter's, or an extension's.
            Owner::User if frame.native && self.capture.without_native(stack) != stack => 5,
            Owner::User => 0,
            Owner::Library => 1,
            Owner::Runtime => 2,
            Owner::Dashcam => 3,
        };
        let row = [self.text(frame.function), self.text(frame.file), i64::from(frame.line), owner];
        let id = self.frames.len() as i64;
        self.frames.push(row);
        self.frame_ids.insert((frame.code, frame.line), id);
        id
    }

    /// As members of the page's data.
    pub fn write(&mut self, out: &mut Object) {
        // Threads first: their names go into the table of names.
        let tids = self.threads.clone();
        let name = |t: &mut Self, tid: u32| t.text(t.capture.thread_name(tid).unwrap_or(""));
        let names: Vec<i64> = tids.iter().map(|tid| name(self, *tid)).collect();
        let tids: Vec<i64> = tids.into_iter().map(i64::from).collect();
        let threads = Object::new().numbers("tid", &tids).numbers("name", &names).end();
        let column = |i: usize| -> Vec<i64> { self.frames.iter().map(|f| f[i]).collect() };
        let frames = Object::new()
            .numbers("function", &column(0))
            .numbers("file", &column(1))
            .numbers("line", &column(2))
            .numbers("owner", &column(3))
            .end();
        let parents: Vec<i64> = self.stacks.iter().map(|s| s.0).collect();
        let leaves: Vec<i64> = self.stacks.iter().map(|s| s.1).collect();
        let stacks = Object::new().numbers("parent", &parents).numbers("frame", &leaves).end();
        out.raw("names", &json::items(self.names.iter().map(|n| json::text(n))));
        out.raw("frames", &frames).raw("stacks", &stacks).raw("threads", &threads);
    }
}
