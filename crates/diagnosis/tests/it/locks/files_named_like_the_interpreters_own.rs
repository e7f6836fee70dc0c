//! On captures made by hand: files that bear the name of one of the interpreter's own, and the
//! threads that know a lock which is written in a file of its own.

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, SocketRead};
use made::{also_seen, off, request, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const LIBRARY: &str = "/usr/lib/python3.11/threading.py";

/// `get` in the program's `file` takes a lock that thread 9 holds.
fn locked_in(file: &str) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let own = stack(&mut made, &[("view", "/srv/shop/app.py", 3), ("get", file, 12)]);
    let held = stack(&mut made, &[("refill", "/srv/shop/app.py", 40)]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    off(&mut made, OWN, &[(0, 499)]);
    off(&mut made, OTHER, &[(0, 499)]);
    also_seen(&mut made, OWN, (5..499).step_by(10), Futex, own);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::WithBlock);
    }
    also_seen(&mut made, OTHER, (5..499).step_by(10), SocketRead, held);
    made
}

#[test]
fn a_file_of_the_program_is_not_the_librarys_of_that_name() {
    let reported = |file: &str| {
        let made = locked_in(file);
        let verdict = diagnose(&made, |_| 300 * MS);
        let first = &verdict.findings[0];
        let culprit = first.culprit.as_ref().map(|c| c.function.clone());
        (first.cause.text(), first.confidence.text(), culprit)
    };
    let wanted = ("lock-wait", "confirmed", Some("refill".to_owned()));
    for name in ["depot.py", "queue.py", "threading.py", "subprocess.py", "socket.py", "events.py"]
    {
        assert_eq!(reported(&format!("/srv/shop/{name}")), wanted, "{name}");
    }
    assert_eq!(reported("/usr/lib/python3.11/queue.py").0, "pool-wait", "the library's own");
}

/// A readers' lock in a file of its own; thread 9, which reloads what is read, is in `reload_in`.
fn gate(reload_in: &str) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let frames = [
        ("price", "/srv/shop/app.py", 8),
        ("enter", "/srv/shop/gate.py", 16),
        ("wait", LIBRARY, 320),
    ];
    let own = stack(&mut made, &frames);
    let loads = stack(&mut made, &[("reload", reload_in, 29)]);
    made.requests.push(request(99, OWN, BEGIN, 500));
    off(&mut made, OWN, &[(0, 499)]);
    off(&mut made, OTHER, &[(0, 498), (499, 900)]);
    also_seen(&mut made, OWN, (5..499).step_by(10), Futex, own);
    made.samples.get_mut(&OWN).expect("seen").iter_mut().for_each(|s| s.target = 4096);
    also_seen(&mut made, OTHER, (5..498).step_by(10), SocketRead, loads);
    made
}

#[test]
fn a_thread_in_the_file_of_a_handwritten_locks_caller_may_have_released_it() {
    let culprit = |made: &Capture| {
        let verdict = diagnose(made, |_| 300 * MS);
        assert_eq!(verdict.findings[0].cause.text(), "lock-wait", "{}", to_text(&verdict));
        verdict.findings[0].culprit.as_ref().map(|c| c.function.clone())
    };
    assert_eq!(culprit(&gate("/srv/shop/app.py")).as_deref(), Some("reload"));
    assert_eq!(culprit(&gate("/srv/shop/elsewhere.py")), None, "shares nothing with it");
}
