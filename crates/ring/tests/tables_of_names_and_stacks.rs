//! Names, codes and stacks are found again under their ids, are bounded, and say when full.
#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)]

use format::block::unpack_pair;
use format::region::{losses, thread, THREAD_WORDS};
use ring::{Newcomer, Region, Tables};

fn region() -> &'static Region {
    Box::leak(Box::new(Region::in_process(1 << 20, 1, "test").expect("memory")))
}

#[test]
fn the_same_text_has_one_id_and_its_bytes_are_in_the_region() {
    let region = region();
    let tables = Tables::new(region, |_, _| ());
    let id = tables.name("GET /checkout");
    assert_eq!(tables.name("GET /checkout"), id);
    let [_, names, _, _] = region.copy_tables().expect("memory");
    let bytes: Vec<u8> = names.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert!(bytes.windows(13).any(|w| w == b"GET /checkout"));
}

#[test]
fn a_full_name_area_refuses_and_counts_instead_of_growing() {
    let region = region();
    let tables = Tables::new(region, |_, _| ());
    let long = "x".repeat(900);
    for i in 0..200 {
        tables.name(&format!("{i}{long}"));
    }
    assert!(region.losses()[losses::NAMES_REFUSED] > 0);
    assert_eq!(tables.name(&format!("199{long}")), 0);
}

#[test]
fn a_stack_is_a_chain_of_nodes_from_the_leaf_to_the_root() {
    let region = region();
    let tables = Tables::new(region, |_, _| ());
    let (main, work) = (tables.code(1, 2, 10, false), tables.code(3, 2, 20, false));
    let root = tables.stack(0, main, 12);
    let leaf = tables.stack(root, work, 25);
    assert_eq!(tables.stack(root, work, 25), leaf);
    let [_, _, _, stacks] = region.copy_tables().expect("memory");
    let node = &stacks[(leaf as usize - 1) * 2..];
    assert_eq!(unpack_pair(node[0]), (root, work));
    assert_eq!(node[1], 25);
}

#[test]
fn thread_slots_are_used_again_only_when_the_table_is_full() {
    let region = region();
    for tid in 0..5000u32 {
        let new = Newcomer { tid: tid + 1, comm: *b"worker-12345678\0", nested: false, now_ns: 5 };
        let (slot, serial) = region.thread_begins(&new);
        assert_eq!(serial, tid);
        region.thread_ends(slot.unwrap(), 6);
    }
    assert_eq!(region.losses()[losses::THREADS_UNNAMED], 0);
    let (rows, past) = region.copy_threads();
    assert_eq!(past, [0, 0]);
    assert_eq!(rows.len() / THREAD_WORDS, region.layout().thread_slots);
    let newest = rows.chunks(THREAD_WORDS).map(|r| unpack_pair(r[thread::IDENT]).1).max();
    assert_eq!(newest, Some(4999));
    assert_eq!(rows[thread::COMM].to_le_bytes(), *b"worker-1");
}

#[test]
fn names_of_ever_new_tasks_are_refused_past_their_bound() {
    let tables = Tables::new(region(), |_, _| ());
    let name = |i: usize| tables.bounded(ring::Class::Task, &format!("job {i:x}"));
    let known: Vec<_> = (0..50_000).map_while(name).collect();
    assert_eq!(known.len(), 1000);
    assert_eq!(name(50_000), None);
    assert_eq!(name(999), known.last().copied(), "what is known goes on being found");
    let target = tables.bounded(ring::Class::Target, "tcp 127.0.0.1:5432");
    assert!(target.is_some(), "other classes have bounds of their own");
}

#[test]
fn names_of_ever_new_threads_fall_together_past_their_bound() {
    let tables = Tables::new(region(), |_, _| ());
    let mut ids: Vec<u32> = (0..50_000)
        .map(|i| tables.classed(ring::Class::Thread, &format!("Thread-{i} (work)")))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() < 1100, "{} distinct names", ids.len());
    assert!(!ids.contains(&0), "none refused");
}
