//! Begin, end, and what is told again at a copy may lie in any blocks: one row comes of them, the same one.
#![cfg(feature = "read")]
#![allow(clippy::expect_used, missing_docs)]

use capture::read::Capture;
use capture::write::CaptureWriter;
use format::block::{pack_pair, FIRST_NS, HEADER_WORDS, OWNER};
use format::record::{flag, header, Kind};

const WORKER: u32 = 11;
const KEEPER: u32 = 12;

/// A block for each: thread, record.
fn capture(told: &[(u32, Vec<u64>)]) -> Capture {
    let mut writer = CaptureWriter::new(Vec::new(), r#"{"to_ns":9000}"#).expect("memory");
    for (tid, record) in told {
        let mut words = vec![0; HEADER_WORDS];
        (words[OWNER], words[FIRST_NS]) = (pack_pair(*tid, *tid), 1);
        words.extend(record);
        writer.block(&words).expect("memory");
    }
    Capture::parse(&writer.finish(0).expect("memory")).expect("whole")
}

#[test]
fn the_order_of_blocks_changes_no_request() {
    // Arrived at 100, taken up at 150, ended at 300; the keeper knows the arrival only.
    let begin = (WORKER, vec![header(Kind::RequestBegin, 4, 0, 1), 100, 7, 150]);
    let end = (WORKER, vec![header(Kind::RequestEnd, 4, flag::ERROR, 2), 100, 300, 7]);
    let again = (
        KEEPER,
        vec![header(Kind::RequestBegin, 5, flag::AGAIN, 3), 100, 7, 100, u64::from(WORKER)],
    );
    let told = [begin, end, again];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let read = capture(&order.map(|i| told[i].clone()));
        assert_eq!(read.requests.len(), 1, "{order:?}");
        let row = &read.requests[0];
        assert_eq!((row.id, row.tid, row.name), (7, WORKER, 2), "{order:?}");
        assert_eq!((row.begin_ns, row.started_ns, row.end_ns), (100, 150, Some(300)), "{order:?}");
        assert!(row.error && read.open_at_copy.contains(&7), "{order:?}");
    }
    // Without its end it is open; without its begin the end says what it knows.
    for (kept, started_ns, end_ns) in [([0, 2], 150, None), ([1, 2], 100, Some(300))] {
        let read = capture(&kept.map(|i| told[i].clone()));
        assert_eq!(read.requests.len(), 1, "{kept:?}");
        let row = &read.requests[0];
        assert_eq!((row.tid, row.started_ns, row.end_ns), (WORKER, started_ns, end_ns), "{kept:?}");
    }
}
