//! On captures made by hand: what the code of a wait waits for.

use crate::made;

use analysis::frames::Frames;
use analysis::resource::{Of, Resource};
use analysis::signatures::{Signature, Stdlib, NOTICES, OWN_POOLS, POOLS};
use made::stack;

const LIBRARY: &str = "/usr/lib/python3.11";
const USER: (&str, &str, u32) = ("view", "/srv/shop/app.py", 12);

/// What the wait of `view` is for, which calls these functions of the interpreter's library, the
/// outermost first.
fn of(signatures: &[Signature], calls: &[(&str, &str)]) -> Option<Resource> {
    let files: Vec<String> = calls.iter().map(|(_, file)| format!("{LIBRARY}/{file}")).collect();
    let library =
        calls.iter().zip(&files).map(|((function, _), file)| (*function, file.as_str(), 1));
    let frames: Vec<_> = std::iter::once(USER).chain(library).collect();
    let mut made = made::capture(7, &["GET /"]);
    let stack = stack(&mut made, &frames);
    Frames::new(&made).resource(stack, signatures)
}

const WAIT: (&str, &str) = ("Condition.wait", "threading.py");

#[test]
fn what_threading_waits_in_a_condition_for_follows_from_the_caller() {
    let event = ("Event.wait", "threading.py");
    let barrier = [("Barrier.wait", "threading.py"), ("Barrier._wait", "threading.py")];
    let join = [("Thread.join", "threading.py"), ("Thread._wait_for_tstate_lock", "threading.py")];
    assert_eq!(of(&NOTICES, &[WAIT]), Some(Resource::Condition(Of::Threads)));
    assert_eq!(of(&NOTICES, &[event, WAIT]), Some(Resource::Event(Of::Threads)));
    assert_eq!(of(&NOTICES, &[barrier[0], barrier[1], WAIT]), Some(Resource::Barrier));
    assert_eq!(of(&NOTICES, &join), Some(Resource::ThreadEnd));
    assert_eq!(of(&NOTICES, &[("Queue.get", "queue.py")]), None);
}

#[test]
fn pools_are_recognized_by_the_caller_of_the_condition() {
    let (get, put) = (("Queue.get", "queue.py"), ("Queue.put", "queue.py"));
    let acquire = ("Semaphore.acquire", "threading.py");
    assert_eq!(of(&POOLS, &[put, WAIT]), Some(Resource::Room));
    assert_eq!(of(&POOLS, &[put]), None, "waits for the queue's own lock");
    assert_eq!(of(&OWN_POOLS, &[get, WAIT]), Some(Resource::Item));
    assert_eq!(of(&OWN_POOLS, &[acquire, WAIT]), Some(Resource::Permit));
    let pool = [("Pool.map", "multiprocessing/pool.py"), ("Event.wait", "threading.py"), WAIT];
    assert_eq!(of(&POOLS, &pool), Some(Resource::Processes));
    let notice = ("Condition.wait", "multiprocessing/synchronize.py");
    assert_eq!(of(&POOLS, &[notice]), Some(Resource::OtherProcess));
}

#[test]
fn what_other_code_takes_for_itself_is_no_pool_of_the_programs() {
    let worker = ("_worker", "concurrent/futures/thread.py");
    assert_eq!(of(&OWN_POOLS, &[worker, ("Queue.get", "queue.py"), WAIT]), None);
}

#[test]
fn a_file_of_the_program_with_the_name_of_the_interpreters_is_none() {
    let mut made = made::capture(7, &["GET /"]);
    let own = stack(
        &mut made,
        &[USER, ("get", "/srv/shop/queue.py", 3), ("wait", "/srv/shop/threading.py", 9)],
    );
    let frames = Frames::new(&made);
    assert!(!frames.leaf_at(own, Stdlib::Wait) && !frames.any_at(own, Stdlib::QueueGet));
    assert_eq!(frames.resource(own, &OWN_POOLS).or(frames.resource(own, &NOTICES)), None);
}
