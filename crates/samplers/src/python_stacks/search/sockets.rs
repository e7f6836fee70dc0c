//! The socket behind the object that awaits: followed from attribute to attribute, nearest first.
//!
//! What it promises: several sockets at the nearest distance count as none; `OBJECTS_MAX`
//! objects and `MOST_STEPS` attributes a search. What is missing on purpose: the descriptors of
//! uvloop's connections, which are in memory of libuv (`UNKNOWN_PEER`).

use crate::python_stacks::objects::searched::Near;
use crate::python_stacks::objects::sorts::{Sort, Type};
use crate::python_stacks::reader::PythonStacks;

/// Objects read in one search, and how far from its start.
const OBJECTS_MAX: usize = 160;
const MOST_STEPS: usize = 4;
/// In place of a descriptor: a connection, but its number is not known.
pub const UNKNOWN_PEER: i32 = -1;

impl PythonStacks {
    /// The descriptor of the socket nearest to the first of `owners` that leads to any, if there is
    /// exactly one.
    pub(crate) fn only_socket(&mut self, owners: Vec<usize>, event_loop: usize) -> Option<i32> {
        let now_ns = sys::clock::now_ns();
        self.searched.forget_old(now_ns);
        for owner in owners {
            let known = self.searched.near(owner);
            let near = known.unwrap_or_else(|| self.socket_near(owner, event_loop));
            if let Near::One(fd) = near {
                return Some(fd);
            }
            if known.is_none() {
                self.searched.note(owner, near, now_ns);
            }
            // Any object that has this owner has no fewer.
            if near == Near::Several {
                return None;
            }
        }
        None
    }

    fn socket_near(&mut self, owner: usize, event_loop: usize) -> Near {
        let mut level = vec![owner];
        let mut seen = vec![event_loop];
        for _ in 0..MOST_STEPS {
            let (mut next, mut found) = (Vec::new(), Vec::new());
            level.retain(|address| !seen.contains(address));
            // What another search found for these holds for this one, which has fewer steps left.
            let known = |address: &usize| self.searched.near(*address);
            let several = level.iter().filter_map(known).any(|near| near == Near::Several);
            level.retain(|address| known(address).is_none());
            let kinds = self.types_at(&level);
            for (address, kind) in level.into_iter().zip(kinds) {
                if seen.len() > OBJECTS_MAX {
                    return Near::Nothing;
                }
                let Some(kind) = kind.filter(|_| !seen.contains(&address)) else { continue };
                seen.push(address);
                match kind.sort {
                    Sort::Socket => found.extend(self.descriptor(address)),
                    Sort::Transport => found.push(self.transport(address, kind)),
                    Sort::Instance | Sort::Dict => {
                        let own = self.objects.contents(&self.mem, &self.layout, address, kind);
                        next.extend(own);
                    }
                    _ => (),
                }
            }
            found.sort_unstable();
            found.dedup();
            match found[..] {
                [] if several => return Near::Several,
                [] => level = next,
                [fd] => return Near::One(fd),
                _ => return Near::Several,
            }
        }
        Near::Nothing
    }

    /// uvloop keeps the descriptor in memory of libuv; the socket object exists only if the program
    /// made it or requested it.
    fn transport(&mut self, address: usize, kind: Type) -> i32 {
        let mut body = kind;
        body.sort = Sort::Instance;
        for word in self.objects.contents(&self.mem, &self.layout, address, body) {
            if self.type_at(word).is_some_and(|kind| kind.sort == Sort::Socket) {
                return self.descriptor(word).unwrap_or(UNKNOWN_PEER);
            }
        }
        UNKNOWN_PEER
    }

    fn descriptor(&self, socket: usize) -> Option<i32> {
        let mut bytes = [0u8; 4];
        self.mem.read(socket.wrapping_add(16), &mut bytes).ok()?;
        Some(i32::from_ne_bytes(bytes)).filter(|fd| *fd >= 0)
    }
}
