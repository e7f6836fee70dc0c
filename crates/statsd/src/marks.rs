//! Events and service checks: DogStatsD's lines for people.
//!
//! Lengths in an event's head are bytes of UTF-8, not characters, as the protocol wants them.

use crate::lines::Lines;
use crate::text;

/// How bad an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alert {
    /// Nothing bad.
    #[default]
    Info,
    /// Something went well.
    Success,
    /// It needs attention.
    Warning,
    /// It failed.
    Error,
}

/// Something that happened: a deployment, a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Title; not empty.
    pub title: String,
    /// Text; line ends are kept.
    pub text: String,
    /// When, seconds since the epoch; the server's clock if None.
    pub at_s: Option<u64>,
    /// On which host.
    pub host: Option<String>,
    /// Events with one key are shown as one.
    pub key: Option<String>,
    /// Of low priority.
    pub low: bool,
    /// Source type.
    pub source: Option<String>,
    /// How bad.
    pub alert: Alert,
    /// Tags besides the sink's.
    pub tags: Vec<(String, String)>,
}

/// The state of a checked service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Well.
    #[default]
    Ok,
    /// Nearly not.
    Warning,
    /// Not well.
    Critical,
    /// It is not known.
    Unknown,
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceCheck {
    /// Name of the check; not empty.
    pub name: String,
    /// Outcome.
    pub status: Status,
    /// When, seconds since the epoch; the server's clock if None.
    pub at_s: Option<u64>,
    /// On which host.
    pub host: Option<String>,
    /// What there is to say.
    pub message: Option<String>,
    /// Tags besides the sink's.
    pub tags: Vec<(String, String)>,
}

/// The event's line. None: no title.
pub(crate) fn event(lines: &Lines, event: &Event) -> Option<String> {
    let (mut title, mut body) = (String::new(), String::new());
    text::prose(&mut title, &event.title);
    text::prose(&mut body, &event.text);
    if title.is_empty() {
        return None;
    }
    let mut line = format!("_e{{{},{}}}:{title}|{body}", title.len(), body.len());
    timed(&mut line, event.at_s);
    optional(&mut line, "h", event.host.as_deref());
    optional(&mut line, "k", event.key.as_deref());
    if event.low {
        line.push_str("|p:low");
    }
    optional(&mut line, "s", event.source.as_deref());
    line.push_str(match event.alert {
        Alert::Info => "",
        Alert::Success => "|t:success",
        Alert::Warning => "|t:warning",
        Alert::Error => "|t:error",
    });
    ends(&mut line, lines, &event.tags);
    Some(line)
}

/// The check's line. None: no name.
pub(crate) fn service_check(lines: &Lines, check: &ServiceCheck) -> Option<String> {
    if check.name.is_empty() {
        return None;
    }
    let mut line = String::from("_sc|");
    text::field(&mut line, &check.name);
    line.push_str(match check.status {
        Status::Ok => "|0",
        Status::Warning => "|1",
        Status::Critical => "|2",
        Status::Unknown => "|3",
    });
    timed(&mut line, check.at_s);
    optional(&mut line, "h", check.host.as_deref());
    ends(&mut line, lines, &check.tags);
    // The message comes last, and the Agent cuts it at a bar.
    if let Some(message) = check.message.as_deref().filter(|m| !m.is_empty()) {
        let mut prose = String::new();
        text::prose(&mut prose, message);
        line.push_str("|m:");
        line.push_str(&prose.replace('|', "_"));
    }
    Some(line)
}

fn timed(line: &mut String, at_s: Option<u64>) {
    if let Some(at_s) = at_s {
        line.push_str(&format!("|d:{at_s}"));
    }
}

fn optional(line: &mut String, letter: &str, value: Option<&str>) {
    if let Some(value) = value.filter(|v| !v.is_empty()) {
        line.push_str(&format!("|{letter}:"));
        text::field(line, value);
    }
}

fn ends(line: &mut String, lines: &Lines, tags: &[(String, String)]) {
    let tags = lines.joined_tags(tags);
    if !tags.is_empty() {
        line.push_str("|#");
        line.push_str(&tags);
    }
    if let Some(container) = lines.container() {
        line.push_str("|c:");
        line.push_str(container);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn lines() -> Lines {
        let tags = vec![("env".to_owned(), "prod".to_owned())];
        Lines::new(&Config { tags, ..Config::off() })
    }

    #[test]
    fn the_lengths_of_an_event_are_bytes() {
        let mark =
            Event { title: "Grüße".into(), text: "日本\nzwei|drei".into(), ..Event::default() };
        let line = event(&lines(), &mark).expect("it has a title");
        assert_eq!(line, "_e{7,17}:Grüße|日本\\nzwei|drei|#env:prod");
        let (head, rest) = line.split_once(':').expect("a colon");
        assert_eq!(head, "_e{7,17}");
        assert_eq!(&rest.as_bytes()[7..8], b"|");
        assert_eq!(&rest.as_bytes()[8..8 + 17], "日本\\nzwei|drei".as_bytes());
    }

    #[test]
    fn an_event_with_everything() {
        let mark = Event {
            title: "deployed".into(),
            text: "v2".into(),
            at_s: Some(1_700_000_000),
            host: Some("web|1\n".into()),
            key: Some("deploy".into()),
            low: true,
            source: Some("ci".into()),
            alert: Alert::Error,
            tags: vec![("who,".into(), "me".into()), ("flag".into(), String::new())],
        };
        let wanted = "_e{8,2}:deployed|v2|d:1700000000|h:web_1_|k:deploy|p:low|s:ci|t:error\
                      |#env:prod,who_:me,flag";
        assert_eq!(event(&lines(), &mark).as_deref(), Some(wanted));
        assert_eq!(event(&lines(), &Event::default()), None);
    }

    #[test]
    fn a_service_check_ends_with_its_message() {
        let check = ServiceCheck {
            name: "Redis|connection".into(),
            status: Status::Critical,
            at_s: Some(1_700_000_000),
            host: Some("db1".into()),
            message: Some("timed out|h:evil\nafter 10 s".into()),
            tags: vec![],
        };
        let wanted = "_sc|Redis_connection|2|d:1700000000|h:db1|#env:prod\
                      |m:timed out_h:evil\\nafter 10 s";
        assert_eq!(service_check(&lines(), &check).as_deref(), Some(wanted));
        assert_eq!(service_check(&lines(), &ServiceCheck::default()), None);
    }
}
