//! Begin, end, and the copy made at a snapshot may lie in any blocks: the result is one row, always
//! the same.
#![cfg(feature = "read")]

use capture::read::Capture;
use capture::write::CaptureWriter;
use format::block::{pack_pair, FIRST_NS, HEADER_WORDS, OWNER};
use format::record::{flag, header, Kind};

const WORKER: u32 = 11;
const HOLDER: u32 = 12;

/// A block for each: thread, record.
fn capture(records: &[(u32, Vec<u64>)]) -> Capture {
    let mut writer = CaptureWriter::new(Vec::new(), r#"{"to_ns":9000}"#).expect("memory");
    for (tid, record) in records {
        let mut words = vec![0; HEADER_WORDS];
        (words[OWNER], words[FIRST_NS]) = (pack_pair(*tid, *tid), 1);
        words.extend(record);
        writer.block(&words).expect("memory");
    }
    Capture::parse(&writer.finish(0).expect("memory")).expect("whole")
}

#[test]
fn the_order_of_blocks_changes_no_request() {
    // Arrived at 100, handler from 150, ended at 300; the snapshot's copy has the arrival only.
    let begin = (WORKER, vec![header(Kind::RequestBegin, 4, 0, 1), 100, 7, 150]);
    let end = (WORKER, vec![header(Kind::RequestEnd, 4, flag::ERROR, 2), 100, 300, 7]);
    let again = (
        HOLDER,
        vec![header(Kind::RequestBegin, 5, flag::AGAIN, 3), 100, 7, 100, u64::from(WORKER)],
    );
    let records = [begin, end, again];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let read = capture(&order.map(|i| records[i].clone()));
        assert_eq!(read.requests.len(), 1, "{order:?}");
        let row = &read.requests[0];
        assert_eq!((row.id, row.tid, row.name), (7, WORKER, 2), "{order:?}");
        assert_eq!((row.begin_ns, row.started_ns, row.end_ns), (100, 150, Some(300)), "{order:?}");
        assert!(row.error && read.open_at_copy.contains(&7), "{order:?}");
    }
    // Without its end it is open; without its begin the row has what the end contains.
    for (kept, started_ns, end_ns) in [([0, 2], 150, None), ([1, 2], 100, Some(300))] {
        let read = capture(&kept.map(|i| records[i].clone()));
        assert_eq!(read.requests.len(), 1, "{kept:?}");
        let row = &read.requests[0];
        assert_eq!((row.tid, row.started_ns, row.end_ns), (WORKER, started_ns, end_ns), "{kept:?}");
    }
}

/// The sampler's second copy of a record replaces a lost original, and nothing else.
#[test]
fn records_written_twice_are_one_row() {
    let begin = vec![header(Kind::RequestBegin, 4, 0, 1), 100, 7, 150];
    let end = vec![header(Kind::RequestEnd, 4, flag::ERROR, 1), 100, 300, 7];
    let gc = vec![header(Kind::Gc, 4, 2, 0), 500, 900, 44];
    let twice = |record: &[u64]| {
        let head = header(Kind::Again, record.len() + 2, 0, 0);
        (HOLDER, [&[head, u64::from(WORKER)], record].concat())
    };
    let own = |record: &[u64]| (WORKER, record.to_vec());
    let again = [own(&begin), twice(&end), twice(&gc)];
    let end_alone = vec![own(&end), twice(&begin), twice(&gc)];
    let all = [&again[..], &[own(&end), own(&gc), twice(&begin)]].concat();
    for records in [again.to_vec(), end_alone, all] {
        let read = capture(&records);
        let [row] = &read.requests[..] else { panic!("{:?}", read.requests) };
        assert_eq!((row.id, row.tid, row.started_ns, row.error), (7, WORKER, 150, true));
        assert_eq!(row.end_ns, Some(300));
        let [gc] = &read.gcs[..] else { panic!("{:?}", read.gcs) };
        assert_eq!((gc.tid, gc.begin_ns, gc.end_ns, gc.collected), (WORKER, 500, 900, 44));
    }
    // A second copy of an invalid record is ignored.
    for bad in [&[][..], &[0], &[header(Kind::Gc, 9, 0, 0), 1]] {
        assert!(capture(&[own(&begin), twice(bad)]).gcs.is_empty());
    }
}
