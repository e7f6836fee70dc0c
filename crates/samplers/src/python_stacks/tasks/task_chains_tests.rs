//! Coroutines and tasks of 3.14 and 3.15 in the test's own memory: states, what is awaited, lists.

use super::*;
use crate::python_stacks::by_hand::ByHand;
use crate::python_stacks::layout::Layout;
use crate::python_stacks::task_tables::task_layout::TaskLayout;
use crate::python_stacks::task_tables::task_table::{TaskLists, TaskTable};
use sys::mem::Reader;

const V3_14: u32 = 0x030e_0af0;
const V3_15: u32 = 0x030f_02f0;
/// The states awaiting, running, ended, and not begun.
const STATES: [(u32, [u8; 4]); 2] = [(V3_14, [255, 0, 1, 253]), (V3_15, [2, 4, 5, 0])];
const CODE: usize = 0x1_0000;
const NULL: usize = 1;

/// A coroutine with `stack` as its value stack.
fn coroutine(
    memory: &mut ByHand,
    layout: &Layout,
    kind: usize,
    state: u8,
    stack: &[usize],
) -> usize {
    let mut words = vec![0usize; 40];
    (words[0], words[1]) = (1, kind);
    words[layout.generator_state / 8] |= usize::from(state) << (8 * (layout.generator_state % 8));
    let frame = layout.generator_frame;
    words[(frame + layout.frame_code) / 8] = CODE | 1;
    let first = (frame + layout.frame_locals) / 8 + 2;
    words[first..first + stack.len()].copy_from_slice(stack);
    let address = memory.words(&words);
    let top = address + (first + stack.len()) * 8;
    memory.put(address + frame + layout.frame_top, top);
    address
}

fn followed(memory: &mut ByHand, first: usize) -> (usize, bool) {
    let mut chain = Chain::default();
    memory.stacks.links(first, &mut chain);
    assert!(chain.frames.iter().all(|frame| frame.code == CODE), "{:?}", chain.frames);
    (chain.frames.len(), chain.running)
}

#[test]
fn what_is_awaited_is_below_the_stack_pointer() {
    for (version, [awaits, runs, ended, fresh]) in STATES {
        let mut memory = ByHand::new(version);
        let layout = Layout::of(version).expect("a known version");
        let kind = memory.kind(b"coroutine\0");
        let mut made = |state, stack: &[usize]| {
            let address = coroutine(&mut memory, &layout, kind, state, stack);
            (address, followed(&mut memory, address))
        };
        let (inner, alone) = made(fresh, &[]);
        assert_eq!(alone, (1, false), "{version:#x}");
        // 3.15 keeps an index above what is awaited, or nothing.
        let tagged: &[&[usize]] = match version {
            V3_14 => &[&[inner], &[inner | 1], &[8, inner]],
            _ => &[&[inner, NULL], &[inner | 1, NULL], &[8, inner, NULL]],
        };
        for stack in tagged {
            assert_eq!(made(awaits, stack).1, (2, false), "{version:#x}: {stack:x?}");
        }
        assert_eq!(made(awaits, &[]).1, (1, false), "{version:#x}: locals are no stack");
        assert_eq!(made(runs, &[inner]).1, (1, true), "{version:#x}");
        assert_eq!(made(ended, &[inner]).1, (0, false), "{version:#x}");
    }
}

/// An agent's proxy: a type of an extension's, with the coroutine among what it refers to.
#[test]
fn an_object_that_holds_one_suspended_coroutine_is_passed_through() {
    for (version, [awaits, runs, _, fresh]) in STATES {
        let mut memory = ByHand::new(version);
        let layout = Layout::of(version).expect("a known version");
        let kind = memory.kind(b"coroutine\0");
        let passing = memory.kind(b"dashcam._native.Passing\0");
        let proxy = memory.kind(b"theirs.Proxy\0");
        memory.put(proxy + 32, 48); // its size: four words behind its head
        let made = |memory: &mut ByHand, state, awaited: usize| {
            coroutine(memory, &layout, kind, state, &[awaited, NULL])
        };
        let plain = memory.object(proxy, &[0; 4]);
        let inner = made(&mut memory, awaits, plain);
        let other = made(&mut memory, awaits, plain);
        let (begun, at_work) = (made(&mut memory, fresh, plain), made(&mut memory, runs, plain));
        let ours = memory.object(passing, &[inner, 0, 0]);
        for (body, frames) in [
            ([plain, inner, 0, 0], 2),
            ([inner, inner, begun, at_work], 2),
            ([0, ours, 0, 0], 2),
            ([inner, other, 0, 0], 1),
            ([begun, 0, 0, 0], 1),
            ([at_work, 0, 0, 0], 1),
        ] {
            let held = memory.object(proxy, &body);
            let outer = made(&mut memory, awaits, held);
            let found = followed(&mut memory, outer);
            assert_eq!(found, (frames, false), "{version:#x}: {body:x?}");
        }
    }
}

/// A ring of nodes inside the tasks; the head is the interpreter's.
#[test]
fn the_tasks_on_a_list_are_those_that_are_pending() {
    let table = [168usize, 136, 96, 108, 109, 128, 152, 343_000, 800, 1200, 1024, 1032, 1048];
    let mut memory = ByHand::new(V3_15);
    let at = memory.words(&table);
    let mem = Reader::new().expect("a process may read itself");
    let table = TaskTable::read(&mem, at).expect("the table above");
    let TaskTable { size, name, coroutine, waiter, state, lists } = table;
    let lists = TaskLists { of_interpreter: 800, ..lists };
    memory.stacks.tasks = TaskLayout { size, state, waiter, coroutine, name, lists: Some(lists) };
    let kind = memory.kind(b"_asyncio.Task\0");
    memory.put(kind + 32, size);
    let other = memory.kind(b"list\0");
    let mut task = |kind: usize, done: usize| {
        let address = memory.object(kind, &[0; 22]);
        memory.put(address + state, done);
        address
    };
    let tasks = [task(kind, 0), task(kind, 2), task(other, 0), task(kind, 0)];
    let layout = Layout::of(V3_15).expect("a known version");
    let main = memory.stacks.threads.main_interpreter(&mem, &layout).expect("an interpreter");
    let head = main + lists.of_interpreter;
    let nodes: Vec<usize> = tasks.iter().map(|task| task + lists.node).collect();
    let ring = [&[head], &nodes[..], &[head]].concat();
    ring.windows(2).for_each(|two| memory.put(two[0], two[1]));
    let mut found = Vec::new();
    memory.stacks.tasks_in(1, 100, &mut found);
    assert_eq!(found, [tasks[0], tasks[3]]);
    found.clear();
    memory.stacks.tasks_in(1, 1, &mut found);
    assert_eq!(found, [tasks[0]], "no more than asked for");
    // A ring that was read while it changed leads nowhere, or round without its head.
    for wrong in [8, nodes[1]] {
        memory.put(nodes[1], wrong);
        found.clear();
        memory.stacks.tasks_in(1, 100, &mut found);
        assert_eq!(found, [tasks[0]]);
    }
}
