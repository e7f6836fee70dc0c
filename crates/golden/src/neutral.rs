//! Whether a capture names no machine and no user.
//!
//! Captures are recorded in an environment of their own (tests/captures/neutral): host name `zoo`,
//! programs in /srv, interpreters in /usr and /opt. All text in a capture is searched: META, names,
//! attributes. An absolute path must begin with a folder that exists everywhere or is made there.

use capture::read::{Capture, Text};

/// Allowed first folders of a path. Debug information names `build` (Debian), `project` (wheels)
/// and `rustc`, where a library was compiled.
const FOLDERS: &[&str] = &[
    "build", "dev", "etc", "lib", "lib64", "opt", "proc", "project", "run", "rustc", "srv", "sys",
    "tmp", "usr",
];
/// The host name.
const HOST: &str = "zoo";

/// The texts of a capture that are not neutral, each with the reason; none for a capture that
/// cannot be read.
pub fn offences(bytes: &[u8]) -> Vec<String> {
    let Ok(capture) = Capture::parse(bytes) else { return Vec::new() };
    let mut out = Vec::new();
    if capture.meta.host != HOST {
        out.push(format!("host name {:?}, wanted {HOST:?}", capture.meta.host));
    }
    let mut check = |text: &str| out.extend(foreign(text));
    check(&capture.meta.all.to_string());
    capture.names.iter().for_each(|name| check(name));
    let of_spans = capture.spans.iter().chain(&capture.own_spans).flat_map(|s| &s.attributes);
    let of_events = capture.events.iter().flat_map(|e| &e.attributes);
    let of_requests = capture.requests.iter().flat_map(|r| &r.attributes);
    let of_metrics = capture.metrics.iter().flat_map(|m| &m.tags);
    let of_traces = capture.traces.iter().flat_map(|t| &t.attributes);
    let all = of_spans.chain(of_events).chain(of_requests).chain(of_metrics).chain(of_traces);
    for (_, value) in all {
        if let Text::Text(text) = value {
            check(text);
        }
    }
    out.sort();
    out.dedup();
    out
}

/// What is wrong with the absolute paths in a text. Routes (`GET /letter/ulm`) are no paths.
fn foreign(text: &str) -> Vec<String> {
    const METHODS: &[&str] = &["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "PATCH "];
    if METHODS.iter().any(|method| text.starts_with(method)) {
        return Vec::new();
    }
    let begins = |at: usize| {
        text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !(c.is_alphanumeric() || "/._-<>~+".contains(c)))
    };
    let path = |at: usize| {
        let rest = &text[at..];
        let end =
            rest.find(|c: char| c.is_whitespace() || c.is_control() || "\",':;()".contains(c));
        &rest[..end.unwrap_or(rest.len())]
    };
    let paths = text.match_indices('/').map(|(at, _)| at).filter(|at| begins(*at)).map(path);
    let foreign = paths.filter(|path| {
        let mut parts = path[1..].split('/');
        let first = parts.next().unwrap_or_default();
        let is_route = path.contains(['<', '{', '*']);
        !is_route && parts.next().is_some() && !first.is_empty() && !FOLDERS.contains(&first)
    });
    foreign.map(|path| format!("path {path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_home_are_foreign_and_those_of_a_system_are_not() {
        for text in [
            "/home/ann/shop/app.py",
            "{\"out\":\"/builds/7/captures\"}",
            "lib at /mnt/x/libfoo.so\tbuild:12",
            "/Users/ann/x",
        ] {
            assert_eq!(foreign(text).len(), 1, "{text}");
        }
        for text in [
            "/srv/zoo/tests/zoo/lock_chain/program.py",
            "/usr/lib/python3.11/socket.py\tbuild:12",
            "GET /letter/ulm",
            "/report/<int:n>",
            "text/plain",
            "1/2",
            "/",
            "http://127.0.0.1:80/almanac/ulm",
            "{\"out\":\"/srv/tmp/zoo-1/captures\"}",
        ] {
            assert_eq!(foreign(text), Vec::<String>::new(), "{text}");
        }
    }
}
