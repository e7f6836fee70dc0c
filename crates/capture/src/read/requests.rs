//! Requests: begins, ends, and later copies of both become rows, in whatever order they are read.
//!
//! How it works: a request whose begin and end are both read is a row of the capture; the others
//! wait here. What it promises: memory is bounded where only causes are wanted, since some rows
//! then stand for several (`thin`). What is missing on purpose: records (`blocks` decodes them).

use format::record::{flag, Record};

use super::capture::{Capture, Wanted};
use super::quick::{QuickMap, QuickSet};
use super::rows::{list, RequestRow};
use super::thin;

/// The state of a request whose records are read in part.
struct Begun {
    row: RequestRow,
    /// The original record of its begin was read, not the later copy.
    first: bool,
}

impl Begun {
    fn new(id: u64) -> Begun {
        Begun { row: open_request(id), first: false }
    }
}

/// How long before the end of a capture the recorder may have listed the open requests, at most.
const ASKED_BEFORE_NS: u64 = 2_000_000_000;

/// The requests of one capture while it is read.
pub struct Requests {
    wanted: Wanted,
    /// Requests whose begin or end is not read yet; the others are rows of the capture.
    begun: QuickMap<u64, Begun>,
    /// Requests whose present name was recorded at the snapshot.
    renamed: QuickSet<u64>,
    /// With more requests than this, some rows stand for several.
    most: usize,
    /// Requests that other rows stand for and that may be recorded again as open.
    represented: QuickSet<u64>,
}

impl Requests {
    /// None yet.
    pub fn new(wanted: Wanted) -> Requests {
        Requests {
            wanted,
            begun: QuickMap::default(),
            renamed: QuickSet::default(),
            most: thin::MOST,
            represented: QuickSet::default(),
        }
    }

    /// Takes the record of a request's begin or end; others are none of its.
    pub fn take(&mut self, capture: &mut Capture, tid: u32, record: Record<'_>) {
        match record {
            Record::RequestBegin { name, flags, t_ns, request, started_ns, again_tid } => {
                let again = flags & flag::AGAIN != 0;
                if again {
                    capture.open_at_copy.insert(request);
                }
                let begun = RequestRow {
                    name,
                    tid: if again { again_tid } else { tid },
                    begin_ns: t_ns,
                    started_ns: started_ns.max(t_ns),
                    on_loop: flags & flag::ASYNC != 0,
                    ..open_request(request)
                };
                self.begins(capture, begun, again);
            }
            Record::RequestEnd { name, flags, begin_ns, end_ns, request, attributes } => {
                let attributes = match self.wanted {
                    Wanted::All => list(attributes),
                    Wanted::Bare | Wanted::Causes => Vec::new(),
                };
                let ended = RequestRow {
                    id: request,
                    name,
                    tid,
                    begin_ns,
                    started_ns: begin_ns,
                    end_ns: Some(end_ns),
                    ended_tid: tid,
                    error: flags & flag::ERROR != 0,
                    on_loop: flags & flag::ASYNC != 0,
                    times: 1,
                    attributes,
                };
                self.ends(capture, ended);
            }
            _ => (),
        }
    }

    /// Whether a second copy of its begin is all that may be read of it.
    pub fn lacks_begin(&self, id: u64) -> bool {
        self.begun.get(&id).is_some_and(|begun| !begun.first)
    }

    /// The same for its end. If its begin is lost, too, another row may stand for it.
    pub fn lacks_end(&self, id: u64) -> bool {
        self.begun.get(&id).is_some_and(|begun| begun.row.end_ns.is_none())
    }

    /// Drops what was recorded again behind a request's end (another block).
    pub fn drop_whole(&mut self, capture: &Capture) {
        for id in capture.requests.iter().map(|row| &row.id).chain(&self.represented) {
            self.begun.remove(id);
        }
    }

    /// Drops the rows that are whole, for a reader that wants the others only.
    pub fn forget_whole(&mut self, capture: &mut Capture) {
        let asked_ns = capture.meta.to_ns.saturating_sub(ASKED_BEFORE_NS);
        let late = capture.requests.drain(..).filter(|row| row.end_ns >= Some(asked_ns));
        self.represented.extend(late.map(|row| row.id));
    }

    /// The rows of requests that are not whole.
    pub fn rest(self) -> impl Iterator<Item = RequestRow> {
        self.begun.into_values().map(|begun| begun.row)
    }

    /// Adds the begin of a request; `again`: the copy made at the snapshot, since it was open then.
    fn begins(&mut self, capture: &mut Capture, given: RequestRow, again: bool) {
        let id = given.id;
        let begun = self.begun.entry(id).or_insert_with(|| Begun::new(id));
        let open = &mut begun.row;
        if open.end_ns.is_none() && (again || !self.renamed.contains(&id)) {
            open.name = given.name;
        }
        if again {
            self.renamed.insert(id);
        }
        // The end may have been read first (another block), and the copy has neither thread nor
        // start better than the original.
        if !again || open.begin_ns == 0 {
            (open.tid, open.begin_ns, open.started_ns) =
                (given.tid, given.begin_ns, given.started_ns);
            open.on_loop = given.on_loop;
        }
        begun.first |= !again;
        if begun.first && begun.row.end_ns.is_some() {
            self.is_whole(capture, id);
        }
    }

    /// Adds the end of a request. If its begin was read, that is more exact.
    fn ends(&mut self, capture: &mut Capture, given: RequestRow) {
        let id = given.id;
        let begun = self.begun.entry(id).or_insert_with(|| Begun::new(id));
        let open = &mut begun.row;
        if open.begin_ns == 0 {
            (open.tid, open.begin_ns, open.started_ns) =
                (given.tid, given.begin_ns, given.started_ns);
            open.on_loop = given.on_loop;
        }
        open.name = given.name;
        open.end_ns = given.end_ns.map(|end_ns| end_ns.max(open.begin_ns));
        open.ended_tid = given.ended_tid;
        open.error = given.error;
        open.attributes = given.attributes;
        if begun.first {
            self.is_whole(capture, id);
        }
    }

    fn is_whole(&mut self, capture: &mut Capture, id: u64) {
        capture.requests.extend(self.begun.remove(&id).map(|begun| begun.row));
        if self.wanted == Wanted::Causes && capture.requests.len() >= self.most {
            self.thin(capture);
        }
    }

    fn thin(&mut self, capture: &mut Capture) {
        let asked_ns = capture.meta.to_ns.saturating_sub(ASKED_BEFORE_NS);
        thin::thin(&mut capture.requests, thin::MOST, |row| {
            if row.end_ns >= Some(asked_ns) {
                self.represented.insert(row.id);
            }
        });
        // If there are too many names, thinning cannot leave fewer rows: it is then not tried again
        // with each request.
        self.most = thin::MOST.max(capture.requests.len() / 3 * 4);
        if capture.traces.len() >= self.most {
            let known: QuickSet<u64> = capture.requests.iter().map(|r| r.id).collect();
            let asked = |id: &u64| known.contains(id) || self.begun.contains_key(id);
            capture.traces.retain(|t| asked(&t.record.request));
        }
    }
}

fn open_request(id: u64) -> RequestRow {
    RequestRow {
        id,
        name: 0,
        tid: 0,
        begin_ns: 0,
        started_ns: 0,
        end_ns: None,
        ended_tid: 0,
        error: false,
        on_loop: false,
        times: 1,
        attributes: Vec::new(),
    }
}
