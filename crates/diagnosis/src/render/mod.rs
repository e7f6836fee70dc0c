//! A verdict as a person, a program or a ticket reads it: text, JSON, Markdown, and the explanation
//! behind it as text and JSON. Nothing here reads a capture beyond what a verdict names.

pub(crate) mod explanation_json;
pub(crate) mod explanation_text;
pub(crate) mod json;
pub(crate) mod json_values;
pub(crate) mod markdown;
pub(crate) mod metric_series;
pub(crate) mod screen;
pub(crate) mod source_line;
pub(crate) mod text;
