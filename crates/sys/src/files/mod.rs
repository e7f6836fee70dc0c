//! See the modules.

pub mod shared_log;
pub mod whole_file;
pub mod whole_folder;
