//! The tasks behind the future that a task waits for.
//!
//! How it works: a future that is a task itself is one. `gather` keeps its children in the future's
//! attributes, `shield` its one in a callback, `wait` and `wait_for` theirs in the frame, a
//! `TaskGroup` in the group. A task that waits for a notice inside the block of a group that its
//! own file opened waits for that group's tasks; so does one that watches for its client to go away
//! in that block, in whatever server's code. The group may have been opened by a function that
//! `contextlib.asynccontextmanager` made a block of.
//!
//! What it promises: tasks that are not done, each once; `MOST_CHILDREN` of them, and
//! `OBJECTS_MAX` objects a search.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::objects::sorts::{Family, Sort, Type};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::tasks::asyncio_code::function;
use crate::python_stacks::tasks::chain::Chain;

/// Objects read in one search, and how far from its start.
const OBJECTS_MAX: usize = 160;
const MOST_STEPS: usize = 4;
/// Tasks that one task may await.
const MOST_CHILDREN: usize = 8;
/// Frames of a chain that are searched for a task group's block.
const MOST_WITHIN: usize = 24;
/// In the name of a function that waits for its client to go away (`listen_for_disconnect`): the
/// diagnosis knows such a wait by the same word.
const WATCHER: &str = "disconnect";

impl PythonStacks {
    /// The tasks not done that `chain` waits for; none of those in `met`.
    pub(crate) fn awaited_tasks(&mut self, chain: &Chain, met: &[usize]) -> Vec<usize> {
        if chain.waiter == 0 {
            return Vec::new();
        }
        let kind = self.type_at(chain.waiter);
        if self.is_task(kind) {
            let fresh = !met.contains(&chain.waiter) && self.is_pending(chain.waiter);
            return if fresh { vec![chain.waiter] } else { Vec::new() };
        }
        let Some(kind) = kind else { return Vec::new() };
        // `gather` keeps its children in the future's attributes, `shield` its one in a callback.
        let mut start = Vec::new();
        for word in self.objects.contents(&self.mem, &self.layout, chain.waiter, kind) {
            let sort = self.type_at(word).map(|kind| kind.sort);
            if matches!(sort, Some(Sort::List | Sort::Function | Sort::Task)) {
                start.push(word);
            }
        }
        let leaf = chain.frames.first();
        let place = leaf.and_then(|frame| self.asyncio_place(frame));
        if let (Some(frame), Some((file, name))) = (leaf, place) {
            match (file.as_str(), name.as_str()) {
                ("tasks.py", "wait_for" | "_wait" | "_cancel_and_wait") => {
                    start.extend(self.live_slots(frame));
                }
                ("taskgroups.py", _) => {
                    let group = self.first_local(frame);
                    if let Some(kind) = self.type_at(group).filter(|k| k.sort == Sort::Instance) {
                        let own = self.objects.contents(&self.mem, &self.layout, group, kind);
                        start.extend(own);
                    }
                }
                _ => (),
            }
        }
        let tasks = self.tasks_within(start, met);
        if !tasks.is_empty() || !self.is_for_a_notice(chain) {
            return tasks;
        }
        let groups = self.groups_around(chain);
        self.tasks_within(groups, met)
    }

    /// Whether the innermost code waits for a notice of another task: an Event, an item, a future
    /// without a known source.
    fn is_for_a_notice(&self, chain: &Chain) -> bool {
        let place = chain.frames.first().and_then(|frame| self.asyncio_place(frame));
        match place {
            Some((file, name)) => {
                matches!(file.as_str(), "locks.py" | "queues.py") && name != "acquire"
            }
            None => !chain.frames.is_empty(),
        }
    }

    /// How many of the innermost frames only wait for the client to go away, by the name of the
    /// function that does; 0: none.
    pub(crate) fn frames_that_watch(&self, chain: &Chain) -> usize {
        let watches =
            |frame: &RawFrame| self.code_of(frame).is_some_and(|c| function(c).contains(WATCHER));
        chain.frames.iter().take(MOST_WITHIN).rposition(watches).map_or(0, |at| at + 1)
    }

    /// The content of the task groups that the waiting code has opened itself, by its file: one of
    /// their tasks will send the notice. A web framework runs what a middleware wraps in such a
    /// group, and waits for its messages. Code of another file that runs inside of a group's block
    /// waits for something that it started itself. Code that only waits for its client to go away
    /// waits for nothing in its server's code: there the group is searched for from that code on.
    fn groups_around(&mut self, chain: &Chain) -> Vec<usize> {
        let file =
            |stacks: &PythonStacks, frame: &RawFrame| stacks.code_of(frame).map(|c| c.file.clone());
        let carries = |file: &str| file.contains("/asyncio/") || file.contains("/anyio/");
        let watcher = self.frames_that_watch(chain).saturating_sub(1);
        let mut owners = Vec::new();
        let mut own: Option<String> = None;
        for frame in chain.frames.iter().take(MOST_WITHIN).skip(watcher) {
            let Some(file) = file(self, frame) else { continue };
            if own.is_none() && carries(&file) {
                // The end of a block waits in a method of the group.
                owners.push(self.first_local(frame));
            } else if *own.get_or_insert_with(|| file.clone()) == file {
                let entered = self.entered_by(frame);
                let within = self.entered_inside(&entered);
                owners.extend(entered.into_iter().chain(within));
            }
        }
        let kinds = self.types_at(&owners);
        let mut groups = owners.into_iter().zip(kinds).filter_map(|(o, kind)| Some((o, kind?)));
        let group = groups.find(|(_, kind)| kind.family == Family::TaskGroup);
        let contents = |(owner, kind)| self.objects.contents(&self.mem, &self.layout, owner, kind);
        group.map(contents).unwrap_or_default()
    }

    /// The objects whose blocks a frame is inside of.
    fn entered_by(&mut self, frame: &RawFrame) -> Vec<usize> {
        let slots = self.live_slots(frame);
        self.exits(&slots).iter().map(|exit| exit.own).collect()
    }

    /// The same of the generators that some of these objects were made of by
    /// `contextlib.asynccontextmanager`: a function of a program's, or of a framework's, which
    /// opens a group and gives it to the block.
    fn entered_inside(&mut self, managers: &[usize]) -> Vec<usize> {
        let generators: Vec<usize> =
            managers.iter().flat_map(|own| self.attributes(*own)).collect();
        let kinds = self.types_at(&generators);
        let is_made_of = |kind: &Option<Type>| kind.is_some_and(|k| k.sort == Sort::AsyncGenerator);
        let made_of = generators.into_iter().zip(kinds).filter(|(_, kind)| is_made_of(kind));
        let mut found = Vec::new();
        for (generator, _) in made_of {
            let mut chain = Chain::default();
            self.links(generator, &mut chain);
            if let Some(frame) = chain.frames.first().filter(|_| !chain.running) {
                found.extend(self.entered_by(frame));
            }
        }
        found
    }

    fn tasks_within(&mut self, start: Vec<usize>, met: &[usize]) -> Vec<usize> {
        let mut tasks = Vec::new();
        let (mut level, mut read) = (start, 0);
        for _ in 0..MOST_STEPS {
            let mut next = Vec::new();
            for address in level {
                let Some(kind) = self.type_at(address) else { continue };
                read += 1;
                if read > OBJECTS_MAX || tasks.len() >= MOST_CHILDREN {
                    return tasks;
                }
                match kind.sort {
                    // What callbacks of a program refer to has nothing to do with the await.
                    Sort::Function if self.asyncio_function(address).is_none() => (),
                    Sort::Task => {
                        let fresh = !met.contains(&address) && !tasks.contains(&address);
                        if fresh && self.is_task(Some(kind)) && self.is_pending(address) {
                            tasks.push(address);
                        }
                    }
                    Sort::List | Sort::Tuple | Sort::Set | Sort::Single | Sort::Function => {
                        let own = self.objects.contents(&self.mem, &self.layout, address, kind);
                        next.extend(own);
                    }
                    _ => (),
                }
            }
            level = next;
        }
        tasks
    }
}
