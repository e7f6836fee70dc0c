//! What can be wrong with a program: real mechanisms, one function each, those of the zoo.
//!
//! How it works: a defect makes the functions and things it needs and says what a request calls
//! (`Ill::op`), whether every request does, and the right answer. In the healthy twin the same
//! functions do little. `own` is what the request's own thread does; in `others` another thread or
//! process is to blame; `tasks` are of event loops; `asking` are waits with a time limit; `crowded`
//! are waits whose holder is hidden or far away; `arriving` keep requests from being taken up;
//! `mixed` have parts that mislead, or two defects at once.
//!
//! To add one: a function and a row of `DEFECTS`.

mod arriving;
mod asking;
mod crowded;
pub mod ill;
mod mixed;
mod others;
mod own;
mod tasks;

pub use ill::{Defect, Ill};

use super::Server;

/// Threads.
const THREADS: &[Server] = &[Server::Threads, Server::Workers];
/// A pool of workers.
const WORKERS: &[Server] = &[Server::Workers];
/// One thread.
const SYNC: &[Server] = &[Server::Sync];
/// The event loop.
const LOOP: &[Server] = &[Server::Loop];
/// All that share the GIL with threads beside.
const ALL: &[Server] = &[Server::Threads, Server::Workers, Server::Sync, Server::Loop];

/// All of them, in the order in which seeds take them.
pub const DEFECTS: &[Defect] = &[
    Defect { name: "sleep_nap", servers: THREADS, make: own::sleep_nap },
    Defect { name: "lock_sleep", servers: THREADS, make: others::lock_sleep },
    Defect { name: "cpu_loop", servers: THREADS, make: own::cpu_loop },
    Defect { name: "gil_sort", servers: THREADS, make: others::gil_sort },
    Defect { name: "downstream_ask", servers: THREADS, make: own::downstream_ask },
    Defect { name: "pool_queue", servers: THREADS, make: others::pool_queue },
    Defect { name: "task_sleep", servers: LOOP, make: tasks::task_sleep },
    Defect { name: "gc_asked", servers: THREADS, make: own::gc_asked },
    Defect { name: "lock_by_hand", servers: THREADS, make: others::lock_by_hand },
    Defect { name: "cpu_digest", servers: THREADS, make: own::cpu_digest },
    Defect { name: "pool_workers", servers: THREADS, make: others::pool_workers },
    Defect { name: "stopped", servers: THREADS, make: others::stopped },
    Defect { name: "task_lock", servers: LOOP, make: tasks::task_lock },
    Defect { name: "connect_full", servers: THREADS, make: own::connect_full },
    Defect { name: "downstream_loop", servers: THREADS, make: own::downstream_loop },
    Defect { name: "starved", servers: THREADS, make: others::starved },
    Defect { name: "sleep_retry", servers: THREADS, make: own::sleep_retry },
    Defect { name: "lock_digest", servers: THREADS, make: others::lock_digest },
    Defect { name: "blocked_sleep", servers: LOOP, make: tasks::blocked_sleep },
    Defect { name: "disk_sync", servers: THREADS, make: own::disk_sync },
    Defect { name: "gc_elsewhere", servers: THREADS, make: others::gc_elsewhere },
    Defect { name: "deadlock", servers: THREADS, make: others::deadlock },
    Defect { name: "dns_slow", servers: THREADS, make: own::dns_slow },
    Defect { name: "pool_permits", servers: THREADS, make: others::pool_permits },
    Defect { name: "task_stream", servers: LOOP, make: tasks::task_stream },
    Defect { name: "child_run", servers: THREADS, make: own::child_run },
    Defect { name: "throttled", servers: THREADS, make: others::throttled },
    Defect { name: "cpu_regex", servers: THREADS, make: own::cpu_regex },
    Defect { name: "gil_crowd", servers: THREADS, make: others::gil_crowd },
    Defect { name: "import_late", servers: THREADS, make: own::import_late },
    Defect { name: "pool_room", servers: THREADS, make: others::pool_room },
    Defect { name: "blocked_cpu", servers: LOOP, make: tasks::blocked_cpu },
    Defect { name: "pipe_full", servers: THREADS, make: own::pipe_full },
    Defect { name: "event_late", servers: THREADS, make: others::event_late },
    Defect { name: "fork_large", servers: THREADS, make: own::fork_large },
    Defect { name: "lock_peer", servers: THREADS, make: others::lock_peer },
    Defect { name: "fault_fresh", servers: THREADS, make: own::fault_fresh },
    Defect { name: "task_permits", servers: LOOP, make: tasks::task_permits },
    Defect { name: "sleep_event", servers: THREADS, make: own::sleep_event },
    Defect { name: "fork_elsewhere", servers: THREADS, make: others::fork_elsewhere },
    Defect { name: "fault_major", servers: THREADS, make: own::fault_major },
    Defect { name: "lock_file", servers: THREADS, make: own::lock_file },
    Defect { name: "task_queue", servers: LOOP, make: tasks::task_queue },
    Defect { name: "disk_read", servers: THREADS, make: own::disk_read },
    Defect { name: "task_executor", servers: LOOP, make: tasks::task_executor },
    Defect { name: "task_connect", servers: LOOP, make: tasks::task_connect },
    Defect { name: "lock_chain", servers: THREADS, make: others::lock_chain },
    Defect { name: "sleep_flag", servers: THREADS, make: own::sleep_flag },
    Defect { name: "lock_convoy", servers: THREADS, make: others::lock_convoy },
    Defect { name: "downstream_library", servers: THREADS, make: own::downstream_library },
    Defect { name: "mailbox", servers: THREADS, make: others::mailbox },
    Defect { name: "slices_socket", servers: THREADS, make: asking::slices_socket },
    Defect { name: "slices_event", servers: THREADS, make: asking::slices_event },
    Defect { name: "slices_queue", servers: THREADS, make: asking::slices_queue },
    Defect { name: "notice_lost", servers: THREADS, make: asking::notice_lost },
    Defect { name: "notice_stopped", servers: THREADS, make: asking::notice_stopped },
    Defect { name: "half_sleep", servers: THREADS, make: asking::half_sleep },
    Defect { name: "half_answer", servers: THREADS, make: asking::half_answer },
    Defect { name: "hidden_lock", servers: THREADS, make: crowded::hidden_lock },
    Defect { name: "hidden_permits", servers: THREADS, make: crowded::hidden_permits },
    Defect { name: "hops_queue", servers: THREADS, make: crowded::hops_queue },
    Defect { name: "hops_lock", servers: THREADS, make: crowded::hops_lock },
    Defect { name: "client_silent", servers: SYNC, make: crowded::client_silent },
    Defect { name: "workers_kept", servers: WORKERS, make: crowded::workers_kept },
    Defect { name: "loop_crowd", servers: LOOP, make: crowded::loop_crowd },
    Defect { name: "loop_starved", servers: LOOP, make: crowded::loop_starved },
    Defect { name: "native_threads", servers: THREADS, make: crowded::native_threads },
    Defect { name: "gil_publisher", servers: ALL, make: arriving::gil_publisher },
    Defect { name: "gil_asleep", servers: ALL, make: arriving::gil_asleep },
    Defect { name: "shared_reader", servers: THREADS, make: mixed::shared_reader },
    Defect { name: "shared_writer", servers: THREADS, make: mixed::shared_writer },
    Defect { name: "database_busy", servers: THREADS, make: mixed::database_busy },
    Defect { name: "permits_leaked", servers: THREADS, make: mixed::permits_leaked },
    Defect { name: "calls_and_work", servers: THREADS, make: mixed::calls_and_work },
    Defect { name: "two_at_once", servers: THREADS, make: mixed::two_at_once },
];
