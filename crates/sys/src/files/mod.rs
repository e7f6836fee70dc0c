//! Files that other processes may read, copy or rename at any moment.
//!
//! | module | is |
//! | --- | --- |
//! | whole_file, whole_folder | a file, or a folder of files, that exists whole or not at all |
//! | shared_log | a file of lines that several processes append to, of bounded size |
//! | held | a file that its owner holds for as long as it lives |
//! | readers | which users may read them |
//! | turn | a turn that processes take one after the other |
//!
//! What it promises: a file that is found by its name is complete. What is missing on purpose:
//! formats and retention (crates `capture`, `dashcam`).

pub mod held;
pub mod readers;
pub mod shared_log;
pub mod turn;
pub mod whole_file;
pub mod whole_folder;
