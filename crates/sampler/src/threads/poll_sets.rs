//! The target of a wait for any of several descriptors: three of them, and how many more.
//!
//! | it waits in | recorded | which |
//! | --- | --- | --- |
//! | poll, select | `tcp 10.0.0.7:5432, pipe:[12] and 3 more` | the first, in call order |
//! | epoll_wait | `anon_inode:[eventpoll] of tcp 10.0.0.7:5432 and 5 more` | peers, then by name |
//!
//! Equal names are recorded once. An instance has its own name in front: by that a reader of a
//! capture recognizes an event loop's wait.
//!
//! What it promises: the content of an instance is asked for once in a wait, and so seldom that all
//! of them together take one part in `SHARE` of a core; `sys::epoll` bounds the cost of one
//! question. The answer is forgotten after the wait: an instance looks the same as the next one
//! with its number. Accepted connections go by the address they came to (`clients of 10.0.0.9:80`),
//! as each client's own would be one more name for ever. After `MOST_TEXTS` different texts sets
//! are named by their first descriptor alone.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use format::wait::{CHILD, PIPE_OF_CHILD, PIPE_OF_PARENT};
use sys::calls::{Wait, NAMED};
use sys::fds::{describe, FdInfo, FdKind};
use sys::processes::Kin;

/// One part in this many of a core's time.
const SHARE: u64 = 200;
/// Threads whose instance is still to be asked.
const MOST_OWED: usize = 64;
/// Different texts of sets, among the names there is room for.
const MOST_TEXTS: usize = 1000;

/// What is known of sets.
#[derive(Default)]
pub(crate) struct Sets {
    /// No question to an instance before.
    from_ns: u64,
    /// Threads whose wait was recorded without a text for that reason.
    owed: Vec<u32>,
    named: HashSet<u64>,
}

impl Sets {
    /// Whether the record of the wait that `tid` is in has all there is to record.
    pub(crate) fn is_recorded(&self, tid: u32) -> bool {
        !self.owed.contains(&tid)
    }

    /// What the thread `tid` waits for in poll, select or epoll. None: nothing is open there.
    pub(crate) fn target(&mut self, wait: &Wait, tid: u32, now: u64) -> Option<String> {
        let fd = wait.fd?;
        let info = describe(fd)?;
        if info.kind == FdKind::Epoll {
            return Some(self.epoll(fd, info.text, tid, now));
        }
        let mut set = wait.set.iter().flatten();
        let first = by_process(fd, &info, tid, set.next().is_some_and(|one| one.writes));
        let others = set.map(|one| match describe(one.fd) {
            // Of its own a loop's thread would wait for that alone.
            Some(info) if info.kind == FdKind::Epoll => "an epoll instance".to_owned(),
            Some(info) => by_process(one.fd, &info, tid, one.writes),
            None => "(closed)".to_owned(),
        });
        let mut names = vec![first.clone()];
        names.extend(others);
        let more = wait.fds.saturating_sub(names.len() as u32);
        Some(self.bounded(joined(names, more, false), first))
    }

    /// The text of an epoll instance, called `own` by the kernel.
    fn epoll(&mut self, fd: i32, own: String, tid: u32, now: u64) -> String {
        self.owed.retain(|owed| *owed != tid);
        if now < self.from_ns {
            // Of some the threads may be gone.
            self.owed.drain(..self.owed.len().saturating_sub(MOST_OWED - 1));
            self.owed.push(tid);
            return own;
        }
        let began_ns = sys::clock::thread_cpu_ns();
        let text = match content(fd) {
            Some(content) => self.bounded(format!("{own} of {content}"), own),
            None => own,
        };
        let took_ns = sys::clock::thread_cpu_ns().saturating_sub(began_ns);
        self.from_ns = now.saturating_add(took_ns.saturating_mul(SHARE));
        text
    }

    /// `text`, or `short` where there have been too many different ones.
    fn bounded(&mut self, text: String, short: String) -> String {
        if text == short {
            return text;
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        let room = self.named.len() < MOST_TEXTS;
        let known = self.named.contains(&hash) || room && self.named.insert(hash);
        if known {
            text
        } else {
            short
        }
    }
}

/// What is registered with an epoll instance; None: nothing, or it is not known.
fn content(epoll: i32) -> Option<String> {
    let members = sys::epoll::members(epoll)?;
    let mut all: Vec<(u8, String)> = members.fds.iter().filter_map(|fd| named(*fd)).collect();
    all.sort();
    let names: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
    (!names.is_empty()).then(|| joined(names, members.more, members.cut))
}

/// A descriptor of an epoll instance; those that the loop may wait for come before those that wake
/// it up.
fn named(fd: i32) -> Option<(u8, String)> {
    let FdInfo { kind, text, peer_port, connecting } = describe(fd)?;
    if let Some(own) = sys::fds::accepted_at(fd) {
        return Some((1, format!("clients of {own}")));
    }
    let rank = match kind {
        FdKind::EventFd | FdKind::Timer => 3,
        FdKind::UnixSocket if text.ends_with("(unnamed)") => 3,
        FdKind::UnixSocket if text.starts_with("unix listening") => 2,
        FdKind::UnixSocket => 0,
        _ if peer_port.is_some() || connecting => 0,
        _ => 2,
    };
    // An instance in an instance is no other loop.
    let text = if kind == FdKind::Epoll { "an epoll instance".to_owned() } else { text };
    Some((rank, text))
}

/// A descriptor; a pipe by the process that has its other end, and a pidfd by its process, where
/// that is known.
pub(crate) fn by_process(fd: i32, info: &FdInfo, tid: u32, writes: bool) -> String {
    let (begin, pid) = match info.kind {
        FdKind::Pipe => match sys::processes::other_end(fd, tid, writes) {
            Some((Kin::Child, pid)) => (PIPE_OF_CHILD, pid),
            Some((Kin::Parent, pid)) => (PIPE_OF_PARENT, pid),
            None => return info.text.clone(),
        },
        FdKind::Process => match sys::processes::of_pidfd(fd) {
            Some(pid) => (CHILD, pid),
            None => return info.text.clone(),
        },
        _ => return info.text.clone(),
    };
    let name = sys::processes::name(pid);
    match name.is_empty() {
        true => info.text.clone(),
        false => format!("{begin}{name}"),
    }
}

/// The first `NAMED` different names, and how many descriptors have others. `more`: this many other
/// descriptors; `cut`: an unknown number, too.
fn joined(names: Vec<String>, more: u32, cut: bool) -> String {
    let mut named: Vec<String> = Vec::with_capacity(NAMED);
    let mut more = more;
    for name in names {
        match named.len() < NAMED {
            _ if named.contains(&name) => {}
            true => named.push(name),
            false => more += 1,
        }
    }
    let named = named.join(", ");
    match (cut, more) {
        (true, _) => format!("{named} and more"),
        (false, 0) => named,
        (false, more) => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_ascii_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn three_names_are_recorded_once_each_and_the_others_counted() {
        assert_eq!(joined(names("a"), 0, false), "a");
        assert_eq!(joined(names("a b a a"), 0, false), "a, b");
        assert_eq!(joined(names("a b c b d e"), 0, false), "a, b, c and 2 more");
        assert_eq!(joined(names("a b c d"), 37, false), "a, b, c and 38 more");
        assert_eq!(joined(names("a b"), 70, true), "a, b and more");
    }

    #[test]
    fn ever_new_sets_are_named_by_their_first_after_a_while() {
        let mut sets = Sets::default();
        let mut text = |n: usize| sets.bounded(format!("a and {n} more"), "a".to_owned());
        assert!((0..MOST_TEXTS).all(|n| text(n) != "a"));
        assert_eq!(text(MOST_TEXTS), "a");
        assert_eq!(text(7), "a and 7 more");
    }

    #[test]
    fn an_instance_that_may_not_be_asked_yet_is_still_to_be_asked() {
        let mut sets = Sets::default();
        let own = || "anon_inode:[eventpoll]".to_owned();
        // Nothing is open there; to find that out takes time, too.
        assert_eq!(sets.epoll(-1, own(), 7, 1), own());
        assert!(sets.is_recorded(7) && sets.from_ns > 1);
        assert_eq!(sets.epoll(-1, own(), 8, 1), own());
        assert_eq!((sets.is_recorded(7), sets.is_recorded(8)), (true, false));
        assert_eq!(sets.epoll(-1, own(), 8, u64::MAX / 2), own());
        assert!(sets.is_recorded(8));
    }
}
