//! The environment as it was when the recording began.
//!
//! How it works: `copy` reads all of it, on a thread of the host's that nothing changes it beside
//! (Python's GIL is held, or the program has just begun). The others read that copy; where there is
//! none, as in the command, the environment itself.
//!
//! What it promises: no thread of ours reads the table that the host may be changing. `setenv`
//! moves the table and frees what `getenv` is reading, and neither Python's `os.environ` nor C
//! takes the lock of Rust's standard library. Nor does `add` change what another thread may be
//! reading. Missing on purpose: variables that the host sets after `copy`.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::cell::StaticRef;

extern "C" {
    /// The C library's table of texts `NAME=value`, with null at its end.
    static mut environ: *mut *mut libc::c_char;
}

type Variables = Vec<(OsString, OsString)>;

static COPY: StaticRef<Variables> = StaticRef::empty();

/// Copies the environment, in place of an earlier copy. A copy is kept for good, since other
/// threads may be reading it; one that is equal to the last is not kept.
pub fn copy() {
    let now: Variables = std::env::vars_os().collect();
    if COPY.get() != Some(&now) {
        COPY.set(Some(Box::leak(Box::new(now))));
    }
}

/// Sets variables for this process and the programs it starts, while other threads of the host may
/// be reading the environment: not `setenv`, which frees the old table, but a new table that takes
/// the old one's place in one store. The old one stays, and so does each text in it. False: another
/// thread has changed the table meanwhile, or a text holds a zero byte; nothing was set then.
pub fn add(variables: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let text = |(name, value): &(Vec<u8>, Vec<u8>)| {
        CString::new([name.as_slice(), b"=", value.as_slice()].concat()).ok()
    };
    let Some(texts) = variables.iter().map(text).collect::<Option<Vec<CString>>>() else {
        return false;
    };
    // SAFETY: the C library's own variable, aligned, and there for as long as the process.
    let place = unsafe { AtomicPtr::from_ptr(&raw mut environ) };
    // Acquire: a table that another thread made is seen whole.
    let old = place.load(Ordering::Acquire);
    let mut table: Vec<*mut libc::c_char> = Vec::new();
    // SAFETY: the table ends with null, as the C library wants it, and each entry is a text that
    // ends with zero. The caller sees to it that no thread calls `setenv` meanwhile (the GIL).
    unsafe {
        let mut at = old;
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at).to_bytes();
            let is_replaced = variables.iter().any(|(name, _)| {
                entry.strip_prefix(name.as_slice()).is_some_and(|rest| rest.first() == Some(&b'='))
            });
            if !is_replaced {
                table.push(*at);
            }
            at = at.add(1);
        }
    }
    table.extend(texts.into_iter().map(CString::into_raw));
    table.push(std::ptr::null_mut());
    let new = Box::leak(table.into_boxed_slice()).as_mut_ptr();
    // Release: pairs with the C library's readers of the new table.
    place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
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
