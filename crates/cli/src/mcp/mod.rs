//! `dashcam mcp`: read-only tools for coding agents, a server of the Model Context Protocol.
//!
//! How it works: the agent starts this process and writes JSON-RPC 2.0 messages to its stdin, one a
//! line (`protocol`); the answers are lines on stdout. A tool is a verb of this command (`tools`),
//! which runs as a process of its own (`answer`): what it needs is freed with it, and a question
//! that takes too long is ended without ending the server.
//!
//! What it promises: nothing is written, and no process is changed; paths are only those in the
//! folders that were named (`folders`); an answer has at most `answer::CHARS_MAX` characters, and
//! says how much was left out. Missing on purpose: resources, prompts, a network port.

mod answer;
mod folders;
mod protocol;
mod tools;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use folders::Folders;

/// A longer message is refused.
const MESSAGE_MAX: u64 = 1 << 20;

/// Answers messages until stdin ends.
pub fn mcp(folders: Vec<PathBuf>) -> ExitCode {
    let folders = Folders::new(folders);
    for missing in folders.missing() {
        eprintln!("dashcam: {}: no such folder yet; captures are read when it is there", missing);
    }
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let line = match message(&mut stdin) {
            Ok(Some(line)) => line,
            // The agent has ended.
            Ok(None) | Err(_) => return ExitCode::SUCCESS,
        };
        let answer = match &line {
            Message::Text(text) if text.iter().all(u8::is_ascii_whitespace) => None,
            Message::Text(text) => {
                protocol::answer(text, &|name, arguments| tools::call(name, arguments, &folders))
            }
            Message::TooLong => Some(protocol::too_long(MESSAGE_MAX)),
        };
        if let Some(answer) = answer {
            let sent = writeln!(stdout, "{answer}").and_then(|()| stdout.flush());
            if sent.is_err() {
                return ExitCode::SUCCESS;
            }
        }
    }
}

enum Message {
    Text(Vec<u8>),
    TooLong,
}

/// The next line; None at the end.
fn message(stdin: &mut impl BufRead) -> io::Result<Option<Message>> {
    let mut line = Vec::new();
    io::Read::take(&mut *stdin, MESSAGE_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() as u64 == MESSAGE_MAX && line.last() != Some(&b'\n') {
        stdin.skip_until(b'\n')?;
        return Ok(Some(Message::TooLong));
    }
    Ok(Some(Message::Text(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_skipped_and_the_next_one_read() {
        let mut text = vec![b'x'; MESSAGE_MAX as usize + 10];
        text.extend_from_slice(b"\nnext\nlast");
        let mut stdin = io::Cursor::new(text);
        let mut next = || message(&mut stdin).expect("it can be read");
        assert!(matches!(next(), Some(Message::TooLong)));
        assert!(matches!(next(), Some(Message::Text(text)) if text == b"next\n"));
        assert!(matches!(next(), Some(Message::Text(text)) if text == b"last"));
        assert!(next().is_none());
    }
}
