//! What a verb of this command answers: its output, in bounded time and size.
//!
//! How it works: the verb runs as a child in a process group of its own. Two threads read its
//! output, of which `KEPT_MAX` bytes are kept and the rest is counted; if it is not done in time,
//! the group is killed.
//!
//! What it promises: a child never outlives its question.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What a tool answered.
pub struct Called {
    /// For the agent.
    pub text: String,
    /// It is the reason why there is no answer.
    pub is_error: bool,
}

/// Characters of an answer: about a tenth of what an agent can read.
pub const CHARS_MAX: usize = 24_000;
/// Bytes of an output that are kept until they are cut.
const KEPT_MAX: usize = 1 << 20;
/// A capture of 1 GiB is judged within this time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `dashcam` with these words.
pub fn of(words: &[String]) -> Called {
    match run(words) {
        Ok(called) => called,
        Err(error) => Called { text: format!("dashcam {}: {error}", words[0]), is_error: true },
    }
}

fn run(words: &[String]) -> std::io::Result<Called> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (done, ends) = mpsc::channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let out = reader(out, done.clone());
    let err = reader(err, done);
    // Each of the two says when its end is reached.
    let in_time = (0..2).all(|_| ends.recv_timeout(PATIENCE).is_ok());
    if !in_time {
        kill(&child);
    }
    let status = child.wait()?;
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if !in_time {
        let text = format!("no answer within {} s; ask for less", PATIENCE.as_secs());
        return Ok(Called { text, is_error: true });
    }
    let code = status.code().unwrap_or(-1);
    let is_error = out.text.is_empty() && code != 0;
    let text = match (out.text.is_empty(), err.text.is_empty()) {
        (true, true) => "nothing".to_owned(),
        // What was said beside the answer: a damaged file, a process that did not reply.
        _ => cut(&out) + &cut(&err),
    };
    Ok(Called { text, is_error })
}

/// The whole group: a verb may have started Python.
fn kill(child: &Child) {
    sys::signal::kill_group(child.id());
}

#[derive(Default)]
struct Output {
    text: String,
    /// Bytes that were not kept.
    more: u64,
}

fn reader(
    from: Option<impl Read + Send + 'static>,
    done: mpsc::Sender<()>,
) -> thread::JoinHandle<Output> {
    thread::spawn(move || {
        let mut output = Output::default();
        if let Some(mut from) = from {
            let mut kept = Vec::new();
            // An error: what was read until then is the output.
            let _ = from.by_ref().take(KEPT_MAX as u64).read_to_end(&mut kept);
            output.more = std::io::copy(&mut from, &mut std::io::sink()).unwrap_or(0);
            output.text = String::from_utf8_lossy(&kept).into_owned();
        }
        let _ = done.send(());
        output
    })
}

/// At most `CHARS_MAX` characters, whole lines if there are any.
fn cut(output: &Output) -> String {
    let text = &output.text;
    let end = text.char_indices().nth(CHARS_MAX).map(|(at, _)| at);
    if end.is_none() && output.more == 0 {
        return text.clone();
    }
    let shown = &text[..end.unwrap_or(text.len())];
    let shown = shown.rfind('\n').map_or(shown, |at| &shown[..=at]);
    let rest = &text[shown.len()..];
    let lines = rest.lines().count();
    let more = if output.more > 0 { "more than " } else { "" };
    format!("{shown}[left out: {more}{lines} lines, {} bytes]\n", rest.len() as u64 + output.more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_at_a_line_and_says_what_is_left_out() {
        let text = "0123456789\n".repeat(3000);
        let short = cut(&Output { text: text.clone(), more: 0 });
        let (shown, note) = short.rsplit_once("[left out").expect("a note");
        assert!(shown.len() <= CHARS_MAX && shown.ends_with("9\n"));
        let left = 3000 - shown.lines().count();
        assert_eq!(note, format!(": {left} lines, {} bytes]\n", left * 11));
        let more = cut(&Output { text, more: 5 });
        assert!(more.contains(&format!("more than {left} lines, {} bytes", left * 11 + 5)));
        let whole = cut(&Output { text: "a\n".to_owned(), more: 0 });
        assert_eq!(whole, "a\n");
    }
}
