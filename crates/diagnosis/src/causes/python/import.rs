//! import: a module is loaded on the request's path, or the request waits for a thread that loads
//! one.
//!
//! Signature: frames of the import system in the stack. The place is the code that imports: of
//! modules that import others the one outside of them all, so one import is one finding however
//! deep it goes. The module is known from the code that the import system runs for that call; while
//! it searches for the module, or reads it, no module is known. A sleep, a peer or a lock inside
//! the module's own code has its own cause.
//!
//! Quotes: the module, the line of the program's own that loads it. Unsure: the request had not
//! begun and waited for the thread that most likely was to take it up, or few samples saw it load.

use std::collections::BTreeMap;

use analysis::frames::Owner;
use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::imports;

pub const RULE: Rule = Rule { id: "import", grounds: Grounds::Import, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str = "Import it at start-up, before the first request.";

const ADVICE_STARTING: &str =
    "Let requests come when the worker is ready: load the program before \
     it forks or listens (gunicorn: --preload), or have a readiness check.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let stack = segment.stack();
    if stack == 0 || segment.state == State::Unknown || !cx.frames.any(stack, imports::is_import) {
        return None;
    }
    let own_name = match segment.wait() {
        WaitKind::Futex => !cx.frames.of(stack).next().is_some_and(|f| imports::is_import(&f)),
        kind => matches!(
            kind,
            WaitKind::Sleep | WaitKind::Gil | WaitKind::SocketRead | WaitKind::ChildWait
        ),
    };
    let importer = cx.frames.caller_of_outermost(stack, imports::is_import).unwrap_or(stack);
    let own = Claim::of(Cause::Import, segment);
    let resource = module(cx, stack, importer).map(Resource::Module);
    (segment.state == State::Run || !own_name).then_some(Claim { stack: importer, resource, ..own })
}

/// The module whose code the import system ran for `importer`, the caller of the outermost import
/// on `stack`.
fn module(cx: &Context<'_>, stack: u32, importer: u32) -> Option<String> {
    let deep = cx.frames.of(stack).count().checked_sub(cx.frames.of(importer).count())?;
    let inner: Vec<Frame<'_>> = cx.frames.of(stack).take(deep).collect();
    let ours = |f: &&Frame<'_>| cx.frames.owner(f.file) == Owner::Dashcam;
    let mut from_outside = inner.iter().rev().skip_while(|f| imports::is_import(f) || ours(f));
    let first = from_outside.next().filter(|f| f.is_module_body())?;
    Some(cx.frames.place(first).module)
}

/// What is reported of the modules that so much time each was seen to go to, of `all` that the
/// imports of one function took: the module that took most of it, or the first of several that did.
/// None where for most of it no module was seen.
pub fn modules(known: BTreeMap<String, (&Resource, f64)>, all: f64) -> Option<Resource> {
    let sum: f64 = known.values().map(|(_, ns)| ns).sum();
    let others = known.len().checked_sub(1)?;
    let (first, (module, most)) = known.into_iter().max_by(|a, b| a.1 .1.total_cmp(&b.1 .1))?;
    match most * 2.0 > all {
        true => Some(module.clone()),
        false if sum * 2.0 <= all => None,
        false => Some(Resource::Modules { first, others }),
    }
}

/// Whether requests came before their worker was ready.
pub fn is_a_start(cause: Cause, resource: Option<&Resource>) -> bool {
    cause == Cause::Import && resource == Some(&Resource::WorkerStart)
}

/// Of a start it is when requests are let in that counts.
fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::WorkerStart) => ADVICE_STARTING,
        _ => ADVICE,
    }
}

fn sentence(d: &Described<'_>) -> String {
    if d.resource == Some(&Resource::WorkerStart) {
        let (at, time) = (rule::at(d.place), d.time());
        return format!(
            "requests came before their worker was ready: for {time} {at} was still loading the program"
        );
    }
    let what = d.resource.map_or_else(|| "a module".to_owned(), |names| format!("module {names}"));
    format!("{} loaded {what} for {}", rule::at(d.place), d.time())
}
