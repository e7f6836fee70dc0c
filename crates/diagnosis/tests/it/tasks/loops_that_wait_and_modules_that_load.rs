//! On captures made by hand: an event loop that waits for another thread is that thread's doing;
//! code that a library generated is nobody's place; an import says what it loads, where that was
//! seen.

use crate::made;

use capture::read::{Capture, TaskRow};
use diagnosis::{diagnose, Finding, Unit};
use format::record::TARGET_IS_NAME;
use format::wait::{HolderSource, WaitKind};
use made::{off, sample, stack, BEGIN, MS};

const APP: &str = "/srv/app.py";
const THREAD: u32 = 7;
const OTHER: u32 = 9;

/// The slow request takes 500 ms; `loops`: on an event loop.
fn capture(loops: bool) -> Capture {
    let mut made = made::capture(THREAD, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    let mut row = made::request(99, THREAD, BEGIN, 500);
    row.on_loop = loops;
    made.requests.push(row);
    made
}

fn seen(made: &mut Capture, tid: u32, from_ms: u64, to_ms: u64, wait: WaitKind, stack: u32) {
    let samples = (from_ms..to_ms).step_by(10).map(|ms| sample(tid, BEGIN + ms * MS, wait, stack));
    made.samples.entry(tid).or_default().extend(samples);
}

fn held_by(made: &mut Capture, holder: u32, source: HolderSource) {
    for look in made.samples.get_mut(&THREAD).into_iter().flatten() {
        (look.lock_holder, look.holder_source) = (holder, source);
    }
}

fn findings(made: &Capture) -> Vec<Finding> {
    diagnose(made, |_| 300 * MS).findings
}

fn only(made: &Capture) -> Finding {
    let mut all = findings(made);
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(|f| &f.summary).collect::<Vec<_>>());
    all.remove(0)
}

fn culprit(finding: &Finding) -> &str {
    &finding.culprit.as_ref().expect("a culprit").function
}

/// The loop waits with this code, innermost last, while `OTHER` waits for a child in `pull`.
fn loop_waits(code: &[(&str, &str, u32)]) -> Capture {
    let mut made = capture(true);
    let waits = stack(&mut made, code);
    let works = stack(&mut made, &[("reload", APP, 60), ("pull", APP, 70)]);
    off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
    seen(&mut made, THREAD, 5, 499, WaitKind::Futex, waits);
    off(&mut made, OTHER, &[(0, 498), (499, 1000)]);
    seen(&mut made, OTHER, 5, 498, WaitKind::ChildWait, works);
    made
}

#[test]
fn the_task_that_kept_a_loop_is_named_and_changes_nothing_else() {
    let named = |task: u32, name: &str| {
        let mut made = loop_waits(&[("view", APP, 10), ("get", APP, 12)]);
        made.names.push(name.to_owned());
        let name = made.names.len() as u32 - 1;
        for look in made.samples.get_mut(&THREAD).into_iter().flatten() {
            (look.wait, look.task) = (WaitKind::Sleep, task * name);
        }
        only(&made)
    };
    let (with, without) = (named(1, "refresh prices"), named(0, "refresh prices"));
    let rows = |finding: &Finding| finding.evidence.clone();
    let own = |finding: &Finding| {
        let of = |row: &&diagnosis::Evidence| row.what.contains("`refresh prices`");
        rows(finding).iter().find(of).map(|row| (row.value, row.unit))
    };
    assert_eq!(with.cause.text(), "event-loop-blocked");
    assert!(
        own(&with).is_some_and(|(part, unit)| part > 90.0 && unit == Unit::Percent),
        "{:?}",
        rows(&with)
    );
    assert_eq!(own(&without), None);
    assert_eq!(rows(&with).len(), rows(&without).len() + 1);
    let said = with.summary.replace(" in task `refresh prices`", "");
    assert_eq!((&said, &with.fingerprint), (&without.summary, &without.fingerprint));
    assert_ne!(with.summary, said);
    // A task without a name of its own has its coroutine's: no more than the place says.
    assert_eq!(named(1, "get()").summary, without.summary);
}

#[test]
fn the_holder_of_the_lock_that_a_loop_waits_for_kept_the_loop() {
    let mut made = loop_waits(&[("view", APP, 10), ("get", APP, 12)]);
    held_by(&mut made, OTHER, HolderSource::WithBlock);
    let finding = only(&made);
    assert_eq!((finding.cause.text(), culprit(&finding)), ("event-loop-blocked", "pull"));
    assert_eq!(finding.place.as_ref().expect("a place").function, "get");
    let said = "app.py:12 get() kept the event loop for 499 ms; it waited for a lock, held by \
                app.py:70 pull() (called by reload()) in another thread, which waited for a child process";
    assert_eq!(finding.summary, said);
    assert_eq!(finding.confidence.text(), "confirmed");
    assert!(finding.advice.contains("no thread"), "{}", finding.advice);
}

/// Two threads log: one waits for the handler's lock, the other one at the pipe, in the same line.
#[test]
fn a_lock_that_another_thread_holds_at_the_same_line_is_not_the_loops_own_doing() {
    let mut made = loop_waits(&[("view", APP, 10), ("info", APP, 12)]);
    let writes = stack(&mut made, &[("pull", APP, 70), ("info", APP, 12)]);
    made.samples.remove(&OTHER);
    seen(&mut made, OTHER, 5, 498, WaitKind::PipeWrite, writes);
    held_by(&mut made, OTHER, HolderSource::WithBlock);
    let finding = only(&made);
    assert_eq!(finding.cause.text(), "event-loop-blocked");
    let said = "it waited for a lock, held by app.py:12 info()";
    assert!(finding.summary.contains(said), "{}", finding.summary);
    assert!(finding.summary.contains("which waited on a pipe"), "{}", finding.summary);
    assert!(finding.advice.contains("log collector"), "{}", finding.advice);
}

#[test]
fn advice_for_a_kept_loop_names_the_loop_that_it_is() {
    let advice = |loops: &str| {
        let mut made = loop_waits(&[("view", APP, 10), ("get", APP, 12)]);
        stack(&mut made, &[("Hub.run", loops, 60)]);
        let finding = only(&made);
        assert_eq!(finding.cause.text(), "event-loop-blocked");
        finding.advice
    };
    let (greenlets, tasks) = (advice("/lib/site-packages/gevent/hub.py"), advice(APP));
    assert!(greenlets.contains("gevent") && !greenlets.contains("asyncio"), "{greenlets}");
    assert!(tasks.contains("asyncio") && !tasks.contains("gevent"), "{tasks}");
}

#[test]
fn a_loop_whose_lock_nobody_is_known_to_hold_is_its_own_culprit() {
    let mut made = loop_waits(&[("view", APP, 10), ("get", APP, 12)]);
    // A bystander of another file.
    let other = stack(&mut made, &[("serve", "/srv/web.py", 60)]);
    made.samples.remove(&OTHER);
    seen(&mut made, OTHER, 5, 498, WaitKind::ChildWait, other);
    let finding = only(&made);
    assert_eq!((finding.cause.text(), culprit(&finding)), ("event-loop-blocked", "get"));
    assert!(finding.summary.ends_with("; it waited for a lock"), "{}", finding.summary);
    assert!(finding.advice.contains("asynchronous"), "{}", finding.advice);
}

#[test]
fn a_loop_that_computes_longer_than_it_waits_is_its_own_culprit() {
    let mut made = loop_waits(&[("view", APP, 10), ("get", APP, 12)]);
    held_by(&mut made, OTHER, HolderSource::WithBlock);
    off(&mut made, THREAD, &[(0, 150), (500, 1000)]);
    made.samples.get_mut(&THREAD).expect("seen").retain(|look| look.t_ns < BEGIN + 150 * MS);
    let computes = stack(&mut made, &[("view", APP, 10), ("get", APP, 14)]);
    seen(&mut made, THREAD, 155, 499, WaitKind::Running, computes);
    let finding = only(&made);
    assert_eq!((finding.cause.text(), culprit(&finding)), ("event-loop-blocked", "get"));
    assert!(finding.summary.ends_with("; it computed"), "{}", finding.summary);
}

#[test]
fn a_thread_whose_end_a_loop_waits_for_holds_no_lock() {
    let join = ("Thread.join", "/lib/threading.py", 50);
    let mut made = loop_waits(&[("view", APP, 10), join]);
    held_by(&mut made, OTHER, HolderSource::Joined);
    let finding = only(&made);
    assert_eq!((finding.cause.text(), culprit(&finding)), ("event-loop-blocked", "pull"));
    let said = "it waited for a thread's end, kept from it by app.py:70 pull()";
    assert!(finding.summary.contains(said), "{}", finding.summary);
}

#[test]
fn a_loop_that_waits_for_a_pools_result_is_blocked_whoever_works_for_the_request() {
    let result = ("Future.result", "/lib/concurrent/futures/_base.py", 450);
    let wait = ("Condition.wait", "/lib/threading.py", 300);
    let mut made = loop_waits(&[("view", APP, 10), result, wait]);
    let (queued_ns, begin_ns) = (BEGIN + MS, BEGIN + 490 * MS);
    made.tasks.push(TaskRow {
        request: 99,
        tid: OTHER,
        queued_ns,
        begin_ns,
        end_ns: BEGIN + 498 * MS,
    });
    let finding = only(&made);
    assert_eq!((finding.cause.text(), culprit(&finding)), ("event-loop-blocked", "pull"));
    assert_eq!(finding.place.as_ref().expect("a place").function, "view");
    let said = "it waited for a pool; most likely app.py:70 pull()";
    assert!(finding.summary.contains(said), "{}", finding.summary);
    assert_eq!(finding.confidence.text(), "likely", "inferred is never confirmed");
}

#[test]
fn what_a_library_generated_is_no_place_but_what_was_typed_is() {
    let pool = "/lib/site-packages/alchemy/pool/impl.py";
    for (file, function) in [
        ("<alchemy generated wrapper for a.b.c>", "view"),
        ("<string>", "view"),
        ("<stdin>", "made_there"),
        ("<ipython-input-3-0a1b>", "made_there"),
    ] {
        let mut made = capture(false);
        let code = [
            ("view", APP, 10),
            ("connect", "/lib/site-packages/alchemy/session.py", 20),
            ("made_there", file, 2),
            ("do_get", pool, 30),
            ("wait", "/lib/threading.py", 300),
        ];
        let waits = stack(&mut made, &code);
        off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Futex, waits);
        let finding = only(&made);
        assert_eq!(finding.cause.text(), "pool-wait");
        assert_eq!(finding.place.expect("a place").function, function, "{file}");
    }
}

#[test]
fn a_waiter_for_the_same_pool_at_another_line_of_its_code_has_no_item_of_it() {
    let pool = "/lib/site-packages/alchemy/pool/impl.py";
    let wait = ("wait", "/lib/threading.py", 300);
    let mut made = capture(false);
    let waits = stack(&mut made, &[("view", APP, 10), ("do_get", pool, 30), wait]);
    let fellow = stack(&mut made, &[("orders", APP, 40), ("do_get", pool, 34), wait]);
    off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
    seen(&mut made, THREAD, 5, 499, WaitKind::Futex, waits);
    off(&mut made, OTHER, &[(100, 498), (499, 1000)]);
    seen(&mut made, OTHER, 105, 498, WaitKind::Futex, fellow);
    // Each that waits for a Condition does so in a lock of its own.
    for (tid, samples) in &mut made.samples {
        samples.iter_mut().for_each(|look| look.target = u64::from(*tid));
    }
    let finding = only(&made);
    assert_eq!((finding.cause.text(), finding.culprit.map(|c| c.function)), ("pool-wait", None));
}

/// Function, file, line.
type Line = (&'static str, &'static str, u32);

const LOADS: Line = ("_find_and_load", "<frozen importlib._bootstrap>", 1176);
const READS: Line = ("get_data", "<frozen importlib._bootstrap_external>", 1073);

/// The request loads something: for so many ms each with this code called by `load`.
fn loading(parts: &[(u64, &[Line])]) -> Finding {
    let mut made = capture(false);
    off(&mut made, THREAD, &[(500, 1000)]);
    let mut at = 0;
    for (ms, code) in parts {
        let whole = [&[("view", APP, 10), ("load", APP, 16), LOADS], *code].concat();
        let loads = stack(&mut made, &whole);
        seen(&mut made, THREAD, at + 5, at + ms, WaitKind::Running, loads);
        at += ms;
    }
    only(&made)
}

#[test]
fn an_import_names_the_module_that_its_caller_loads() {
    let panda = ("<module>", "/lib/site-packages/panda/__init__.py", 3);
    let inner = ("<module>", "/lib/site-packages/panda/core/frame.py", 9);
    let finding = loading(&[(400, &[panda, LOADS, inner]), (100, &[READS])]);
    assert_eq!((finding.cause.text(), finding.target().as_deref()), ("import", Some("panda")));
    let said = "app.py:16 load() loaded module panda for 500 ms";
    assert!(finding.summary.starts_with(said), "{}", finding.summary);
}

#[test]
fn an_import_of_many_modules_names_the_first_and_counts_the_others() {
    let [a, b, c] = ["/srv/plug_a.py", "/srv/plug_b.py", "/srv/plug_c.py"];
    let module = |file| [("<module>", file, 1)];
    let (a, b, c) = (module(a), module(b), module(c));
    let finding = loading(&[(200, &a), (150, &b), (150, &c)]);
    assert_eq!(finding.target().as_deref(), Some("plug_a and 2 others"));
    let finding = loading(&[(240, &a), (180, &b), (80, &[READS])]);
    assert_eq!(finding.target().as_deref(), Some("plug_a and another"));
}

#[test]
fn an_import_that_was_seen_reading_or_in_a_finder_names_no_module() {
    let module = [("<module>", "/srv/plug_a.py", 1)];
    let finding = loading(&[(400, &[READS]), (100, &module)]);
    assert_eq!(finding.target(), None);
    assert!(finding.summary.contains("loaded a module for"), "{}", finding.summary);
    // A finder of the program's own that loads something itself: that is not what was asked for.
    let finder = [("find_spec", "/srv/finder.py", 5), LOADS, module[0]];
    assert_eq!(loading(&[(500, &finder)]).target(), None);
}

/// uvloop calls its callbacks without any frame of asyncio's.
#[test]
fn code_of_a_task_that_polls_keeps_the_loop_whatever_it_polls() {
    for target in ["", "anon_inode:[eventpoll] of tcp 127.0.0.1:5439"] {
        let mut made = capture(true);
        made.names.extend(["ask()".to_owned(), target.to_owned()]);
        let name = made.names.len() as u32 - 2;
        let polls = stack(&mut made, &[("view", APP, 10), ("tables", APP, 14)]);
        off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Poll, polls);
        for look in made.samples.get_mut(&THREAD).into_iter().flatten() {
            look.task = name;
            look.target = if target.is_empty() { 0 } else { TARGET_IS_NAME | u64::from(name + 1) };
        }
        let finding = only(&made);
        let place = finding.place.as_ref().map(|place| &*place.function);
        assert_eq!((finding.cause.text(), place), ("event-loop-blocked", Some("tables")));
        let peer = if target.is_empty() { "a peer" } else { "tcp 127.0.0.1:5439" };
        let waited = format!("; it waited for {peer}");
        assert!(finding.summary.contains(&waited), "{}", finding.summary);
    }
}

#[test]
fn a_callback_that_polls_an_unknown_peer_keeps_the_loop() {
    let runs = ("Handle._run", "/lib/asyncio/events.py", 84);
    let reads = ("SocketIO.readinto", "/lib/socket.py", 718);
    let polls = [("send", APP, 8), ("deliver", APP, 5), reads];
    for code in
        [&[runs, polls[0], polls[1]][..], &polls[..], &[runs, polls[0], polls[1], reads][..]]
    {
        let mut made = capture(true);
        let waits = stack(&mut made, code);
        off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Poll, waits);
        let finding = only(&made);
        assert_eq!((finding.cause.text(), culprit(&finding)), ("event-loop-blocked", "deliver"));
        let text = diagnose(&made, |_| 300 * MS);
        let text = report::to_text(&text);
        assert!(text.contains("waited for a peer, reached from send()."), "{text}");
    }
    // Its own loop's code, or that of one that is not Python, waits for something to do.
    for code in [
        &[("run", APP, 1), ("BaseEventLoop._run_once", "/lib/asyncio/base_events.py", 1)][..],
        &[("run", APP, 1), ("Runner.run", "/lib/asyncio/runners.py", 118)][..],
    ] {
        let mut made = capture(true);
        let waits = stack(&mut made, code);
        off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Poll, waits);
        assert!(findings(&made).iter().all(|f| f.cause.text() != "event-loop-blocked"));
    }
}

/// Whatever its instance waits for, among it a peer that a request may wait for: the loop has
/// nothing to do.
#[test]
fn a_loop_that_polls_its_instance_waits_for_something_to_do_whatever_is_registered_there() {
    let run = [("run", APP, 1), ("Runner.run", "/lib/asyncio/runners.py", 118)];
    let polled = |text: &str| {
        let mut made = capture(true);
        let waits = stack(&mut made, &run);
        off(&mut made, THREAD, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Poll, waits);
        made.names.push(text.to_owned());
        let name = format::record::TARGET_IS_NAME | (made.names.len() as u64 - 1);
        made.samples.get_mut(&THREAD).into_iter().flatten().for_each(|look| look.target = name);
        findings(&made).into_iter().map(|f| (f.cause.text(), f.target())).collect::<Vec<_>>()
    };
    let plain = polled("anon_inode:[eventpoll]");
    assert!(plain.iter().all(|(cause, _)| *cause == "unknown"), "{plain:?}");
    for members in
        ["tcp 10.0.0.7:5432", "udp 10.0.0.2:53", "a pipe of child process cat and 2 more"]
    {
        assert_eq!(polled(&format!("anon_inode:[eventpoll] of {members}")), plain);
    }
    // A set of a selector without an instance is a loop's if the loop's code polls it.
    assert_ne!(polled("tcp 10.0.0.7:5432, pipe:[7] and 3 more"), plain);
}

/// Two requests: the work of the one, in a pool, keeps the GIL from the other's loop. It is off the
/// CPU at these times, in a wait of this kind.
fn sibling_in_a_pool(apart: &[(u64, u64)], kind: WaitKind) -> Capture {
    let mut made = capture(true);
    let mut other = made::request(100, THREAD, BEGIN, 500);
    other.on_loop = true;
    made.requests.push(other);
    made.tasks.push(TaskRow {
        request: 99,
        tid: OTHER,
        queued_ns: BEGIN,
        begin_ns: BEGIN,
        end_ns: BEGIN + 499 * MS,
    });
    let waits = stack(&mut made, &[("run", APP, 3)]);
    let works = stack(&mut made, &[("view", APP, 60), ("parse", APP, 70)]);
    let turns: Vec<(u64, u64)> = (0..100).map(|i| (i * 5, i * 5 + 5)).collect();
    off(&mut made, THREAD, &turns);
    seen(&mut made, THREAD, 2, 499, WaitKind::Gil, waits);
    for look in made.samples.get_mut(&THREAD).into_iter().flatten() {
        look.gil_holder = OTHER;
    }
    off(&mut made, OTHER, &[apart, &[(499, 1000)]].concat());
    seen(&mut made, OTHER, 2, 499, kind, works);
    made
}

#[test]
fn a_waiter_for_the_gil_of_a_siblings_work_in_a_pool_waits_for_that_work() {
    let faults: Vec<(u64, u64)> = (0..49).map(|i| (i * 10 + 1, i * 10 + 9)).collect();
    let cases: [(&[_], _, _); 2] =
        [(&[], WaitKind::Running, "cpu"), (&faults, WaitKind::Fault, "page-fault")];
    for (apart, kind, cause) in cases {
        let made = sibling_in_a_pool(apart, kind);
        let finding = &findings(&made)[0];
        let summary = &finding.summary;
        assert_eq!((finding.cause.text(), finding.slow_requests), (cause, 2), "{summary}");
        assert_eq!(finding.place.as_ref().expect("a place").function, "parse");
    }
}

#[test]
fn a_loop_that_loads_a_module_is_advised_to_load_it_earlier() {
    for (inner, earlier) in [(LOADS, true), (("parse", APP, 70), false)] {
        let mut made = capture(true);
        let code = stack(&mut made, &[("view", APP, 12), inner]);
        off(&mut made, THREAD, &[(499, 1000)]);
        seen(&mut made, THREAD, 5, 499, WaitKind::Running, code);
        let finding = only(&made);
        assert_eq!(finding.cause.text(), "event-loop-blocked", "{}", finding.summary);
        assert_eq!(finding.advice.contains("start"), earlier, "{}", finding.advice);
    }
}

/// A loop that waits 14 ms and runs one, again and again; a sample or none found it in a callback.
#[test]
fn a_loop_that_nobody_saw_at_anything_may_have_polled_all_the_while() {
    let mut made = capture(true);
    let waits = (0..33).map(|i| (i * 15 + 1, i * 15 + 15));
    off(&mut made, THREAD, &waits.chain([(500, 9000)]).collect::<Vec<_>>());
    let before = capture::read::OffCpu {
        out_ns: BEGIN - 9000 * MS,
        in_ns: BEGIN,
        preempted: false,
        cpu: None,
    };
    made.off_cpu.get_mut(&THREAD).expect("it waits").insert(0, before);
    let reads = stack(&mut made, &[("pages", APP, 6)]);
    let awaits = (1..10).map(|i| {
        let look = made::awaited(i * 50, 99, 99, format::wait::AwaitKind::Socket, reads);
        format::record::Await { t_ns: look.t_ns + 7 * MS, ..look }
    });
    made.awaits.insert(99, awaits.collect());
    let cause = |made: &Capture| findings(made)[0].cause.text();
    assert_eq!(cause(&made), "downstream-wait");
    let run = ("Handle._run", "/lib/asyncio/events.py", 80);
    let asks = stack(&mut made, &[run, ("pull", APP, 70)]);
    seen(&mut made, THREAD, 200, 201, WaitKind::SocketRead, asks);
    assert_eq!(cause(&made), "event-loop-blocked");
}
