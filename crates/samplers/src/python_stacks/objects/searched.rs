//! Objects that do not lead to one socket, and when they were searched.
//!
//! Many tasks wait for one pool; it is not searched for each of them. At most `MOST_WITHOUT`
//! objects are remembered, each for `SEVERAL_NS` or `NO_SOCKET_NS`.

/// An owner of several sockets is not searched again for the first
/// time, one that leads to none (yet: it may be connecting) for the second.
const SEVERAL_NS: u64 = 1_000_000_000;
const NO_SOCKET_NS: u64 = 100_000_000;
const MOST_WITHOUT: usize = 32;

/// Sockets at the nearest distance from an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Near {
    One(i32),
    Several,
    Nothing,
}

/// An object that does not lead to one socket, and when that was seen.
struct WithoutSocket {
    owner: usize,
    seen_ns: u64,
    near: Near,
}

/// What earlier searches found.
#[derive(Default)]
pub(crate) struct Searched {
    owners: Vec<WithoutSocket>,
}

impl Searched {
    pub fn forget_old(&mut self, now_ns: u64) {
        self.owners.retain(|known| {
            let valid_ns = if known.near == Near::Several { SEVERAL_NS } else { NO_SOCKET_NS };
            now_ns.saturating_sub(known.seen_ns) < valid_ns
        });
    }

    pub fn near(&self, owner: usize) -> Option<Near> {
        self.owners.iter().find(|known| known.owner == owner).map(|known| known.near)
    }

    pub fn note(&mut self, owner: usize, near: Near, seen_ns: u64) {
        if self.owners.len() < MOST_WITHOUT {
            self.owners.push(WithoutSocket { owner, seen_ns, near });
        }
    }
}
