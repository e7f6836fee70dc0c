//! The capture itself, its threads, its sources, and its losses.

use format::source::SourceState;
use std::collections::{BTreeMap, BTreeSet};

use analysis::states::Threads;
use capture::read::{Coverage, ThreadRow};

use crate::cell::{always, int, maybe, opt, text, Cell, Kind};
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const CAPTURE: Table = Table {
    name: "capture",
    about: "The capture: one row.",
    columns: &[
        always("file", Kind::Text, "Name of its file"),
        always("service", Kind::Text, "Name of the service"),
        always("host", Kind::Text, "Host"),
        always("pid", Kind::Int, "Process"),
        always("runtime", Kind::Text, "Interpreter; empty without one"),
        always("reason", Kind::Text, "Why the capture was made"),
        always("slow", Kind::Text, "The rules of `slow`"),
        always("start_ns", Kind::Int, "Recording began"),
        always("start_utc", Kind::Utc, "The same by the wall clock: ties both clocks"),
        always("from_ns", Kind::Int, "First instant asked for"),
        always("to_ns", Kind::Int, "When the copy was made"),
        always(
            "common_horizon_ns",
            Kind::Int,
            "From here on the records of all threads are complete",
        ),
        always("meta_json", Kind::Text, "META of the capture: settings, sources, losses, books"),
    ],
    rows: Rows::Once(capture),
};

fn capture(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let meta = &source.capture.meta;
    // Without its folders: a copy elsewhere is the same capture.
    let file = source.file.rsplit('/').next().unwrap_or_default();
    sink.row([
        Cell::Text(file),
        Cell::Text(&meta.service),
        Cell::Text(&meta.host),
        int(meta.pid),
        Cell::Text(&meta.runtime),
        Cell::Text(&meta.reason),
        Cell::Text(&meta.slow),
        int(meta.start_ns),
        Cell::Int(source.utc_us(meta.start_ns)),
        int(meta.from_ns),
        int(meta.to_ns),
        int(source.capture.common_horizon_ns()),
        Cell::Text(&meta.all.to_string()),
    ])
}

pub(crate) const THREADS: Table = Table {
    name: "threads",
    about: "A thread that recorded or was sampled, and what the capture has of it. The kernel \
         reuses ids: threads with the same one differ in `serial`. By thread and serial.",
    columns: &[
        always("tid", Kind::Int, "Kernel thread id"),
        maybe(
            "serial",
            Kind::Int,
            "Distinguishes threads with the same id; NULL: it recorded nothing",
        ),
        always("name", Kind::Text, "Its name"),
        maybe("is_named", Kind::Bool, "The program gave the name; else it is the kernel's"),
        maybe(
            "is_nested",
            Kind::Bool,
            "Not a thread: records made inside records (signal handlers)",
        ),
        maybe("start_ns", Kind::Int, "Its first record"),
        maybe("end_ns", Kind::Int, "Its end; NULL: it was alive, or not known"),
        maybe("records", Kind::Int, "Records that it wrote or dropped until the capture"),
        maybe("from_ns", Kind::Int, "Time of its oldest record in the capture"),
        always("read", Kind::Int, "Records of it in the capture"),
        always("missing_before", Kind::Int, "Records before: overwritten, or before the window"),
        always("missing_between", Kind::Int, "Records missing in between"),
        always("missing_after", Kind::Int, "Records after its last one in the capture"),
        always("dropped", Kind::Int, "Records dropped: part of the missing ones"),
        always("samples", Kind::Int, "Samples of its id"),
    ],
    rows: Rows::Once(threads),
};

/// The table's row for one thread, and the accounts of its records.
type Known<'c> = (Option<&'c ThreadRow>, Option<&'c Coverage>);

fn threads(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let all = Threads::new(capture);
    let mut rows: BTreeMap<(u32, u32), Known<'_>> = BTreeMap::new();
    for row in &capture.threads {
        rows.entry((row.tid, row.serial)).or_default().0 = Some(row);
    }
    for row in &capture.coverage {
        rows.entry((row.tid, row.serial)).or_default().1 = Some(row);
    }
    let known: BTreeSet<u32> = rows.keys().map(|(tid, _)| *tid).collect();
    let ids = source.thread_ids();
    let seen_only = ids.into_iter().filter(|tid| !known.contains(tid));
    let mut list: Vec<(u32, Option<u32>)> = seen_only.map(|tid| (tid, None)).collect();
    list.extend(rows.keys().map(|(tid, serial)| (*tid, Some(*serial))));
    list.sort_unstable();
    for (tid, serial) in list {
        let found = serial.and_then(|serial| rows.get(&(tid, serial)).copied());
        let (row, books) = found.unwrap_or_default();
        let name = row.map_or_else(|| all.name(tid), |r| r.name.clone());
        let count = |of: fn(&Coverage) -> u64| int(books.map_or(0, of));
        sink.row([
            int(tid),
            opt(serial),
            Cell::Text(&name),
            row.map_or(Cell::Null, |r| Cell::Bool(r.named)),
            row.map_or(Cell::Null, |r| Cell::Bool(r.nested)),
            opt(row.map(|r| r.start_ns)),
            opt(row.and_then(|r| r.end_ns)),
            opt(row.map(|r| r.records)),
            opt(books.map(|b| b.from_ns)),
            count(|b| b.read),
            count(|b| b.missing_before),
            count(|b| b.missing_between),
            count(|b| b.missing_after),
            count(|b| b.dropped),
            int(source.samples_of(tid)),
        ])?;
    }
    Ok(())
}

pub(crate) const SOURCES: Table = Table {
    name: "sources",
    about: "A source of the recorder, and whether it was on.",
    columns: &[
        always("name", Kind::Text, "Which: switches, stacks, gc, ..."),
        always("is_on", Kind::Bool, "It was on"),
        maybe("why_off", Kind::Text, "Why it was off, or why only a part of it was on"),
    ],
    rows: Rows::Once(sources),
};

fn sources(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    for (name, state, _) in source.capture.meta.source_states() {
        let why = match state {
            SourceState::On | SourceState::Off("") => None,
            SourceState::Partly(why) | SourceState::Off(why) => Some(why),
        };
        sink.row([Cell::Text(name), Cell::Bool(state.is_on()), text(why)])?;
    }
    Ok(())
}

pub(crate) const LOSSES: Table = Table {
    name: "losses",
    about: "A way in which something can be missing, and how often it happened (docs/losses.md).",
    columns: &[
        always(
            "kind",
            Kind::Text,
            "`counter` of the recorder, `torn` blocks, `mended` records, `damage` of the file",
        ),
        always("what", Kind::Text, "The counter's name, or the damage in words"),
        always("count", Kind::Int, "How often; 0 too"),
    ],
    rows: Rows::Once(losses),
};

fn losses(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for (name, count) in &capture.meta.losses {
        sink.row([Cell::Text("counter"), Cell::Text(name), int(*count)])?;
    }
    let torn = "blocks overwritten while they were copied";
    sink.row([Cell::Text("torn"), Cell::Text(torn), int(capture.torn_blocks)])?;
    let added = "switch records lost, replaced by CPU clocks";
    sink.row([Cell::Text("added"), Cell::Text(added), int(source.switches_mended())])?;
    for damage in &capture.damage {
        sink.row([Cell::Text("damage"), Cell::Text(damage), int(1)])?;
    }
    Ok(())
}
