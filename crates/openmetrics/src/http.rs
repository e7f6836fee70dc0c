//! As much of HTTP/1.1 as a scraper needs: one GET, one answer, then the connection closes.

use crate::limits::LONGEST;

/// The format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4: every scraper understands it; without exemplars.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// More is to come.
    NotYet,
    /// The metrics, and whether without them (HEAD).
    Metrics(Format, bool),
    /// Refused: the status line's number and words.
    Refused(u16, &'static str),
}

/// Reads the bytes of a request that have come so far.
pub(crate) fn asked(bytes: &[u8]) -> Asked {
    let end = |mark: &[u8]| bytes.windows(mark.len()).position(|w| w == mark);
    let Some(end) = end(b"\r\n\r\n").or_else(|| end(b"\n\n")) else {
        return match bytes.len() > LONGEST {
            true => Asked::Refused(431, "Request Header Fields Too Large"),
            false => Asked::NotYet,
        };
    };
    if end > LONGEST {
        return Asked::Refused(431, "Request Header Fields Too Large");
    }
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else {
        return Asked::Refused(400, "Bad Request");
    };
    let mut lines = head.lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let &[method, target, version] = words.as_slice() else {
        return Asked::Refused(400, "Bad Request");
    };
    if !version.starts_with("HTTP/1.") {
        return Asked::Refused(505, "HTTP Version Not Supported");
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Asked::Refused(405, "Method Not Allowed"),
    };
    if target.split(['?', '#']).next() != Some("/metrics") {
        return Asked::Refused(404, "Not Found");
    }
    let accepts = lines.filter_map(|line| line.split_once(':'));
    let accepts = accepts.filter(|(name, _)| name.trim().eq_ignore_ascii_case("accept"));
    let accepts: Vec<&str> = accepts.map(|(_, value)| value).collect();
    Asked::Metrics(negotiated(&accepts.join(",")), is_head)
}

/// OpenMetrics if the client names it and prefers it at least as much as plain text.
fn negotiated(accept: &str) -> Format {
    let (mut open, mut plain) = (0.0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut q, mut version) = (1.0, "1.0.0");
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim().to_ascii_lowercase().as_str() {
                "q" => q = value.trim().parse().unwrap_or(0.0),
                "version" => version = value.trim().trim_matches('"'),
                _ => (),
            }
        }
        let best: &mut f64 = match kind.as_str() {
            "application/openmetrics-text" if matches!(version, "1.0.0" | "0.0.1") => &mut open,
            "text/plain" | "text/*" | "*/*" => &mut plain,
            _ => continue,
        };
        *best = best.max(q);
    }
    match open > 0.0 && open >= plain {
        true => Format::OpenMetrics,
        false => Format::Text,
    }
}

/// A whole answer.
pub(crate) fn answer(status: u16, words: &str, kind: &str, body: &str, is_head: bool) -> Vec<u8> {
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let mut text = format!(
        "HTTP/1.1 {status} {words}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if !is_head {
        text.extend_from_slice(body.as_bytes());
    }
    text
}

/// An answer without metrics.
pub(crate) fn refusal(status: u16, words: &str) -> Vec<u8> {
    let body = format!("{status} {words}; the metrics are at /metrics\n");
    answer(status, words, "text/plain; charset=utf-8", &body, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Asked {
        asked(text.as_bytes())
    }

    #[test]
    fn the_format_is_the_one_the_client_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(negotiated(prometheus), Format::OpenMetrics);
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/html, */*;q=0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=2.0.0,*/*",
            "application/openmetrics-text;q=0.1, text/plain",
            "application/openmetrics-text;q=much",
        ] {
            assert_eq!(negotiated(accept), Format::Text, "{accept}");
        }
        assert_eq!(negotiated("APPLICATION/OpenMetrics-Text, text/*"), Format::OpenMetrics);
    }

    #[test]
    fn a_request_is_read_when_it_is_whole_and_refused_with_the_right_number() {
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: x\r\n"), Asked::NotYet);
        let fine = Asked::Metrics(Format::Text, false);
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), fine);
        assert_eq!(of("GET /metrics?a=b HTTP/1.0\n\n"), fine);
        let open = "HEAD /metrics HTTP/1.1\r\nACCEPT: application/openmetrics-text\r\n\r\n";
        assert_eq!(of(open), Asked::Metrics(Format::OpenMetrics, true));
        let number = |text: &str| match of(text) {
            Asked::Refused(number, _) => number,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(number("GET / HTTP/1.1\r\n\r\n"), 404);
        assert_eq!(number("POST /metrics HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(number("GET /metrics HTTP/2\r\n\r\n"), 505);
        assert_eq!(number("\r\n\r\n"), 400);
        assert_eq!(number("GET  /metrics HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(asked(b"GET /\xff HTTP/1.1\r\n\r\n"), Asked::Refused(400, "Bad Request"));
        assert_eq!(number(&"x".repeat(9000)), 431);
        assert_eq!(
            number(&format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(9000))),
            431
        );
    }
}
