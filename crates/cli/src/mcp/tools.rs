//! The tools: each is a verb of this command that only reads.
//!
//! How it works: a row of `TOOLS` has a tool's name, its description, its arguments and the words
//! of the verb. The schema that an agent is given, the check of what it sends, and the words follow
//! from the row.
//!
//! What it promises: an argument is a value, never a flag: it is behind `--`, or joined to its flag
//! by `=`.

use serde_json::{json, Map, Value};

use super::answer::{self, Called};
use super::folders::Folders;
use crate::processes::python;

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A capture, or a folder of captures.
    Path,
    /// The same; the folders if it is missing.
    AnyPath,
    /// A process id, or the name of a service.
    Process,
    /// A query.
    Query,
    /// The value of the flag of its name.
    Flag,
    /// A flag without a value.
    Switch,
}

struct Argument {
    name: &'static str,
    kind: Kind,
    about: &'static str,
}

const fn argument(name: &'static str, kind: Kind, about: &'static str) -> Argument {
    Argument { name, kind, about }
}

struct Tool {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// The verb and flags that are always given.
    words: &'static [&'static str],
    arguments: &'static [Argument],
}

const CAPTURE: Argument = argument(
    "capture",
    Kind::Path,
    "A capture, as list_captures names it, or a folder of captures (its newest capture)",
);
const SLOW: Argument = argument(
    "slow",
    Kind::Flag,
    "Judge by these limits instead of the capture's own, as \"500ms\" or \"checkout>250ms\"",
);
const PROCESS: Argument =
    argument("process", Kind::Process, "A process id or the name of a service, as in processes");

const TOOLS: [Tool; 10] = [
    Tool {
        name: "list_captures",
        title: "List captures",
        about: "The captures in the folder, the newest first: when, size, name, why it was saved, \
                and its verdict.",
        words: &["ls"],
        arguments: &[argument(
            "folder",
            Kind::AnyPath,
            "A folder below the served ones; default: all of these",
        )],
    },
    Tool {
        name: "why",
        title: "Why were requests slow?",
        about: "The causes of the slow requests of a capture: function, file, line, share of the \
                excess time, how sure, the evidence, and what to do.",
        words: &["why"],
        arguments: &[CAPTURE, SLOW],
    },
    Tool {
        name: "explain",
        title: "What a verdict rests on",
        about: "As why, and for each cause: example requests with their intervals, the candidates \
                for the blocker with their evidence, the rules, the checks behind the confidence.",
        words: &["why", "--explain"],
        arguments: &[CAPTURE, SLOW],
    },
    Tool {
        name: "diff",
        title: "Why is it slower than before?",
        about: "Compares two captures or folders of captures: requests by name, and causes that \
                are new, grown, moved, shrunk or gone from a to b.",
        words: &["diff"],
        arguments: &[
            argument("a", Kind::Path, "Before: a capture or a folder of captures"),
            argument("b", Kind::Path, "After: another one"),
            SLOW,
        ],
    },
    Tool {
        name: "show",
        title: "What is in a capture",
        about: "The time covered, requests by name with percentiles, threads, sources, losses.",
        words: &["show"],
        arguments: &[CAPTURE],
    },
    Tool {
        name: "show_request",
        title: "One request",
        about:
            "The spans of a request of a capture and where their time went; the slowest request \
                if no id is given.",
        words: &["show"],
        arguments: &[
            CAPTURE,
            argument("request", Kind::Flag, "The id of the request; default: the slowest"),
            argument("all", Kind::Switch, "Everything that all threads did meanwhile, by time"),
        ],
    },
    Tool {
        name: "sql",
        title: "SQL over a capture",
        about: "A query in DuckDB's SQL over the tables of a capture (requests, spans, waits, \
                samples, causes, ...; `show tables`, `describe waits`). Only these tables can be \
                read. CSV.",
        words: &["sql", "--csv"],
        arguments: &[CAPTURE, argument("query", Kind::Query, "The query")],
    },
    Tool {
        name: "processes",
        title: "Recorded processes",
        about:
            "The processes of this user that dashcam records now: service, requests, slow ones, \
                captures, newest verdict.",
        words: &["ps"],
        arguments: &[],
    },
    Tool {
        name: "status",
        title: "State of a recorded process",
        about: "Settings, sources, losses, and the cost of recording.",
        words: &["status"],
        arguments: &[PROCESS],
    },
    Tool {
        name: "dump",
        title: "What a process does now",
        about: "The stack of every thread and task, open requests, locks and their holders. Read \
                without stopping the process.",
        words: &["dump"],
        arguments: &[PROCESS],
    },
];

/// `sql` needs the Python package.
fn is_there(tool: &Tool) -> bool {
    tool.name != "sql" || python::has("dashcam.sql", "duckdb")
}

/// The tools, as `tools/list` has them.
pub fn list() -> Vec<Value> {
    TOOLS.iter().filter(|tool| is_there(tool)).map(described).collect()
}

fn described(tool: &Tool) -> Value {
    let mut properties = Map::new();
    for argument in tool.arguments {
        let kind = if argument.kind == Kind::Switch { "boolean" } else { "string" };
        let value = json!({"type": kind, "description": argument.about});
        properties.insert(argument.name.to_owned(), value);
    }
    let required = tool.arguments.iter().filter(|argument| argument.is_required());
    let required: Vec<&str> = required.map(|argument| argument.name).collect();
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.about,
        "inputSchema": {"type": "object", "properties": properties, "required": required,
                        "additionalProperties": false},
        "annotations": {"title": tool.title, "readOnlyHint": true, "openWorldHint": false},
    })
}

impl Argument {
    fn is_required(&self) -> bool {
        matches!(self.kind, Kind::Path | Kind::Process | Kind::Query)
    }

    /// The value that was sent. Numbers count as text: ids are numbers.
    fn value(&self, arguments: &Map<String, Value>) -> Result<Option<String>, String> {
        match (arguments.get(self.name), self.kind) {
            (None | Some(Value::Null), _) if self.is_required() => {
                Err(format!("{}: missing; {}", self.name, self.about))
            }
            (None | Some(Value::Null), _) => Ok(None),
            (Some(Value::Bool(on)), Kind::Switch) => Ok(on.then(String::new)),
            (Some(_), Kind::Switch) => Err(format!("{}: wanted true or false", self.name)),
            (Some(Value::String(text)), _) => Ok(Some(text.clone())),
            (Some(Value::Number(number)), _) => Ok(Some(number.to_string())),
            (Some(_), _) => Err(format!("{}: wanted text", self.name)),
        }
    }
}

/// Calls a tool. An error: there is none of that name, or its arguments are wrong.
pub fn call(name: &str, arguments: &Value, folders: &Folders) -> Result<Called, String> {
    let tool = TOOLS.iter().find(|tool| tool.name == name && is_there(tool));
    let tool = tool.ok_or_else(|| format!("unknown tool {name}"))?;
    let arguments =
        arguments.as_object().ok_or_else(|| format!("{name}: wanted arguments as an object"))?;
    let known = |key: &&String| tool.arguments.iter().any(|argument| argument.name == key.as_str());
    if let Some(unknown) = arguments.keys().find(|key| !known(key)) {
        return Err(format!("{name}: unknown argument {unknown}"));
    }
    let (mut flags, mut values) = (Vec::new(), Vec::new());
    for argument in tool.arguments {
        let Some(value) = argument.value(arguments)? else { continue };
        match argument.kind {
            Kind::Path | Kind::AnyPath => match folders.path(&value) {
                Ok(path) => values.push(path.display().to_string()),
                // Not the protocol's error: the agent can choose another path.
                Err(text) => return Ok(Called { text, is_error: true }),
            },
            Kind::Process | Kind::Query => values.push(value),
            Kind::Flag => flags.push(format!("--{}={value}", argument.name)),
            Kind::Switch => flags.push(format!("--{}", argument.name)),
        }
    }
    if name == "show_request" && !flags.iter().any(|flag| flag.starts_with("--request=")) {
        flags.push("--slowest".to_owned());
    }
    if name == "list_captures" && values.is_empty() {
        return Ok(all_captures(folders));
    }
    Ok(answer::of(&words(tool, flags, values)))
}

fn words(tool: &Tool, flags: Vec<String>, values: Vec<String>) -> Vec<String> {
    let own = tool.words.iter().map(|word| (*word).to_owned());
    own.chain(flags).chain(["--".to_owned()]).chain(values).collect()
}

fn all_captures(folders: &Folders) -> Called {
    let present = folders.present();
    let mut text = String::new();
    for folder in &present {
        let path = folder.display().to_string();
        let listed = answer::of(&["ls".to_owned(), "--".to_owned(), path.clone()]);
        text += &format!("{path}:\n{}", listed.text);
    }
    if present.is_empty() {
        text = format!("no such folder: {}", folders.text());
    }
    Called { text, is_error: present.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tool_changes_anything() {
        let reads = ["ls", "why", "diff", "show", "sql", "ps", "status", "dump"];
        for tool in &TOOLS {
            assert!(reads.contains(&tool.words[0]), "{}", tool.name);
            assert_eq!(described(tool)["annotations"]["readOnlyHint"], true);
        }
    }

    #[test]
    fn a_value_never_becomes_a_flag() {
        let dump = TOOLS.iter().find(|tool| tool.name == "dump").expect("there");
        let words = words(dump, Vec::new(), vec!["--json".to_owned()]);
        assert_eq!(words, ["dump", "--", "--json"]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let folders = Folders::new(vec!["/nowhere".into()]);
        let wrong = |name: &str, arguments: Value| match call(name, &arguments, &folders) {
            Err(wrong) => wrong,
            Ok(called) => panic!("{}", called.text),
        };
        assert!(wrong("snap", json!({})).contains("unknown tool snap"));
        assert!(wrong("why", json!({})).contains("capture: missing"));
        assert!(wrong("why", json!({"capture": []})).contains("capture: wanted text"));
        assert!(wrong("why", json!([])).contains("wanted arguments as an object"));
        assert!(wrong("why", json!({"capture": "x", "out": "y"})).contains("unknown argument out"));
        let missing = call("why", &json!({"capture": "x"}), &folders).expect("a result");
        assert!(missing.is_error && missing.text.contains("no capture of that name"));
    }
}
