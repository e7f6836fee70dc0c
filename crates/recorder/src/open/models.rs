//! The table under loom: every interleaving of a few threads, and every value that the memory model
//! lets a load return. It has one slot here, which requests take one after the other.
#![allow(clippy::expect_used)]

use std::sync::Arc;

use format::trace::Trace;
use loom::thread;

use super::table::{OpenRequest, OpenTable};

/// A request of which each field follows from `tid`.
fn enter(table: &OpenTable, tid: u32) -> Option<u64> {
    table.enter(u64::from(tid) * 10, tid, tid, tid % 2 == 1)
}

/// Its owner finds what it put there, and frees the slot.
fn leave(table: &OpenTable, id: u64, tid: u32) {
    let (name, on_loop, failed) = table.leave(id).expect("it is open");
    assert_eq!((name, on_loop, failed.is()), (tid, tid % 2 == 1, false));
}

/// Ids that follow from the request's.
fn trace_of(request: u64) -> Trace {
    let (trace, span) = (u128::from(request) << 64 | u128::from(request), request);
    Trace { request, trace, span, parent: request, remote: true, ..Trace::default() }
}

/// All open requests; fails on fields that do not belong together.
fn walk(table: &OpenTable) -> Vec<u64> {
    let mut found = Vec::new();
    table.each(|open| {
        let OpenRequest { id, begin_ns, name, tid, on_loop, .. } = open;
        assert_eq!((begin_ns, name), (u64::from(tid) * 10, tid), "torn: {open:?}");
        assert_eq!(on_loop, tid % 2 == 1, "torn: {open:?}");
        found.push(id);
    });
    found
}

/// The trigger walks the table while a slot passes from one request to the next.
#[test]
fn a_walk_never_shows_a_mix_of_two_requests() {
    loom::model(|| {
        let table = Arc::new(OpenTable::new());
        let first = enter(&table, 1).expect("there is a slot");
        let theirs = table.clone();
        let reader = thread::spawn(move || walk(&theirs));
        leave(&table, first, 1);
        let second = enter(&table, 2).expect("there is a slot");
        let seen = reader.join().expect("no panic");
        assert!(seen.is_empty() || seen == [first] || seen == [second], "{seen:?}");
        assert_eq!(walk(&table), [second]);
    });
}

/// Two threads begin at once: one of them gets the slot, and no other finds what it put there.
#[test]
fn a_slot_has_one_owner_at_a_time() {
    loom::model(|| {
        let table = Arc::new(OpenTable::new());
        let theirs = table.clone();
        let live = |table: &OpenTable, tid: u32| {
            let Some(id) = enter(table, tid) else { return table.untracked() };
            table.rename(id, tid);
            leave(table, id, tid);
            id
        };
        let other = thread::spawn(move || live(&theirs, 2));
        let own = live(&table, 1);
        let others = other.join().expect("no panic");
        assert_ne!(own, others, "two requests of one id");
        assert!(!table.is_open(own) && !table.is_open(others) && walk(&table).is_empty());
    });
}

/// The sampler reads the ids of a request that ends, and whose slot goes to another with ids.
#[test]
fn ids_from_outside_are_never_those_of_another_request() {
    loom::model(|| {
        let table = Arc::new(OpenTable::new());
        let first = enter(&table, 1).expect("there is a slot");
        let theirs = table.clone();
        let reader = thread::spawn(move || {
            let seen = theirs.trace(first);
            assert!(seen.is_none_or(|ids| ids == trace_of(first)), "{seen:?}");
        });
        table.set_trace(&trace_of(first));
        leave(&table, first, 1);
        let second = enter(&table, 2).expect("there is a slot");
        assert_eq!(table.trace(second), None);
        table.set_trace(&trace_of(second));
        reader.join().expect("no panic");
        assert_eq!(table.trace(second), Some(trace_of(second)));
    });
}

/// A forked child has a table of its own, and contexts with ids of its parent's requests. Here the
/// parent's thread runs on, as threads of a process do whose recorder is another one now.
#[test]
fn a_childs_table_never_takes_a_parents_request_for_its_own() {
    loom::model(|| {
        let parents = Arc::new(OpenTable::new());
        let theirs = parents.clone();
        let parent = thread::spawn(move || enter(&theirs, 1).expect("there is a slot"));
        let childs = OpenTable::new();
        let own = enter(&childs, 1).expect("there is a slot");
        let inherited = parent.join().expect("no panic");
        assert_ne!(own, inherited);
        assert!(childs.is_open(own) && childs.has_ended(inherited));
        assert!(childs.leave(inherited).is_none(), "it ended the child's request");
        assert!(childs.find(inherited).is_none() && childs.trace(inherited).is_none());
        assert!(parents.is_open(inherited) && !parents.is_open(own));
        assert_eq!(walk(&childs), [own]);
    });
}
