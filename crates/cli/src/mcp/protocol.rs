//! Messages of the Model Context Protocol: JSON-RPC 2.0, and the four methods that are answered.
//!
//! How it works: `initialize` agrees on a version: the client's if it is known here, else the
//! newest that is; `ping`, `tools/list` and `tools/call` are answered in every version alike. A
//! message without an id is a notification and has no answer. Several messages in a list are
//! answered by a list, as 2025-03-26 has it.
//!
//! What it promises: no message ends the server. Errors: -32700 no JSON, -32600 no request, -32601
//! unknown method, -32602 wrong parameters. What a tool could not do is no error of the protocol:
//! it is a result with `isError`, which the agent reads. Missing on purpose: cancelling a call,
//! which ends by its own time limit.

use serde_json::{json, Value};

use super::answer::Called;
use super::tools;

/// Versions of the protocol, the newest first.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str = "dashcam records services and saves captures of slow requests. Begin \
    with `list_captures`, then `why` for the cause, `explain` for what it rests on, `diff` against \
    another time. Every tool only reads.";

/// Calls a tool by name.
pub type Call<'c> = dyn Fn(&str, &Value) -> Result<Called, String> + 'c;

/// The answer to a message, if it has one.
pub fn answer(message: &[u8], call: &Call<'_>) -> Option<Value> {
    match serde_json::from_slice::<Value>(message) {
        Err(wrong) => Some(error(&Value::Null, -32700, &format!("no JSON: {wrong}"))),
        Ok(Value::Array(all)) if all.is_empty() => {
            Some(error(&Value::Null, -32600, "an empty list of messages"))
        }
        Ok(Value::Array(all)) => {
            let answers: Vec<Value> = all.iter().filter_map(|one| answer_one(one, call)).collect();
            (!answers.is_empty()).then_some(Value::Array(answers))
        }
        Ok(one) => answer_one(&one, call),
    }
}

/// The answer to a message that was not read.
pub fn too_long(bytes_max: u64) -> Value {
    error(&Value::Null, -32600, &format!("a message of more than {bytes_max} bytes"))
}

fn answer_one(message: &Value, call: &Call<'_>) -> Option<Value> {
    let Some(fields) = message.as_object() else {
        return Some(error(&Value::Null, -32600, "wanted an object with jsonrpc, id and method"));
    };
    // An answer to a question of ours; there is none.
    if fields.contains_key("result") || fields.contains_key("error") {
        return None;
    }
    let id = fields.get("id");
    let known = id.filter(|id| id.is_string() || id.is_number()).unwrap_or(&Value::Null);
    let method = match (fields.get("method"), fields.get("jsonrpc")) {
        (Some(Value::String(method)), Some(version)) if version == "2.0" => method,
        _ => return Some(error(known, -32600, "wanted \"jsonrpc\": \"2.0\" and a method")),
    };
    let id = id?;
    if known.is_null() {
        return Some(error(id, -32600, "wanted an id that is text or a number"));
    }
    let none = json!({});
    let parameters = fields.get("params").unwrap_or(&none);
    if !parameters.is_object() {
        return Some(error(id, -32602, "wanted params as an object"));
    }
    Some(match method.as_str() {
        "initialize" => result(id, initialized(parameters)),
        "ping" => result(id, json!({})),
        "tools/list" => result(id, json!({"tools": tools::list()})),
        "tools/call" => called(id, parameters, call),
        other => error(id, -32601, &format!("unknown method {other}")),
    })
}

fn initialized(parameters: &Value) -> Value {
    let wanted = parameters["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|known| *known == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": "dashcam", "title": "dashcam", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    })
}

fn called(id: &Value, parameters: &Value, call: &Call<'_>) -> Value {
    let Some(name) = parameters["name"].as_str() else {
        return error(id, -32602, "wanted the name of a tool");
    };
    let none = json!({});
    let arguments = parameters.get("arguments").unwrap_or(&none);
    match call(name, arguments) {
        Err(wrong) => error(id, -32602, &wrong),
        Ok(Called { text, is_error }) => {
            result(id, json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
        }
    }
}

fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str) -> Option<Value> {
        answer(message.as_bytes(), &|name, arguments| match name {
            "fails" => Ok(Called { text: "no".to_owned(), is_error: true }),
            "echo" => Ok(Called { text: arguments["text"].to_string(), is_error: false }),
            _ => Err(format!("unknown tool {name}")),
        })
    }

    fn code(message: &str) -> i64 {
        of(message).expect("an answer")["error"]["code"].as_i64().expect("an error")
    }

    #[test]
    fn a_version_that_both_know_is_agreed_on() {
        let version = |wanted: &str| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                "params": {"protocolVersion": wanted, "capabilities": {}}});
            of(&message.to_string()).expect("an answer")["result"]["protocolVersion"].clone()
        };
        for known in VERSIONS {
            assert_eq!(version(known), known);
        }
        assert_eq!(
            (version("2031-01-01"), version("")),
            ("2025-06-18".into(), "2025-06-18".into())
        );
    }

    #[test]
    fn what_is_no_request_has_the_error_that_the_protocol_wants() {
        assert_eq!(code("{"), -32700);
        assert_eq!(code("\"text\""), -32600);
        assert_eq!(code("[]"), -32600);
        assert_eq!(code(r#"{"id": 1, "method": "ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}"#), -32601);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 3}"#), -32602);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#), -32602);
        let unknown = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "remove"}}"#;
        assert_eq!(code(unknown), -32602);
    }

    #[test]
    fn notifications_and_answers_have_no_answer() {
        assert!(of(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#).is_none());
        assert!(of(r#"{"jsonrpc": "2.0", "method": "ping"}"#).is_none());
        assert!(of(r#"{"jsonrpc": "2.0", "id": 4, "result": {}}"#).is_none());
    }

    #[test]
    fn a_list_of_messages_has_a_list_of_answers() {
        let two = r#"[{"jsonrpc": "2.0", "id": "a", "method": "ping"},
            {"jsonrpc": "2.0", "method": "ping"}]"#;
        assert_eq!(of(two), Some(json!([{"jsonrpc": "2.0", "id": "a", "result": {}}])));
    }

    #[test]
    fn a_tool_that_fails_is_a_result_that_the_agent_reads() {
        let call = |name: &str| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": name, "arguments": {"text": 5}}});
            of(&message.to_string()).expect("an answer")["result"].clone()
        };
        assert_eq!(call("fails")["isError"], true);
        assert_eq!(call("echo")["content"][0]["text"], "5");
    }
}
