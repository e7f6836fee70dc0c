//! Folders that are removed with their test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder of its own name; removed, with everything in it, when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder; `name` is a part of its name.
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: orders nothing; each caller gets a number of its own.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = format!("dashcam-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(own);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a folder into which a recorder of this process may still write: a file that comes while
/// the others are removed is removed as well. What cannot be removed stays.
pub fn remove(folder: &Path) {
    const MOST: usize = 100;
    for _ in 0..MOST {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => continue,
            _ => return,
        }
    }
}
