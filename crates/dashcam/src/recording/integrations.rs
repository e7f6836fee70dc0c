//! The integrations that begin requests: all that a binding has, and those that are in place.
//!
//! How it works: a binding gives all names once, and one when its module was hooked. Lists are
//! replaced, not changed, so a forked child reads whole ones without a lock. What it promises:
//! dashcam's threads read them at any time. What is missing on purpose: hooks that only rename or
//! pass on; and lists that are freed (some dozen names in the life of a process).

use sys::cell::StaticRef;

static KNOWN: StaticRef<Vec<String>> = StaticRef::empty();
static IN_PLACE: StaticRef<Vec<String>> = StaticRef::empty();

/// All of them.
pub fn known_integrations(names: Vec<String>) {
    KNOWN.set(Some(Box::leak(Box::new(names))));
}

/// One is in place. Bindings call this one at a time.
pub fn integration_in_place(name: &str) {
    let old = in_place();
    if old.iter().any(|one| one == name) {
        return;
    }
    let mut names = old.to_vec();
    names.push(name.to_owned());
    IN_PLACE.set(Some(Box::leak(Box::new(names))));
}

pub(crate) fn known() -> &'static [String] {
    KNOWN.get().map_or(&[], Vec::as_slice)
}

pub(crate) fn in_place() -> &'static [String] {
    IN_PLACE.get().map_or(&[], Vec::as_slice)
}
