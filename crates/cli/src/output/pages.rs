//! Completions for shells, and manual pages: both made from the declaration of the arguments.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::output::exit_code::USAGE;

/// Prints the completions of a shell.
pub fn completions(command: &mut Command, shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, command, "dashcam", &mut text);
    print!("{}", String::from_utf8_lossy(&text));
    ExitCode::SUCCESS
}

/// Writes `dashcam.1`, and `dashcam-VERB.1` for each verb.
pub fn man(command: Command, folder: &Path) -> ExitCode {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error: io::Error| format!("dashcam: {}: {error}", folder.display()));
    match written {
        Ok(()) => {
            let folder = folder.display();
            eprintln!("dashcam: manual pages written: man {folder}/dashcam.1");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}; wanted a folder that can be written to");
            ExitCode::from(USAGE)
        }
    }
}
