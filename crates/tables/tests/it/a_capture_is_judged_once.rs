//! A capture is judged once, whatever asks for its verdict.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use capture::read::Capture;
use golden::store;
use tables::Source;

/// A source that counts how often its rules are asked: once for each request that is judged.
fn counted(entry: &str) -> (Source, Arc<AtomicUsize>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let bytes = store::unpacked(&folder.join(entry)).expect("a golden capture");
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = asked.clone();
    let limit = move |_: &str| {
        counting.fetch_add(1, Relaxed);
        200_000_000
    };
    let capture = Capture::parse(&bytes).expect("a capture");
    let source = Source::new(capture, entry.to_owned(), Box::new(limit));
    (source, asked)
}

#[test]
fn the_verdict_and_the_tables_of_its_causes_are_of_one_judgement() {
    let (source, asked) = counted("aiohttp_lock.dashcam.gz");
    assert!(!source.verdict().findings.is_empty());
    let once = asked.load(Relaxed);
    assert!(once > 0);
    for name in ["causes", "evidence"] {
        let mut rows = 0;
        let table = tables::named(name).expect("a table");
        let mut count = |batch: arrow_array::RecordBatch| {
            rows += batch.num_rows();
            Ok(())
        };
        table.write(&source, &mut count).expect("its rows");
        assert!(rows > 0, "{name}");
    }
    source.verdict();
    assert_eq!(asked.load(Relaxed), once);
}
