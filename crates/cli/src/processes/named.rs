//! Which process a number means: that of this shell's pid namespace.
//!
//! How it works: sockets are named after the number that a process has for itself. The kernel says
//! which one it has here (SO_PEERCRED), so that of two containers that share the folder, and of the
//! host, each process is itself. One of a namespace that this does not contain has no number here,
//! and is known by its own, unless another process has it.
//!
//! Missing on purpose: what is asked of a process (`live`).

use std::io;
use std::path::PathBuf;

use serde_json::{json, Value};
use sys::local;

/// A control socket that somebody listens on.
#[derive(Clone)]
pub struct Place {
    /// The process's id in this namespace; 0: it is of one that this does not contain.
    here: u32,
    /// Its own.
    own: u32,
    pub path: PathBuf,
}

impl Place {
    /// The number to show.
    pub fn number(&self) -> u32 {
        if self.here == 0 {
            self.own
        } else {
            self.here
        }
    }

    /// Puts the number into what the process says of itself, and its own beside it.
    pub fn name(&self, said: &mut Value) {
        if self.number() != self.own {
            said["pid"] = json!(self.number());
            said["own_pid"] = json!(self.own);
        }
    }
}

/// The sockets of all recorded processes of this user.
pub fn places() -> Vec<Place> {
    let sockets = local::folders().into_iter().flat_map(|folder| local::sockets(&folder));
    sockets.filter_map(|(own, path)| place(own, path)).collect()
}

/// None: nobody listens.
fn place(own: u32, path: PathBuf) -> Option<Place> {
    let here = match local::connect(&path).and_then(|stream| local::peer(&stream)) {
        Ok((here, _)) => here,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
            ) =>
        {
            return None;
        }
        // It hangs, and its queue is full: asking it will say so.
        Err(_) => own,
    };
    Some(Place { here, own, path })
}

/// The recorded process of this number. Err: why there is none.
pub fn find(pid: u32, places: &[Place], exists: bool) -> Result<&Place, String> {
    if let Some(place) = places.iter().find(|place| place.here == pid) {
        return Ok(place);
    }
    // A process of this namespace has the number: it does not mean another one.
    let beside = |place: &&Place| !exists && place.here == 0 && place.own == pid;
    let beside: Vec<&Place> = places.iter().filter(beside).collect();
    if let [one] = beside[..] {
        return Ok(one);
    }
    let what = match (beside.len(), exists) {
        (2.., _) => "processes of several containers have this number: name them by their service",
        (_, true) => "process is not recorded, or is another user's",
        (_, false) => "no such process",
    };
    let inside = places.iter().filter(|place| place.own == pid && place.here != 0);
    let inside: Vec<String> = inside.map(|place| place.here.to_string()).collect();
    let known = match inside.is_empty() {
        true => where_searched(),
        false => format!("in its container this is the number of {}", inside.join(", ")),
    };
    Err(format!("{what}: {known}; `dashcam ps` lists the recorded processes"))
}

/// A process that a word names.
pub struct Named {
    /// Its id in this namespace, or where it is in none its own.
    pub pid: u32,
    /// Whether it is in this namespace: else /proc has another one of this number, or none.
    pub is_here: bool,
    /// Its control socket. Err: why there is none.
    pub socket: Result<PathBuf, String>,
}

impl Named {
    pub fn of(place: &Place) -> Named {
        let is_here = place.here != 0;
        Named { pid: place.number(), is_here, socket: Ok(place.path.clone()) }
    }
}

/// Where sockets were where_searched for.
pub fn where_searched() -> String {
    let folders = local::folders();
    let folders: Vec<String> = folders.iter().map(|p| p.display().to_string()).collect();
    format!("no socket of it in {}", folders.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_this_namespace() {
        let place = |here, own| Place { here, own, path: PathBuf::from(format!("{here}-{own}")) };
        // One of this namespace, two of containers in it, two of others that share the folder.
        let places =
            [place(7, 7), place(40, 1), place(41, 1), place(0, 9), place(0, 8), place(0, 8)];
        let found =
            |pid, exists| find(pid, &places, exists).map(|place| place.path.display().to_string());
        assert_eq!(found(7, true).as_deref(), Ok("7-7"));
        assert_eq!(found(40, true).as_deref(), Ok("40-1"));
        assert_eq!(found(9, false).as_deref(), Ok("0-9"));
        for (pid, exists, why) in [
            (1, true, "process is not recorded, or is another user's: in its container this is the number of 40, 41"),
            (9, true, "process is not recorded, or is another user's: no socket of it in "),
            (8, false, "processes of several containers have this number: name them by their service: "),
            (6, false, "no such process: no socket of it in "),
        ] {
            let error = found(pid, exists).expect_err("none");
            assert!(error.starts_with(why), "{pid}: {error}");
        }
        let mut said = json!({"pid": 1});
        places[1].name(&mut said);
        assert_eq!(said, json!({"pid": 40, "own_pid": 1}));
        let mut said = json!({"pid": 9});
        places[3].name(&mut said);
        assert_eq!(said, json!({"pid": 9}));
    }
}
