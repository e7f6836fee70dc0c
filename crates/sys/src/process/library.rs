//! The file that this code was loaded from: the program, or a library in it.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Its path, as the dynamic linker was given it. None: the linker does not know.
pub fn path() -> Option<PathBuf> {
    let here = path as *const () as *const libc::c_void;
    // SAFETY: all zeroes is a valid Dl_info, which the call fills in; the address is of this code,
    // which stays loaded, and so does the name that the linker keeps of it.
    let name = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let known = libc::dladdr(here, &mut found) != 0 && !found.dli_fname.is_null();
        known.then(|| CStr::from_ptr(found.dli_fname))?
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    // The program is named by its first argument, which need not be a path.
    match path.is_absolute() {
        true => Some(path),
        false => std::env::current_exe().ok(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_test_program_is_found() {
        assert_eq!(super::path().map(|path| path.is_file()), Some(true));
    }
}
