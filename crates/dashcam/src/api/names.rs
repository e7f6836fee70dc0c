//! Names that outlive a recorder: interned once a recorder, found again with one load.
//!
//! How it works: a recorder numbers its names from 1, and a forked child has a recorder of its own.
//! So an id is kept together with the epoch of the recorder that gave it, in one word; a name whose
//! epoch is not the present one is interned again. `Site` belongs to a place in source, a *handle*
//! to a name that was made at run time, by C or another language without statics.
//!
//! What it promises: after the first use of a name in a recorder no lock, allocation or syscall.
//! Handles that exist when a recorder starts are known to it before it records, so that a signal
//! handler never finds one that it would have to intern. At most `HANDLES_MOST` handles.

use std::sync::atomic::{AtomicU64, Ordering};

use format::block::{pack_pair, unpack_pair};
use format::region::losses;
use recorder::Recorder;
use ring::Name;
use sys::shelf::Shelf;

/// An id and the epoch it belongs to. Release on learning pairs with acquire on use: a thread that
/// uses the id in a record has the name's entry in the tables before it.
struct Known(AtomicU64);

impl Known {
    const fn new() -> Known {
        Known(AtomicU64::new(0))
    }

    #[inline]
    fn id(&self, epoch: u32, intern: impl FnOnce(&Recorder) -> Name) -> Name {
        let (id, learnt) = unpack_pair(self.0.load(Ordering::Acquire));
        match learnt == epoch {
            true => id,
            false => self.learn(epoch, intern),
        }
    }

    #[cold]
    fn learn(&self, epoch: u32, intern: impl FnOnce(&Recorder) -> Name) -> Name {
        // Another recorder than the caller saw: a stop or a fork came between; the record will
        // not be taken either.
        let recorder = recorder::current().filter(|r| r.epoch() == epoch);
        recorder.map_or(0, |recorder| self.learn_from(recorder, intern))
    }

    fn learn_from(&self, recorder: &Recorder, intern: impl FnOnce(&Recorder) -> Name) -> Name {
        let id = intern(recorder);
        self.0.store(pack_pair(id, recorder.epoch()), Ordering::Release);
        id
    }
}

/// A name at a place in source; the macros make one for each name and key.
pub struct Site {
    text: &'static str,
    known: Known,
}

impl Site {
    /// Of this text.
    #[must_use]
    pub const fn new(text: &'static str) -> Site {
        Site { text, known: Known::new() }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Its id in the recorder of `epoch`.
    #[inline]
    pub fn id(&self, epoch: u32) -> Name {
        self.known.id(epoch, |recorder| recorder.tables().name(self.text))
    }

    /// As `id`, for the name of a request: its limit is looked up with it.
    #[inline]
    pub fn request_id(&self, epoch: u32) -> Name {
        self.known.id(epoch, |recorder| recorder.request_name(self.text))
    }
}

/// The id of a name made at run time: a lookup under the tables' lock each time.
pub fn dynamic(epoch: u32, text: &str) -> Name {
    let recorder = recorder::current().filter(|r| r.epoch() == epoch);
    recorder.map_or(0, |r| r.tables().name(text))
}

/// As `dynamic`, for the name of a request.
pub fn dynamic_request(epoch: u32, text: &str) -> Name {
    let recorder = recorder::current().filter(|r| r.epoch() == epoch);
    recorder.map_or(0, |r| r.request_name(text))
}

/// Most handles.
pub const HANDLES_MOST: usize = 8192;
static HANDLES: Shelf<Handle, HANDLES_MOST> = Shelf::empty();

struct Handle {
    text: Box<str>,
    known: Known,
    as_request: Known,
}

/// The handle of `text`, the same for equal texts and for the life of the process; 0 when there are
/// too many. Allocates and locks when the text is new.
pub fn handle(text: &str) -> u32 {
    // FNV-1a: short texts, no keys to protect from an attacker's choice.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let make = || Handle { text: text.into(), known: Known::new(), as_request: Known::new() };
    let Some((index, handle)) = HANDLES.find_or_add(hash, |h| &*h.text == text, make) else {
        return 0;
    };
    if let Some(recorder) = recorder::current() {
        handle.known.id(recorder.epoch(), |r| r.tables().name(&handle.text));
    }
    index as u32 + 1
}

/// The id of a handle's name in the recorder of `epoch`. None: no such handle.
#[inline]
pub fn handle_id(handle: u32, epoch: u32) -> Option<Name> {
    let handle = HANDLES.get((handle as usize).wrapping_sub(1))?;
    Some(handle.known.id(epoch, |r| r.tables().name(&handle.text)))
}

/// As `handle_id`, for the name of a request.
#[inline]
pub fn handle_request_id(handle: u32, epoch: u32) -> Option<Name> {
    let handle = HANDLES.get((handle as usize).wrapping_sub(1))?;
    Some(handle.as_request.id(epoch, |r| r.request_name(&handle.text)))
}

/// Counts a name that there was no room for, in `names_refused`. For bindings.
#[cold]
pub fn lost_name() {
    if let Some(recorder) = recorder::current() {
        recorder.region().lose(losses::NAMES_REFUSED, 1);
    }
}

/// Makes all handles known to a recorder that is about to record.
pub(crate) fn learn_all(recorder: &Recorder) {
    HANDLES.each(|handle| {
        handle.known.learn_from(recorder, |r| r.tables().name(&handle.text));
    });
}
