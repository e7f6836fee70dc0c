//! A capture of half a million requests, read for causes: which rows stay, and how many each stands
//! for.
#![cfg(feature = "read")]

use std::collections::HashMap;

use capture::read::{Capture, RequestRow, Wanted};
use capture::write::CaptureWriter;
use format::block::{pack_pair, FIRST_NS, HEADER_WORDS, OWNER};
use format::record::{flag, header, Kind};

const WORKER: u32 = 11;
const HOLDER: u32 = 12;
const US: u64 = 1000;
const REQUESTS: u64 = 520_000;

/// Requests one behind the other, the first eighth of them last in the file. 1 of 100 has the name
/// 2, the others 1; 1 of 1000 failed, 1 of 5000 took 50 ms; the median is 500 us. The last forty
/// are recorded again as open, though their ends were read.
fn capture() -> Vec<u8> {
    let took = |at: u64| if at % 5000 == 77 { 50_000 * US } else { (at * 7919 % 1000) * US };
    let mut begins = vec![1000];
    begins.extend((0..REQUESTS).scan(1000, |now, at| {
        *now += took(at) + 2 * US;
        Some(*now)
    }));
    let to_ns = begins[REQUESTS as usize];
    let meta = format!(r#"{{"to_ns":{to_ns}}}"#);
    let mut writer = CaptureWriter::new(Vec::new(), &meta).expect("memory");
    let chunks = REQUESTS / 100;
    for chunk in (chunks / 8..chunks).chain(0..chunks / 8) {
        let mut words = vec![0; HEADER_WORDS];
        let first = begins[chunk as usize * 100];
        (words[OWNER], words[FIRST_NS]) = (pack_pair(WORKER, WORKER), first);
        for i in 0..100 {
            let at = chunk * 100 + i;
            let begin_ns = begins[at as usize];
            let end_ns = begin_ns + took(at);
            let name = if i == 0 { 2 } else { 1 };
            let failed = if at % 1000 == 5 { flag::ERROR } else { 0 };
            words.extend([header(Kind::RequestBegin, 4, 0, name), begin_ns, at + 1, begin_ns]);
            words.extend([header(Kind::RequestEnd, 4, failed, name), begin_ns, end_ns, at + 1]);
        }
        writer.block(&words).expect("memory");
    }
    let mut words = vec![0; HEADER_WORDS];
    (words[OWNER], words[FIRST_NS]) = (pack_pair(HOLDER, HOLDER), to_ns);
    for id in REQUESTS - 40..REQUESTS {
        let again = header(Kind::RequestBegin, 5, flag::AGAIN, 1);
        words.extend([again, to_ns - US, id, to_ns - US, u64::from(WORKER)]);
    }
    writer.block(&words).expect("memory");
    writer.finish(0).expect("memory")
}

fn read(bytes: &[u8], wanted: Wanted) -> Capture {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("very-many-{}.dashcam", std::process::id()));
    std::fs::write(&path, bytes).expect("a file");
    let read = Capture::open_for(&path, wanted, &mut |_, _| ()).expect("whole");
    std::fs::remove_file(&path).expect("the file");
    read
}

fn ns(row: &RequestRow) -> u64 {
    row.end_ns.expect("ended") - row.begin_ns
}

/// How many of each name, and how many of them failed.
fn counts(read: &Capture) -> HashMap<(u32, bool), u64> {
    let mut counts = HashMap::new();
    for row in &read.requests {
        *counts.entry((row.name, row.error)).or_default() += u64::from(row.times);
    }
    counts
}

#[test]
fn the_slowest_requests_stay_and_the_others_are_counted() {
    let bytes = capture();
    let (all, few) = (read(&bytes, Wanted::All), read(&bytes, Wanted::Causes));
    assert_eq!(all.requests.len() as u64, REQUESTS);
    assert!(all.requests.iter().all(|r| r.times == 1));
    assert!((60_000..131_072).contains(&few.requests.len()), "{}", few.requests.len());
    assert_eq!(counts(&few), counts(&all));
    assert!(few.requests.iter().all(|r| r.end_ns.is_some()), "an ended one is told as open");
    assert!(few.requests.is_sorted_by_key(|r| (r.begin_ns, r.id)));
    // Each slow one as it was; of the others none stands for far more than the next.
    let slow = |c: &Capture| {
        let own = c.requests.iter().filter(|r| ns(r) >= 50_000 * US);
        own.map(|r| (r.id, r.times)).collect::<Vec<_>>()
    };
    assert_eq!(slow(&few), slow(&all));
    assert!(slow(&few).len() >= 104);
    let most = few.requests.iter().map(|r| r.times).max().expect("rows");
    assert!((4..=16).contains(&most), "one stands for {most}");
    // No time of the capture is left out, and the median is what it was.
    let mut weighed: Vec<(u64, u32)> = few.requests.iter().map(|r| (ns(r), r.times)).collect();
    weighed.sort_unstable();
    let mut before = 0;
    let half = weighed.iter().find(|(_, times)| {
        before += u64::from(*times);
        before > REQUESTS / 2
    });
    let (median, _) = half.expect("rows");
    assert!((490 * US..510 * US).contains(median), "{median}");
    let gap = few.requests.windows(2).map(|w| w[1].begin_ns - w[0].begin_ns).max();
    assert!(gap < Some(100_000 * US), "{gap:?}");
}
