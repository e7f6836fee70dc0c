//! A guarded read ends in bytes or in an error, never in a fault and never in bytes from elsewhere:
//! while the memory is unmapped, protected and mapped again; in a forked child; and with no
//! descriptor left.

#![allow(clippy::expect_used, missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::mem::{Buffer, Extent, Reader};

const PAGE: usize = 4096;
const PAGES: usize = 64;

fn map(at: usize, fixed: bool) -> usize {
    let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let mut length = PAGE;
    if fixed {
        flags |= libc::MAP_FIXED;
    } else {
        length *= PAGES;
    }
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, or one page of the region that this test alone has.
    let found = unsafe { libc::mmap(at as *mut _, length, rights, flags, -1, 0) };
    assert_ne!(found, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    found as usize
}

/// Every byte of a page that is there is the page's number, or 0 while it is new.
fn fill(region: usize, page: usize) {
    // SAFETY: the caller has just mapped this page for writing, and alone changes the region.
    unsafe { std::ptr::write_bytes((region + page * PAGE) as *mut u8, page as u8 + 1, PAGE) };
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

/// Unmaps pages, protects them, and maps them again, until it is stopped.
fn churn(region: usize, stop: &AtomicBool, changes: &AtomicU64) {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    while !stop.load(Ordering::Relaxed) {
        let page = random(&mut state) % PAGES;
        let at = (region + page * PAGE) as *mut libc::c_void;
        match random(&mut state) % 4 {
            0 => {
                // SAFETY: one page of the region, to which there is no reference.
                unsafe { libc::munmap(at, PAGE) };
            }
            1 => {
                // SAFETY: as above. It may be gone already, which is an error and nothing more.
                unsafe { libc::mprotect(at, PAGE, libc::PROT_NONE) };
            }
            _ => {
                map(at as usize, true);
                fill(region, page);
            }
        }
        changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ranges of random places and lengths within the region, and some far from it.
fn extents(region: usize, state: &mut u64, out: &mut Vec<Extent>) {
    out.clear();
    for _ in 0..random(state) % 40 {
        let start = random(state) % (PAGES * PAGE);
        let length = random(state) % (3 * PAGE).min(PAGES * PAGE - start);
        let address = match random(state) % 200 {
            0 => 8,
            1 => usize::MAX - 5,
            2 => 1 << 62,
            _ => region + start,
        };
        out.push(Extent { address, length });
    }
}

/// How many bytes were read and checked in ranges that were whole.
fn check(region: usize, extents: &[Extent], bytes: &[u8]) -> usize {
    let mut done = 0;
    for extent in extents {
        for i in 0..extent.length {
            let Some(byte) = bytes.get(done) else { return done };
            let page = (extent.address + i - region) / PAGE;
            assert!(*byte == 0 || *byte == page as u8 + 1, "{byte} in page {page}");
            done += 1;
        }
    }
    done
}

#[test]
fn memory_that_comes_and_goes_is_read_or_refused() {
    let reader = Reader::new().expect("a process may read itself");
    let mut buffer = Buffer::new(4 << 20).expect("address space");
    let region = map(0, false);
    (0..PAGES).for_each(|page| fill(region, page));
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut state, mut list) = (88_172_645_463_325_252, Vec::new());
    let (mut whole, mut cut, mut bytes) = (0u64, 0u64, 0usize);
    std::thread::scope(|scope| {
        let stops = testkit::SetsAtEnd(&stop);
        let churn = scope.spawn(|| churn(region, &stop, &changes));
        // Until each kind was met often; how soon depends on the machine.
        let is_rare = || changes.load(Ordering::Relaxed) <= 100;
        while is_rare() || whole <= 10 || cut <= 10 || bytes <= 1 << 20 {
            extents(region, &mut state, &mut list);
            let wanted: usize = list.iter().map(|extent| extent.length).sum();
            let read = reader.read_extents(&list, &mut buffer);
            assert!(read <= wanted);
            bytes += check(region, &list, &buffer[..read]);
            *(if read == wanted { &mut whole } else { &mut cut }) += 1;
            let at = region + random(&mut state) % (PAGES * PAGE - 8);
            let _ = reader.word(at);
        }
        drop(stops);
        churn.join().expect("the other thread goes on");
    });
}

#[test]
fn a_forked_child_has_a_reader_of_its_own_and_not_its_parents_buffer() {
    let words = [7u64, 11];
    let mut buffer = Buffer::new(1 << 20).expect("address space");
    let extent = Extent { address: words.as_ptr() as usize, length: 16 };
    let reader = Reader::new().expect("a process may read itself");
    assert_eq!(reader.read_extents(&[extent], &mut buffer), 16);
    let parents = buffer.as_ptr() as usize;
    let mut parents_buffer = Some(buffer);
    let code = testkit::in_a_child(|| {
        // If it copied "into itself", the kernel would write into the parent.
        let parents_is_refused = reader.word(extent.address).is_err();
        match Reader::new() {
            _ if !parents_is_refused => 5,
            Err(_) => 1,
            Ok(mine) if mine.word(extent.address).ok() != Some(7) => 2,
            // The parent's buffer is not there: a read of it is refused, dropping it unmaps
            // nothing.
            Ok(mine) if mine.word(parents).is_ok() => 3,
            Ok(mine) => {
                let at = map(0, false);
                drop(parents_buffer.take());
                i32::from(mine.word(at).is_err()) * 4
            }
        }
    });
    assert_eq!(code, 0);
    let mut buffer = parents_buffer.expect("the child took a copy");
    // The parent's is as it was, and still of use.
    assert_eq!(buffer[..8], 7u64.to_ne_bytes());
    assert_eq!(reader.read_extents(&[extent], &mut buffer), 16);
}

#[test]
fn no_descriptor_is_needed() {
    // A child process, so that the limit is its own.
    let code = testkit::in_a_child(|| {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structure is ours.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) };
        let word = 42usize;
        let read = |reader: Reader| reader.word(&raw const word as usize).ok();
        match std::fs::File::open("/proc/self/mem") {
            Ok(_) => 1,
            Err(_) => i32::from(Reader::new().ok().and_then(read) != Some(42)) * 2,
        }
    });
    assert_eq!(code, 0);
}
