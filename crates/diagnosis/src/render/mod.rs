//! Layout.

pub(crate) mod explanation_json;
pub(crate) mod explanation_text;
pub(crate) mod json;
pub(crate) mod json_values;
pub(crate) mod markdown;
pub(crate) mod metric_series;
pub(crate) mod text;
