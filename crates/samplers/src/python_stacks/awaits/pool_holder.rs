//! The task that has an item of a pool: it is suspended inside of the block that it entered through
//! that pool.
//!
//! How it works: a pool does not know which task has an item. But what a task enters by `async
//! with` leaves its `__aexit__` on the value stack of the frame (see `exits`), and a task
//! that waits for an item waits in the `__aenter__` of such an object. Both lead to the same pool:
//!
//! ```text
//!   waits:  async with pool.acquire():   frame of __aenter__, self --> pool --> queue, waited for
//!   has:    async with pool.acquire():   __aexit__ of its own object --> the same pool
//!   waits:  async with pool.connection():    __aenter__, self --> generator: connection(), pool
//!   has:    async with pool.connection():    __aexit__ of ... --> generator: connection(), pool
//!   waits:  async with limiter:              __aenter__, self
//!   has:    async with limiter:              __aexit__ of the same object
//! ```
//!
//! What it promises: a task that is still entering, or leaving, is not named. What is missing on
//! purpose: items taken by `await pool.acquire()`, which leave no trace; pools that the entered
//! object knows through another object only.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::tasks::chain::Chain;

/// Innermost frames of a task that may be the `__aenter__` in which it waits.
const MOST_ENTERING: usize = 16;

/// How two entered objects are seen to be of one pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Only the object itself.
    Itself,
    /// An attribute of both, which has what is waited for.
    Pool(usize),
    /// Generators of one function, called on one object.
    Function { code: usize, of: usize },
}

impl PythonStacks {
    /// The object that a task with these frames is entering by `async with`, in other code than
    /// asyncio's; 0 none.
    pub(crate) fn entered(&self, frames: &[RawFrame]) -> usize {
        let enters = |frame: &&RawFrame| {
            let name = self.function(frame).map(|(_, name)| name);
            name == Some("__aenter__") && self.asyncio_place(frame).is_none()
        };
        let found = frames.iter().take(MOST_ENTERING).find(enters);
        found.map_or(0, |frame| self.first_local(frame))
    }

    /// The task among `tasks` that is suspended inside of a block that it entered through the pool
    /// which `entered`, an object that waits for `item` while it is entered, belongs to. Costs a
    /// walk of every task.
    pub fn task_with_item(
        &mut self,
        entered: usize,
        item: usize,
        tasks: &[usize],
    ) -> Option<usize> {
        let kind = self.type_at(entered).filter(|kind| kind.sort == Sort::Instance);
        kind?;
        let way = self.way_to_pool(entered, item);
        tasks.iter().copied().find(|task| self.has_item(*task, entered, way))
    }

    fn way_to_pool(&mut self, entered: usize, item: usize) -> Way {
        let attributes = self.attributes(entered);
        if let Some(way) = self.made_by(&attributes) {
            return way;
        }
        let has = |stacks: &mut Self, own: &usize| {
            *own != 0 && *own != entered && stacks.attributes(*own).contains(&item)
        };
        let pool = attributes.iter().copied().find(|own| item != 0 && has(self, own));
        pool.map_or(Way::Itself, Way::Pool)
    }

    /// The function whose generator is among the attributes of an object that contextlib made, and
    /// the object that it was called on.
    fn made_by(&mut self, attributes: &[usize]) -> Option<Way> {
        let kinds = self.types_at(attributes);
        let mut all = attributes.iter().zip(kinds);
        let is_one = |sort: Sort| matches!(sort, Sort::Generator | Sort::AsyncGenerator);
        let (generator, _) = all.find(|(_, kind)| kind.is_some_and(|kind| is_one(kind.sort)))?;
        let mut chain = Chain::default();
        self.links(*generator, &mut chain);
        let frame = chain.frames.first()?;
        let of = self.first_local(frame);
        let is_object = self.type_at(of).is_some_and(|kind| kind.sort == Sort::Instance);
        is_object.then_some(Way::Function { code: frame.code, of })
    }

    fn has_item(&mut self, task: usize, entered: usize, way: Way) -> bool {
        if self.is_greenlet(task) {
            return false;
        }
        let Ok(chain) = self.chain_once(task) else { return false };
        let mut inner = 0;
        for frame in &chain.frames {
            // A task that is still entering (or leaving) has the method on its stack as well.
            let called = std::mem::replace(&mut inner, self.first_local(frame));
            let slots = self.live_slots(frame);
            let exits = self.exits(&slots);
            let mut kept = exits.iter().filter(|exit| exit.own != called);
            if kept.any(|exit| {
                self.is_of_pool(exit.own, entered, way)
                    && self.code_of_exit(exit.function).is_some()
            }) {
                return true;
            }
        }
        false
    }

    fn is_of_pool(&mut self, own: usize, entered: usize, way: Way) -> bool {
        if own == entered {
            return true;
        }
        let class = |at: usize| self.mem.word(at.wrapping_add(object::TYPE)).unwrap_or(0);
        if way == Way::Itself || class(own) != class(entered) {
            return false;
        }
        let attributes = self.attributes(own);
        match way {
            Way::Itself => false,
            Way::Pool(pool) => attributes.contains(&pool),
            Way::Function { .. } => self.made_by(&attributes) == Some(way),
        }
    }
}
