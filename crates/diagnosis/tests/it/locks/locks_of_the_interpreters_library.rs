//! On captures made by hand: a lock of the interpreter's library has its name.

use crate::made;

use diagnosis::diagnose;
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, Sleep};
use made::{also_seen, off, stack, stack_on, BEGIN, MS};

const OWN: u32 = 7;
const HOLDER: u32 = 9;

/// Up to CPython 3.11: a class' property is computed under one lock, whichever instance it is of.
#[test]
fn a_cached_property_is_computed_under_a_lock_of_functools() {
    let mut made = made::capture(OWN, &["GET /"]);
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let get = ("cached_property.__get__", "/usr/lib/python3.11/functools.py", 998);
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    let waits = stack_on(&mut made, view, &[get]);
    let rates = stack_on(&mut made, view, &[get, ("rates", "/srv/rates.py", 7)]);
    off(&mut made, OWN, &[(0, 499)]);
    also_seen(&mut made, OWN, (5..495).step_by(10), Futex, waits);
    off(&mut made, HOLDER, &[(0, 498)]);
    also_seen(&mut made, HOLDER, (5..495).step_by(10), Sleep, rates);
    for look in made.samples.get_mut(&OWN).into_iter().flatten() {
        (look.lock_holder, look.holder_source) = (HOLDER, HolderSource::OwnerField);
    }
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = &verdict.findings[0];
    let words = "for functools.cached_property's own lock, held by rates.py:7 rates()";
    assert!(first.summary.contains(words), "{}", first.summary);
    assert!(first.advice.contains("one lock for all instances"), "{}", first.advice);
}
