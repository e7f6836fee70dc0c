//! A box takes memory as records need it, and no store goes where there is none.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{copy, record, writer, Books};
use format::region::losses;
use ring::{Class, Region, Tables};

const MIB: usize = 1 << 20;
const MINUTE_NS: u64 = 60_000_000_000;

/// A file in memory that is removed at the end; None where the kernel has no steps.
struct Boxed {
    path: PathBuf,
    region: &'static Region,
}

impl Boxed {
    fn new(name: &str, bytes: usize) -> Option<Boxed> {
        let path = Path::new("/dev/shm").join(format!("ring-{name}-{}", std::process::id()));
        let region = Region::create(Ok(path.clone()), bytes, 1).expect("memory");
        let is_whole = region.present_bytes() == bytes;
        let region: &'static Region = Box::leak(Box::new(region));
        let made = Boxed { path, region };
        assert!(!is_whole || has_no_steps(), "{:?}", region.place());
        (!is_whole).then_some(made)
    }

    /// Bytes that the file takes.
    fn taken(&self) -> u64 {
        std::fs::metadata(&self.path).expect("there").blocks() * 512
    }

    fn file(&self) -> File {
        OpenOptions::new().write(true).open(&self.path).expect("ours")
    }
}

/// Before 5.14 the kernel cannot make pages present in steps.
fn has_no_steps() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is there");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) < (Some(5), Some(14))
}

impl Drop for Boxed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn a_new_box_takes_a_small_part_of_its_size() {
    let Some(made) = Boxed::new("new", 64 * MIB) else { return };
    assert_eq!(std::fs::metadata(&made.path).expect("there").len(), 64 * MIB as u64);
    assert!(made.taken() < 3 * MIB as u64 / 2, "{}", made.taken());
    assert_eq!(made.taken(), made.region.present_bytes() as u64);
}

#[test]
fn a_small_box_is_there_from_the_start() {
    let Some(made) = Boxed::new("small", 8 * MIB) else { return };
    assert!(!made.region.grow(), "{} bytes were left to add", made.region.present_bytes());
}

#[test]
fn reading_a_box_takes_no_memory() {
    let Some(made) = Boxed::new("read", 64 * MIB) else { return };
    let before = made.taken();
    writer(made.region, 7).append(&record(7, 0), 1);
    assert_eq!(copy(made.region).len(), 1);
    assert_eq!((made.region.overwritten(), made.region.oldest_ns()), (0, 1));
    made.region.copy_open();
    made.region.copy_tables().expect("memory");
    made.region.copy_threads();
    assert_eq!(made.taken(), before);
}

#[test]
fn records_go_round_in_the_part_that_is_present_and_are_accounted_for() {
    let Some(made) = Boxed::new("round", 16 * MIB) else { return };
    let region = made.region;
    std::thread::scope(|scope| {
        for tid in 1..=4u32 {
            scope.spawn(move || {
                let mut writer = writer(region, tid);
                (0..100_000).for_each(|seq| {
                    writer.append(&record(tid, seq), seq);
                });
                writer.end(1);
            });
        }
        // Steps are taken while they write; records lie behind each other all the same.
        (0..3).for_each(|_| assert!(region.grow()));
    });
    // And once more, since the last steps may have come behind the last record.
    let mut last = writer(region, 5);
    (0..200_000).for_each(|seq| {
        last.append(&record(5, seq), seq);
    });
    last.end(1);
    let books = Books::of(region, &copy(region));
    assert_eq!((books.written, books.dropped), (600_000, 0));
    books.balance();
    assert!(books.overwritten > 0, "4 MiB of blocks have no room for 14.4 MB: {books:?}");
    assert!(books.read > 120_000, "4 MiB of blocks are used: {books:?}");
}

#[test]
fn a_full_round_keeps_what_the_whole_box_has_room_for() {
    let Some(made) = Boxed::new("whole", 16 * MIB) else { return };
    let region = made.region;
    while region.grow() {}
    let (mut writer, room) = (writer(region, 7), region.layout().block_count * 338);
    (0..2 * room as u64).for_each(|seq| {
        writer.append(&record(7, seq), seq);
    });
    let kept = copy(region)[&(7, 0)].len();
    assert!(kept * 10 > room * 9, "{kept} of {room}");
}

#[test]
fn the_next_step_is_due_while_young_records_would_be_overwritten() {
    let Some(made) = Boxed::new("due", 16 * MIB) else { return };
    let region = made.region;
    let mut writer = writer(region, 7);
    let mut fill = |blocks: u64, now_ns: u64| {
        (0..blocks * 338).for_each(|seq| {
            writer.append(&record(7, seq), now_ns);
        });
    };
    assert!(!region.is_short(0, MINUTE_NS), "nothing was written");
    fill(120, MINUTE_NS);
    assert!(region.is_short(MINUTE_NS, MINUTE_NS));
    assert!(!region.is_short(3 * MINUTE_NS, MINUTE_NS), "the oldest records may go");
    assert!(region.grow());
    assert!(!region.is_short(MINUTE_NS, MINUTE_NS), "a MiB is left");
}

/// A burst uses up what is left before the next pass of a sampler that sleeps for long.
#[test]
fn a_writer_of_the_last_blocks_ends_the_sleep_of_the_sampler() {
    let Some(made) = Boxed::new("hint", 16 * MIB) else { return };
    let region = made.region;
    let naps = [region.idle_nap(), region.pass_nap()];
    let sleepers = naps.map(|nap| std::thread::spawn(|| nap.sleep(Duration::from_secs(600))));
    let mut writer = writer(region, 7);
    while !sleepers.iter().all(std::thread::JoinHandle::is_finished) {
        writer.append(&record(7, 0), 1);
    }
    assert!(sleepers.map(|sleeper| sleeper.join().expect("no panic")).iter().all(|woken| *woken));
    while region.grow() {}
    assert!(!naps[1].sleep(Duration::from_millis(1)), "nobody writes");
}

/// The sampler would be woken by each block of the last quarter of each round, for nothing.
#[test]
fn a_box_that_cannot_grow_wakes_no_sampler() {
    let Some(made) = Boxed::new("cannot", 16 * MIB) else { return };
    let region = made.region;
    made.file().set_len((region.layout().blocks * 8 + MIB) as u64).expect("ours");
    assert!(!region.grow());
    let naps = [region.idle_nap(), region.pass_nap()];
    let sleepers = naps.map(|nap| std::thread::spawn(|| nap.sleep(Duration::from_secs(600))));
    for nap in naps {
        testkit::wait_for("it sleeps", || nap.has_sleeper().then_some(()));
    }
    let mut writer = writer(region, 7);
    (0..200_000).for_each(|seq| {
        writer.append(&record(7, seq), seq);
    });
    assert!(naps.iter().all(|nap| nap.has_sleeper()), "woken by a writer");
    naps.iter().for_each(|nap| nap.wake());
    assert!(sleepers.map(|sleeper| sleeper.join().expect("no panic")).iter().all(|woken| *woken));
}

#[test]
fn a_step_that_is_refused_is_counted_and_the_box_goes_on() {
    let Some(made) = Boxed::new("refused", 16 * MIB) else { return };
    let region = made.region;
    // Behind the end of a file there is no room, and a store raises SIGBUS, as in a full one.
    let end = region.layout().blocks * 8 + MIB;
    made.file().set_len(end as u64).expect("ours");
    assert!(!region.grow());
    assert_eq!(region.losses()[losses::BOX_STEPS_REFUSED], 1);
    let mut writer = writer(region, 7);
    (0..200_000).for_each(|seq| {
        writer.append(&record(7, seq), seq);
    });
    let books = Books::of(region, &copy(region));
    assert_eq!((books.written, books.dropped), (200_000, 0));
    books.balance();
}

#[test]
fn names_and_stacks_grow_as_they_come() {
    let Some(made) = Boxed::new("names", 16 * MIB) else { return };
    let before = made.region.present_bytes();
    let tables = Tables::new(made.region, |_, _| ());
    let texts = (0..5_000).map(|i| format!("a name of some length, number {i}"));
    let names: Vec<_> = texts.map(|text| tables.name(&text)).collect();
    assert!(names.iter().all(|name| *name != 0));
    let code = tables.code(names[0], names[1], 1, false);
    assert!((0..20_000).all(|line| tables.stack(0, code, line) != 0));
    assert!(made.region.present_bytes() > before);
    assert_eq!(made.taken(), made.region.present_bytes() as u64);
}

#[test]
fn names_without_memory_are_refused_and_counted() {
    let Some(made) = Boxed::new("no-names", 16 * MIB) else { return };
    let tables = Tables::new(made.region, |_, _| ());
    // The header and the first step of threads and of names.
    let end = made.region.layout().names * 8 + (64 << 10);
    made.file().set_len(end as u64).expect("ours");
    let texts = (0..5_000).map(|i| format!("a name of some length, number {i}"));
    let refused = texts.filter(|text| tables.bounded(Class::Target, text) == Some(0)).count();
    assert!(refused > 0);
    let losses = made.region.losses();
    assert_eq!(losses[losses::NAMES_REFUSED], refused as u64);
    assert_eq!(losses[losses::BOX_STEPS_REFUSED], 1, "asked once");
}

#[test]
fn threads_and_their_spans_grow_as_they_come() {
    let Some(made) = Boxed::new("threads", 16 * MIB) else { return };
    let region = made.region;
    let writers: Vec<_> = (1..=3_000).map(|tid| writer(region, tid)).collect();
    assert!(writers.iter().all(|writer| writer.slot().is_some()));
    let lines: Vec<_> = (1..=400).map(|tid| region.open_line(tid, tid)).collect();
    assert!(lines.iter().all(Option::is_some));
    assert_eq!(made.taken(), region.present_bytes() as u64);
    assert_eq!(region.copy_threads().0.len(), 3_000 * format::region::THREAD_WORDS);
}
