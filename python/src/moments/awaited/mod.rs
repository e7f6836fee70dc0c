//! Awaitables whose end is observed: a `Passing` takes the place of a coroutine or of another
//! awaitable, and answers as that, except to `type()`.
//!
//! ```text
//!  making > coroutine, wrapper   around a coroutine  > passing > steps
//!         > represented, kinds   around all others   >
//! ```
//!
//! What it promises: values and exceptions pass unchanged, with no frame of ours (`passing`).
//! Missing on purpose: what an end means, which the code that makes a `Passing` says
//! (`passing::Role`).

mod coroutine;
mod kinds;
mod making;
mod methods;
mod passing;
mod represented;
mod steps;
mod wrapper;

pub use making::{handling, seen};
pub(super) use making::{pass, pass_call, pass_lazily};
pub(super) use passing::Role;
pub(super) use wrapper::make_types;
