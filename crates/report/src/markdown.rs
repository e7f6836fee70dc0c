//! The verdict for a ticket: Markdown as GitHub, GitLab and Jira's importers read it.
//!
//! The first line is the answer; then, for each cause, the chain, the evidence, what was missing
//! and what to do; then what the capture is. Names come from the program that was watched and may
//! hold anything: names on their own are code spans, names inside sentences are escaped, and none
//! can open a tag, a link, a table cell or a line of its own.

use std::fmt::Write;

use analysis::readable::{ms_text, thousands};
use analysis::unit::Unit;
use diagnosis::{Cause, Diagnosis, Finding};

use crate::text::{closing, failed, has_advice, headline, sources, when};

/// The verdict as Markdown; `file` is the capture's path.
pub fn to_markdown(diagnosis: &Diagnosis<'_>, file: &str) -> String {
    let mut out = String::new();
    answer(&mut out, diagnosis);
    for (i, finding) in diagnosis.findings.iter().enumerate() {
        describe(&mut out, diagnosis, i + 1, finding);
    }
    rest(&mut out, diagnosis);
    origin(&mut out, diagnosis, file);
    out
}

fn answer(out: &mut String, d: &Diagnosis<'_>) {
    let mut text = String::new();
    headline(&mut text, d);
    let text = text.trim_end().trim_end_matches('.');
    let _ = match d.findings.first() {
        None => writeln!(out, "**{}.**", escaped(text)),
        Some(f) => {
            let place = f.place.as_ref().map_or(String::new(), |p| {
                let file = p.file.rsplit('/').next().unwrap_or(&p.file);
                let (function, at) =
                    (code(&format!("{}()", p.function)), code(&format!("{file}:{}", p.line)));
                format!(" in {function} at {at}")
            });
            let (cause, sure) = (f.cause.text(), f.confidence.text());
            writeln!(out, "**{}: {cause}{place}, {sure}.**", escaped(text))
        }
    };
}

fn describe(out: &mut String, d: &Diagnosis<'_>, rank: usize, f: &Finding) {
    let (cause, share, sure) = (f.cause.text(), f.share * 100.0, f.confidence.text());
    let _ = writeln!(out, "\n### {rank}. {cause}: {share:.0} % of the excess, {sure}\n");
    let _ = writeln!(out, "{}.", escaped(&f.summary));
    let sources = sources(d, f);
    if !sources.is_empty() {
        out.push('\n');
    }
    for (at, line) in sources {
        let _ = writeln!(out, "- {}: {}", code(&at), code(&line));
    }
    if !f.path.is_empty() && !matches!(f.cause, Cause::Stopped | Cause::CpuThrottled) {
        let calls = f.path.iter().map(|name| code(&format!("{name}()")));
        let request = f.called_by_request.then(|| code(&f.request));
        let chain: Vec<String> = request.into_iter().chain(calls).collect();
        let _ = writeln!(out, "\n**Chain:** {}", chain.join(" → "));
    }
    let (slow, normal) = (thousands(d.slow as u64), thousands((d.total - d.slow) as u64));
    let _ = writeln!(out, "\n| Evidence | |\n| --- | --- |");
    let _ = writeln!(out, "| slow requests that have it | {} of {slow} |", f.slow_requests);
    let _ = writeln!(out, "| normal requests that have it | {} of {normal} |", f.normal_requests);
    let seen = when(d, f);
    if !seen.is_empty() {
        let _ = writeln!(out, "| seen | {} |", escaped(seen.trim_start_matches("; ")));
    }
    if let Some(target) = &f.target() {
        let _ = writeln!(out, "| waited for | {} |", cell(target));
    }
    for e in &f.evidence {
        let value = match e.unit {
            Unit::Ms => ms_text(e.value),
            Unit::Count => ((e.value * 100.0).round() / 100.0).to_string(),
            unit => format!("{} {}", (e.value * 100.0).round() / 100.0, escaped(unit.text())),
        };
        let _ = writeln!(out, "| {} | {value} |", escaped(&e.what));
    }
    let _ = writeln!(out, "| fingerprint | {} |", cell(&f.fingerprint));
    if !f.missing.is_empty() {
        let _ = writeln!(out, "\n**Not certain:**\n");
        for missing in &f.missing {
            let _ = writeln!(out, "- {}", escaped(missing));
        }
    }
    if has_advice(f) {
        let _ = writeln!(out, "\n**Advice:** {}", escaped(f.advice));
    }
}

/// What else was considered, and what could not be seen.
fn rest(out: &mut String, d: &Diagnosis<'_>) {
    let mut text = String::new();
    if !d.findings.is_empty() {
        closing(&mut text, d);
    }
    failed(&mut text, d);
    for damage in &d.capture.damage {
        let _ = writeln!(text, "The capture is damaged: {damage}.");
    }
    if !text.is_empty() {
        let _ = writeln!(out, "\n### What else was examined, and what was missing\n");
        for line in text.lines() {
            let _ = writeln!(out, "- {}", escaped(line));
        }
    }
}

fn origin(out: &mut String, d: &Diagnosis<'_>, file: &str) {
    let meta = &d.capture.meta;
    let (service, host, reason) = (code(&meta.service), code(&meta.host), code(&meta.reason));
    let _ = writeln!(
        out,
        "\nService {service}, process {} on {host}; captured because: {reason}; file {}",
        meta.pid,
        code(file)
    );
}

/// Text inside a sentence: one line, and no character of it means anything to Markdown or HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in one_line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A code span: fenced by more backticks than the text has in a row.
fn code(text: &str) -> String {
    let text = one_line(text);
    if text.trim().is_empty() {
        return "(none)".to_owned();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A backtick at either end would join the fence; one space there is not shown.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A code span in a table: there, and only there, `\|` is a pipe inside of code too.
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || "\u{2028}\u{2029}".contains(c) { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_become_markup() {
        assert_eq!(code("price()"), "`price()`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`x``"), "``` `x`` ```");
        assert_eq!(code("<script>\nalert(1)\r\n</script>"), "`<script> alert(1)  </script>`");
        assert_eq!(code("\n"), "(none)");
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(
            escaped("<img> a|b *c* __init__ `d` [e](f)\n# g & h"),
            "&lt;img&gt; a\\|b \\*c\\* \\_\\_init\\_\\_ \\`d\\` \\[e\\](f) \\# g &amp; h"
        );
        assert_eq!(escaped("\\*\u{2028}x"), "\\\\\\* x");
    }
}
