//! A folder with a capture in it, and the command.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use capture::write::CaptureWriter;

const META: &str = r#"{"service":"<b>billy</b>","pid":7,"start_ns":1000,"to_ns":9000,
    "settings":{"slow":"500ms"},"sources":{"switches":"on"},"losses":{}}"#;

/// A folder of its own for each test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("dashcam-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// A whole capture without a request.
    pub fn capture(&self) -> PathBuf {
        let path = self.0.join("one.dashcam");
        let file = fs::File::create(&path).expect("a file");
        let mut writer = CaptureWriter::new(file, META).expect("META");
        writer.tables(&Default::default()).expect("tables");
        writer.finish(0).expect("the end");
        path
    }

    /// Names of the files in the folder.
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder").flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `dashcam` with these arguments, in the folder.
pub fn dashcam(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    command.current_dir(folder).args(words);
    command
}

pub fn as_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
