//! A verdict as a person, a program or a ticket reads it.
//!
//! How it works: the diagnosis gives typed findings; here is their layout. `text` writes sentences,
//! `screen` the same facts for a terminal, `markdown` for a ticket, `json` for a program, and
//! `explanation_text` and `explanation_json` what led to each finding.
//!
//! What it promises: all of them have the same facts. No name of the program that was recorded
//! brings a line, an escape sequence or markup of its own. Nothing here reads a capture beyond what
//! a verdict names.
//!
//! Missing on purpose: the sentence and the advice of a cause, which are in its row in the
//! diagnosis, so that a cause is one file.

mod explanation_json;
mod explanation_text;
mod json;
mod json_values;
mod markdown;
mod metric_series;
mod screen;
mod source_line;
mod text;

pub use explanation_text::to_explanation;
pub use json::to_json;
pub use markdown::{escaped, to_markdown};
pub use screen::{to_screen, wrapped, Screen};
pub use text::to_text;
