//! What tasks of native async runtimes await, by the names on their stacks.
//!
//! How it works: the recorder knows where such a task waits, not for what (`AwaitKind::Native`).
//! Once the stacks have names, the code that waits says it: from the innermost frame to the first
//! of the program's own, the outermost that is in the table below. So a lock that is made of a
//! semaphore is a lock, and a reply that comes through a channel of an HTTP client is a peer's.
//!
//! What it promises: a program's own module of such a name matches nothing where its file is known.
//! What no row fits is a future. A time limit is not what is awaited; one that ran out is the time
//! limit of what is.

use format::record::Await;
use format::wait::{AwaitKind, HolderSource};

use super::capture::{Capture, Frame};

/// Package, module in it (none: any), and what a task in there waits for.
const CODE: &[(&str, &str, AwaitKind)] = &[
    ("tokio", "time::sleep", AwaitKind::Sleep),
    ("tokio", "time::interval", AwaitKind::Sleep),
    ("futures_timer", "", AwaitKind::Sleep),
    ("tokio", "sync::mutex", AwaitKind::Lock),
    ("tokio", "sync::rwlock", AwaitKind::Lock),
    ("async_lock", "mutex", AwaitKind::Lock),
    ("async_lock", "rwlock", AwaitKind::Lock),
    ("futures_util", "lock", AwaitKind::Lock),
    ("tokio", "sync::batch_semaphore", AwaitKind::Semaphore),
    ("tokio", "sync::semaphore", AwaitKind::Semaphore),
    ("async_lock", "semaphore", AwaitKind::Semaphore),
    ("tokio", "sync::mpsc", AwaitKind::Queue),
    ("tokio", "sync::broadcast", AwaitKind::Queue),
    ("futures_channel", "mpsc", AwaitKind::Queue),
    ("async_channel", "", AwaitKind::Queue),
    ("flume", "", AwaitKind::Queue),
    ("tokio", "sync::notify", AwaitKind::Event),
    ("tokio", "sync::watch", AwaitKind::Event),
    ("tokio", "sync::barrier", AwaitKind::Event),
    ("event_listener", "", AwaitKind::Event),
    ("tokio", "runtime::task::join", AwaitKind::Executor),
    ("tokio", "runtime::io", AwaitKind::Socket),
    ("tokio", "io::poll_evented", AwaitKind::Socket),
    ("tokio", "net", AwaitKind::Socket),
    ("async_io", "", AwaitKind::Socket),
    ("tokio", "net::addr", AwaitKind::Resolve),
    ("tokio", "process", AwaitKind::Child),
    ("async_process", "", AwaitKind::Child),
    ("hyper", "client", AwaitKind::Socket),
    ("hyper_util", "client", AwaitKind::Socket),
    ("hyper_util", "client::legacy::connect", AwaitKind::Connect),
    ("hyper_util", "client::legacy::connect::dns", AwaitKind::Resolve),
    ("reqwest", "connect", AwaitKind::Connect),
    ("h2", "client", AwaitKind::Socket),
    ("h2", "share", AwaitKind::Socket),
    ("tonic", "client", AwaitKind::Socket),
];

/// Functions that set up a connection, where the module alone says less.
const CONNECTS: &[&str] = &["connect", "connect_mio", "connect_addr"];

/// Gives the awaits of native tasks their kinds, as far as their stacks have names.
pub fn settle(capture: &mut Capture) {
    let mut awaits = std::mem::take(&mut capture.awaits);
    for rows in awaits.values_mut() {
        for row in rows.iter_mut().filter(|row| row.kind == AwaitKind::Native) {
            if capture.frames(row.stack).next().is_some_and(|f| is_named(&f)) {
                row.kind = kind(capture, row.stack);
            }
        }
        limit(capture, rows);
    }
    capture.awaits = awaits;
}

/// A time limit beside what it limits: only the latter is awaited, and if the former woke the task
/// it was not over by then.
fn limit(capture: &Capture, rows: &mut Vec<Await>) {
    let limits = |row: &Await| {
        let mut frames = capture.frames(row.stack);
        row.kind == AwaitKind::Sleep && frames.any(|f| is_in(&f, "tokio", "time::timeout"))
    };
    let (timers, mut others): (Vec<Await>, Vec<Await>) = rows.iter().partition(|row| limits(row));
    for timer in timers {
        let own = capture.suspensions.get(&timer.request).map_or(&[][..], Vec::as_slice);
        let around = own.iter().find(|s| (s.out_ns..=s.in_ns).contains(&timer.t_ns));
        let from_ns = around.map_or(timer.t_ns, |s| s.out_ns);
        let beside = others.iter_mut().filter(|row| row.request == timer.request);
        let mut beside = beside.filter(|row| (from_ns..=timer.t_ns).contains(&row.t_ns)).peekable();
        match beside.peek() {
            None => others.push(timer),
            Some(_) if timer.how == HolderSource::Woke => {
                beside.for_each(|row| row.timeout_ns = timer.t_ns - from_ns);
            }
            Some(_) => (),
        }
    }
    others.sort_by_key(|row| (row.t_ns, row.task));
    *rows = others;
}

/// Whether a frame has a name, and not only a place in its file.
fn is_named(frame: &Frame<'_>) -> bool {
    let is_offset = frame.line == 0 && frame.function.contains("+0x");
    !frame.native && !is_offset
}

fn kind(capture: &Capture, stack: u32) -> AwaitKind {
    let frames: Vec<Frame<'_>> = capture.frames(stack).collect();
    let own = frames.iter().position(is_own).unwrap_or(frames.len());
    let found = frames[..own].iter().rev().find_map(of_frame);
    found.unwrap_or(AwaitKind::Future)
}

/// What code in a frame waits for: the longest row that fits.
fn of_frame(frame: &Frame<'_>) -> Option<AwaitKind> {
    let fits = CODE.iter().filter(|(package, module, _)| is_in(frame, package, module));
    let (.., kind) = fits.max_by_key(|(_, module, _)| module.len())?;
    let function = frame.function.split("::{").next().unwrap_or_default();
    let function = function.rsplit("::").next().unwrap_or_default();
    let connects = *kind == AwaitKind::Socket && CONNECTS.contains(&function);
    Some(if connects { AwaitKind::Connect } else { *kind })
}

/// Whether a frame is the program's own: a source that is no package's and not the language's.
fn is_own(frame: &Frame<'_>) -> bool {
    let file = frame.file;
    let others = ["/registry/src/", "/git/checkouts/", "/rustc/", "/rust/deps/", "/rustlib/src/"];
    file.ends_with(".rs") && !others.iter().any(|folder| file.contains(folder))
}

/// Whether a frame is in a package's module, by its source, or else by its function's path.
fn is_in(frame: &Frame<'_>, package: &str, module: &str) -> bool {
    let source = frame.file.split_once("/registry/src/").map(|(_, rest)| rest);
    let Some((_, source)) = source.and_then(|rest| rest.split_once('/')) else {
        let path = frame.function.trim_start_matches(['<', '&']);
        let rest = path.strip_prefix(package).and_then(|rest| rest.strip_prefix("::"));
        return !is_own(frame) && rest.is_some_and(|rest| begins(rest, module, "::"));
    };
    // `tokio-1.54.1/src/sync/mutex.rs`
    let Some((folder, path)) = source.split_once("/src/") else { return false };
    let version = folder.rfind('-').unwrap_or(folder.len());
    let name = folder[..version].replace('-', "_");
    name == package && begins(path.trim_end_matches(".rs"), &module.replace("::", "/"), "/")
}

fn begins(path: &str, module: &str, by: &str) -> bool {
    let rest = path.strip_prefix(module);
    rest.is_some_and(|rest| module.is_empty() || rest.is_empty() || rest.starts_with(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'a>(function: &'a str, file: &'a str) -> Frame<'a> {
        Frame { function, file, line: 1, code: 1, releases: false, native: false }
    }

    #[test]
    fn code_is_known_by_its_source_or_by_its_path() {
        let registry = |path: &str| format!("/h/.cargo/registry/src/index.crates.io-1/{path}");
        let of = |function: &str, path: &str| of_frame(&frame(function, &registry(path)));
        let semaphore = of("poll", "tokio-1.54.1/src/sync/batch_semaphore.rs");
        assert_eq!(semaphore, Some(AwaitKind::Semaphore));
        assert_eq!(of("lock", "tokio-1.54.1/src/sync/mutex.rs"), Some(AwaitKind::Lock));
        let read = of("poll_read", "tokio-1.54.1/src/net/tcp/stream.rs");
        assert_eq!(read, Some(AwaitKind::Socket));
        let connect = of(
            "tokio::net::tcp::stream::TcpStream::connect_mio::{{closure}}",
            "tokio-1.54.1/src/net/tcp/stream.rs",
        );
        assert_eq!(connect, Some(AwaitKind::Connect));
        let resolve = of("call", "hyper-util-0.1.21/src/client/legacy/connect/dns.rs");
        assert_eq!(resolve, Some(AwaitKind::Resolve));
        assert_eq!(of("call", "tower-0.5.3/src/util/boxed.rs"), None);
        let symbol =
            frame("<tokio::sync::notify::Notified as core::future::Future>::poll", "/srv/shop");
        assert_eq!(of_frame(&symbol), Some(AwaitKind::Event));
        let own = frame("tokio::sync::notify::wait", "/srv/shop/src/tokio/sync/notify.rs");
        assert_eq!(of_frame(&own), None, "the program's own");
    }
}
