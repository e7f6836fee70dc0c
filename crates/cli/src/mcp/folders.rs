//! The folders that an agent may read, and what its words for a path mean in them.
//!
//! What it promises: the path that is returned lies in one of the folders with every symbolic link
//! followed, so no `..` and no link leads elsewhere. It is a folder, or a capture
//! (`*.dashcam`).

use std::path::{Path, PathBuf};

/// The folders that were named.
pub struct Folders {
    named: Vec<PathBuf>,
}

impl Folders {
    /// As the command line names them; `captures` if it names none.
    pub fn new(named: Vec<PathBuf>) -> Folders {
        match named.is_empty() {
            true => Folders { named: vec![PathBuf::from("captures")] },
            false => Folders { named },
        }
    }

    /// Those that are there.
    pub fn present(&self) -> Vec<PathBuf> {
        let found = self.named.iter().filter_map(|folder| folder.canonicalize().ok());
        found.filter(|folder| folder.is_dir()).collect()
    }

    /// Those that are not there.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.named.iter().filter(|folder| !folder.is_dir());
        missing.map(|folder| folder.display().to_string()).collect()
    }

    /// The path that a word means: a path, or the name of a capture in one of the folders.
    pub fn path(&self, word: &str) -> Result<PathBuf, String> {
        let folders = self.present();
        // An absolute word replaces the folder.
        let tried = folders.iter().map(|folder| folder.join(word)).chain([PathBuf::from(word)]);
        let found: Vec<PathBuf> = tried.filter_map(|path| path.canonicalize().ok()).collect();
        let inside = |path: &&PathBuf| folders.iter().any(|folder| path.starts_with(folder));
        match found.iter().find(inside) {
            Some(path) if is_capture(path) || path.is_dir() => Ok(path.clone()),
            Some(path) => {
                Err(format!("{}: wanted a capture (*.dashcam) or a folder", path.display()))
            }
            // The same words for both: what lies outside is not shown.
            None => Err(format!(
                "{word}: no capture of that name in {}; `list_captures` lists them",
                self.text()
            )),
        }
    }

    /// As they were named, for people.
    pub fn text(&self) -> String {
        let named: Vec<String> = self.named.iter().map(|f| f.display().to_string()).collect();
        named.join(", ")
    }
}

fn is_capture(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|ending| ending == "dashcam")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_outside_of_the_folders_is_reached() {
        let root = std::env::temp_dir().join(format!("dashcam-mcp-folders-{}", std::process::id()));
        let inside = root.join("captures");
        fs::create_dir_all(inside.join("old")).expect("folders");
        fs::write(root.join("secret.dashcam"), "x").expect("a file");
        fs::write(inside.join("a.dashcam"), "x").expect("a file");
        fs::write(inside.join("old/b.dashcam"), "x").expect("a file");
        fs::write(inside.join("notes.txt"), "x").expect("a file");
        std::os::unix::fs::symlink(root.join("secret.dashcam"), inside.join("link.dashcam"))
            .expect("a link");
        std::os::unix::fs::symlink("/", inside.join("root")).expect("a link");
        let folders = Folders::new(vec![inside.clone()]);
        let real = inside.canonicalize().expect("there");
        assert_eq!(folders.path("a.dashcam"), Ok(real.join("a.dashcam")));
        assert_eq!(folders.path("old"), Ok(real.join("old")));
        assert_eq!(folders.path("old/../a.dashcam"), Ok(real.join("a.dashcam")));
        let absolute = inside.join("old/b.dashcam");
        assert_eq!(folders.path(&absolute.display().to_string()), Ok(real.join("old/b.dashcam")));
        let secret = root.join("secret.dashcam").display().to_string();
        for word in ["../secret.dashcam", &secret, "link.dashcam", "root", "..", "/etc/passwd"] {
            let error = folders.path(word).expect_err(word);
            assert!(error.contains("no capture of that name"), "{error}");
        }
        let error = folders.path("notes.txt").expect_err("no capture");
        assert!(error.contains("wanted a capture"), "{error}");
        fs::remove_dir_all(&root).expect("ours");
    }
}
