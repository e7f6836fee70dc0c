//! The tables: their columns, and the walk over the capture that fills them; one file for each
//! subject.

mod attributes;
mod books;
mod common_cells;
mod pieces;
mod requests;
mod samples;
mod series;
mod stacks;
mod states;
mod traces;
mod verdict;
mod waits;
mod work;

use crate::Table;

/// All tables, in the order of the documentation.
pub fn all() -> &'static [Table] {
    ALL
}

/// The table with this name.
pub fn named(name: &str) -> Option<&'static Table> {
    ALL.iter().find(|table| table.name == name)
}

const ALL: &[Table] = &[
    books::CAPTURE,
    requests::REQUESTS,
    work::SPANS,
    work::EVENTS,
    attributes::ATTRIBUTES,
    work::TASKS,
    work::AWAITS,
    states::STATES,
    states::SWITCHES,
    waits::WAITS,
    waits::GIL,
    pieces::SLICES,
    samples::SAMPLES,
    stacks::STACKS,
    stacks::FRAMES,
    series::GC,
    series::VITALS,
    series::METRICS,
    books::THREADS,
    books::SOURCES,
    books::LOSSES,
    verdict::CAUSES,
    verdict::EVIDENCE,
    traces::TRACES,
    traces::LINKS,
];
