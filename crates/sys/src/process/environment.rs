//! The environment as it was when the recording began.
//!
//! How it works: `copy` reads all of it once. The others read that copy; where there is none, as in
//! the command, the environment itself.
//!
//! Nothing holds the host's threads off the table meanwhile: Python's GIL does not for code in C,
//! and a free-threaded interpreter has none. `setenv` moves the table and frees what is being read,
//! and neither Python's `os.environ` nor C takes the lock of Rust's standard library. So the kernel
//! reads the table for us (`mem`), first its pointers, then the texts, and then the pointers again:
//! if they are the same, no text was replaced meanwhile.
//!
//! What it promises: no thread of ours reads by itself what the host may be changing, nor does
//! `add` change what another thread may be reading. Missing on purpose: variables that the host
//! sets after `copy`; kernels that refuse such reads (a seccomp filter), where the table is read as
//! `getenv` would.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::cell::StaticRef;
use crate::mem::{Extent, Reader};

extern "C" {
    /// The C library's table of texts `NAME=value`, with null at its end.
    static mut environ: *mut *mut libc::c_char;
}

type Variables = Vec<(OsString, OsString)>;

static COPY: StaticRef<Variables> = StaticRef::empty();

/// Copies the environment, in place of an earlier copy. A copy is kept for good, since other
/// threads may be reading it; one that is equal to the last is not kept.
pub fn copy() {
    let now = read();
    if COPY.get() != Some(&now) {
        COPY.set(Some(Box::leak(Box::new(now))));
    }
}

/// Readings of a table before one that another thread was changing is taken.
const READINGS: usize = 100;
/// Bytes of a text that are read at first: few variables are longer.
const SHORT: usize = 128;
/// Reads go no further than the page of their first byte, behind which nothing may be mapped.
const PAGE: usize = 4096;
/// Most entries of a table, and most bytes of a text: more is not the table any more.
const BOUND: usize = 1 << 20;

/// The table as the kernel read it.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// Where it lies, and its pointers.
    address: usize,
    pointers: Vec<usize>,
}

/// Where the C library keeps the address of its table.
fn place() -> &'static AtomicPtr<*mut libc::c_char> {
    // SAFETY: the C library's own variable, aligned, and there for as long as the process.
    unsafe { AtomicPtr::from_ptr(&raw mut environ) }
}

impl Table {
    /// None: a part of it is not mapped, so it was moved meanwhile.
    fn read(reader: &Reader) -> Option<Table> {
        // Acquire: a table that another thread made is seen whole.
        let address = place().load(Ordering::Acquire) as usize;
        let (mut pointers, word) = (Vec::new(), size_of::<usize>());
        if address == 0 {
            return Some(Table { address, pointers });
        }
        while pointers.len() < BOUND {
            let at = address + pointers.len() * word;
            let mut bytes = [0; 64 * size_of::<usize>()];
            let length = (PAGE - at % PAGE).min(bytes.len()).next_multiple_of(word);
            reader.read(at, &mut bytes[..length]).ok()?;
            for one in bytes[..length].chunks_exact(word) {
                match usize::from_ne_bytes(one.try_into().ok()?) {
                    0 => return Some(Table { address, pointers }),
                    pointer => pointers.push(pointer),
                }
            }
        }
        None
    }

    /// The text of each entry, None where it could not be read.
    fn texts(&self, reader: &Reader) -> Vec<Option<Vec<u8>>> {
        let short = |address: &usize| {
            let length = SHORT.min(PAGE - address % PAGE);
            Extent { address: *address, length }
        };
        let extents: Vec<Extent> = self.pointers.iter().map(short).collect();
        let mut bytes = vec![0; extents.iter().map(|extent| extent.length).sum()];
        let read = reader.read_extents(&extents, &mut bytes);
        let mut at = 0;
        let text = |extent: &Extent| {
            let begin = at;
            at += extent.length;
            let found = bytes[..read].get(begin..at).and_then(until_zero);
            found.map_or_else(|| whole_text(reader, extent.address), |text| Some(text.to_vec()))
        };
        extents.iter().map(text).collect()
    }
}

fn until_zero(bytes: &[u8]) -> Option<&[u8]> {
    Some(&bytes[..bytes.iter().position(|byte| *byte == 0)?])
}

/// A text of any length, page by page.
fn whole_text(reader: &Reader, address: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < BOUND {
        let at = address.checked_add(text.len())?;
        let mut bytes = [0; PAGE];
        let bytes = &mut bytes[..PAGE - at % PAGE];
        reader.read(at, bytes).ok()?;
        match until_zero(bytes) {
            Some(rest) => {
                text.extend_from_slice(rest);
                return Some(text);
            }
            None => text.extend_from_slice(bytes),
        }
    }
    None
}

/// The table and its texts as they were at one moment; or, after `READINGS`, what could be read.
/// None: the kernel refuses to read.
fn table() -> Option<(Table, Vec<Option<Vec<u8>>>)> {
    let reader = Reader::by_call()?;
    let mut last = (Table { address: 0, pointers: Vec::new() }, Vec::new());
    for _ in 0..READINGS {
        let Some(table) = Table::read(&reader) else { continue };
        let texts = table.texts(&reader);
        let is_same = Table::read(&reader).is_some_and(|again| again == table);
        last = (table, texts);
        if is_same {
            break;
        }
    }
    Some(last)
}

/// All variables now. As in Rust's standard library a name may begin with `=`, and what has no
/// other `=` is none.
fn read() -> Variables {
    let Some((_, texts)) = table() else { return std::env::vars_os().collect() };
    let pair = |text: Vec<u8>| {
        let at = 1 + text.get(1..)?.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (text[..at].to_vec(), text[at + 1..].to_vec());
        Some((OsString::from_vec(name), OsString::from_vec(value)))
    };
    texts.into_iter().flatten().filter_map(pair).collect()
}

/// Sets variables for this process and the programs it starts, while other threads of the host may
/// be reading the environment: not `setenv`, which frees the old table, but a new table that takes
/// the old one's place in one store. The old one stays, and so does each text in it. False: another
/// thread has moved the table meanwhile, the kernel refuses to read it, or a text holds a zero
/// byte; nothing was set then. A variable that another thread sets at this moment may be lost.
pub fn add(variables: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let text = |(name, value): &(Vec<u8>, Vec<u8>)| {
        CString::new([name.as_slice(), b"=", value.as_slice()].concat()).ok()
    };
    let Some(texts) = variables.iter().map(text).collect::<Option<Vec<CString>>>() else {
        return false;
    };
    let Some((old, entries)) = table() else { return false };
    let is_replaced = |entry: &[u8]| {
        variables.iter().any(|(name, _)| {
            entry.strip_prefix(name.as_slice()).is_some_and(|rest| rest.first() == Some(&b'='))
        })
    };
    let remains = |entry: &Option<Vec<u8>>| !entry.as_deref().is_some_and(is_replaced);
    let kept = old.pointers.iter().zip(&entries).filter(|(_, entry)| remains(entry));
    let mut table: Vec<*mut libc::c_char> = kept.map(|(at, _)| *at as *mut _).collect();
    table.extend(texts.into_iter().map(CString::into_raw));
    table.push(std::ptr::null_mut());
    let (old, new) = (old.address as *mut _, Box::leak(table.into_boxed_slice()).as_mut_ptr());
    // Release: pairs with the C library's readers of the new table.
    place().compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// A variable's value.
pub fn value(name: &str) -> Option<OsString> {
    let Some(copy) = COPY.get() else { return std::env::var_os(name) };
    copy.iter().find(|(own, _)| own == OsStr::new(name)).map(|(_, value)| value.clone())
}

/// A variable's value; None also where it is no Unicode.
pub fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

/// All variables: name, value.
pub fn all() -> Variables {
    COPY.get().cloned().unwrap_or_else(|| std::env::vars_os().collect())
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    /// One test, since it changes the process's environment.
    #[test]
    fn what_is_set_behind_the_copy_is_seen_by_the_next_one() {
        let name = "DASHCAM_TEST_ENVIRONMENT";
        std::env::set_var(name, "first");
        assert_eq!(text(name).as_deref(), Some("first"), "no copy yet");
        copy();
        std::env::set_var(name, "second");
        assert_eq!(text(name).as_deref(), Some("first"));
        assert!(all().contains(&(name.into(), "first".into())));
        copy();
        let kept = COPY.get().expect("a copy");
        copy();
        assert!(std::ptr::eq(kept, COPY.get().expect("a copy")), "an equal one is not kept");
        std::env::remove_var(name);
        assert_eq!(text(name).as_deref(), Some("second"));
        copy();
        assert_eq!((value(name), text("PATH").is_some()), (None, true));

        let (added, path) = ("DASHCAM_TEST_ADDED", std::env::var_os("PATH"));
        let pair = |value: &str| [(added.as_bytes().to_vec(), value.as_bytes().to_vec())];
        let count = std::env::vars_os().count();
        assert!(add(&pair("one")) && !add(&pair("t\0wo")));
        assert_eq!(std::env::var(added).as_deref(), Ok("one"));
        assert!(add(&pair("two")), "in place of the other");
        assert_eq!(std::env::var(added).as_deref(), Ok("two"));
        assert_eq!((std::env::vars_os().count(), std::env::var_os("PATH")), (count + 1, path));
        // The C library goes on with the new table.
        std::env::set_var(name, "third");
        std::env::remove_var(added);
        assert_eq!((std::env::var(name).as_deref(), std::env::var_os(added)), (Ok("third"), None));
    }
}
