//! The text of `dashcam dump`: short lines, the innermost frame first.
//!
//! How it works: a head, the open requests, then a paragraph for each thread and each task. What it
//! promises: what is not known is not there, and what was torn says so. What is missing on purpose:
//! outer frames beyond `MOST_FRAMES`, and long lists' ends; `--json` has them.

use analysis::readable::counted;
use serde_json::Value;

use crate::output::columns::plain;

/// Frames of a stack, requests, tasks.
const MOST_FRAMES: usize = 24;
const MOST_REQUESTS: usize = 20;
const MOST_TASKS: usize = 50;

/// The whole text.
pub fn of(dump: &Value) -> String {
    let text = Text { dump };
    let mut out = text.head();
    out += &text.requests();
    for thread in list(&dump["threads"]) {
        out += &text.thread(thread);
    }
    let tasks = list(&dump["tasks"]);
    for task in tasks.iter().take(MOST_TASKS) {
        out += &text.task(task);
    }
    let more = tasks.len().saturating_sub(MOST_TASKS) as u64 + number(&dump["tasks_left_out"]);
    if more > 0 {
        out += &format!("\n{more} more tasks\n");
    }
    out
}

struct Text<'a> {
    dump: &'a Value,
}

impl Text<'_> {
    fn head(&self) -> String {
        let dump = self.dump;
        let name = word(&dump["service"]).or_else(|| word(&dump["command"])).unwrap_or_default();
        let runtime = word(&dump["runtime"]).unwrap_or_else(|| "no runtime".to_owned());
        let count = |name: &str, one: &str| counted(list(&dump[name]).len(), one);
        let (threads, tasks) = (count("threads", "thread"), count("tasks", "task"));
        let place = match dump["read"].as_str() {
            Some("inside") => "read by itself",
            _ => "read from outside",
        };
        let ms = number(&dump["took_us"]) as f64 / 1e3;
        let mut out = format!("process {} {name}: {runtime}\n", number(&dump["pid"]));
        out += &format!("{threads}, {tasks}, {place} in {ms:.1} ms\n");
        if let Some(why) = word(&dump["no_stacks"]) {
            out += &format!("no Python stacks: {why}\n");
        }
        match dump["gil_holder"].as_u64() {
            Some(tid) => out += &format!("GIL: held by {}\n", self.thread_named(tid)),
            None if dump["no_stacks"].is_null() => out += "GIL: free\n",
            None => (),
        }
        out
    }

    fn requests(&self) -> String {
        let Some(requests) = self.dump["requests"].as_array() else { return String::new() };
        let mut out = format!("open requests: {}\n", requests.len());
        for request in requests.iter().take(MOST_REQUESTS) {
            let age = number(&request["age_us"]) as f64 / 1e6;
            let name = word(&request["name"]).unwrap_or_else(|| "?".to_owned());
            let by = match word(&request["task"]) {
                Some(task) => format!("task {task}"),
                None => format!("thread {}", number(&request["tid"])),
            };
            out += &format!("  {age:>8.3} s  {name}  {by}\n");
        }
        if requests.len() > MOST_REQUESTS {
            out += &format!("  {} more\n", requests.len() - MOST_REQUESTS);
        }
        out
    }

    fn thread(&self, thread: &Value) -> String {
        let name = word(&thread["name"]).unwrap_or_default();
        let mut out = format!("\nthread {} {name}: ", number(&thread["tid"]));
        let mut says = vec![match word(&thread["wait"]) {
            Some(wait) => self.wait(thread, &wait),
            None => "runs".to_owned(),
        }];
        if thread["holds_gil"] == true {
            says.push("holds the GIL".to_owned());
        }
        if let Some(task) = word(&thread["task"]) {
            says.push(format!("task {task}"));
        }
        out += &says.join(", ");
        out.push('\n');
        for held in list(&thread["holds"]) {
            let kind = if held["recursive"] == true { "RLock" } else { "lock" };
            let place = if held["at"].is_null() { String::new() } else { frame(&held["at"]) };
            out += &format!("  holds {kind} {} {place}", word(&held["lock"]).unwrap_or_default());
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        if let Some(why) = word(&thread["torn"]) {
            return out + &format!("  torn: it ran while its stack was read ({why})\n");
        }
        if thread["settled"] == false {
            out += "  not proven: the kernel does not show whether it ran meanwhile\n";
        }
        out += &frames(list(&thread["stack"]), thread["truncated"] == true);
        out
    }

    fn wait(&self, thread: &Value, wait: &str) -> String {
        let target = &thread["waits_for"];
        let object = word(&target["object"]).unwrap_or_default();
        let holder = target["holder"].as_u64().map(|tid| self.thread_named(tid));
        match (target["kind"].as_str(), holder) {
            (Some("gil"), _) => "waits for the GIL".to_owned(),
            (Some("thread"), Some(other)) => format!("waits for the end of thread {other}"),
            (Some(_), Some(holder)) => format!("waits for lock {object}, held by thread {holder}"),
            (Some(_), None) => format!("waits for lock or notice {object}, holder not known"),
            (None, _) if wait == "stopped" => wait.to_owned(),
            (None, _) => format!("waits: {wait}"),
        }
    }

    fn task(&self, task: &Value) -> String {
        let address = word(&task["task"]).unwrap_or_default();
        let name = word(&task["name"]).map(|name| format!(" {name}")).unwrap_or_default();
        let mut out = String::new();
        if let Some(why) = word(&task["torn"]) {
            out +=
                &format!("\ntask {address}{name}\n  torn: it ran on while it was read ({why})\n");
        }
        for one in list(&task["awaits"]) {
            out += &format!("\ntask {address}{name}: {}\n", self.awaits(one));
            out += &frames(list(&one["stack"]), false);
        }
        out
    }

    fn awaits(&self, one: &Value) -> String {
        let kind = word(&one["awaits"]).unwrap_or_default();
        let mut out = match kind.as_str() {
            "running" => "runs".to_owned(),
            "ready" => "ready, waits for its turn in the event loop".to_owned(),
            kind => format!("awaits {kind}"),
        };
        if let Some(object) = word(&one["object"]) {
            out += &format!(" {object}");
        }
        if let Some(limit) = one["timeout_us"].as_u64() {
            out += &format!(", limit {} s", limit as f64 / 1e6);
        }
        if let Some(holder) = word(&one["holder"]) {
            out += &format!(", held by task {holder}{}", self.task_name(&holder));
        }
        if let Some(inner) = word(&one["in_task"]) {
            out += &format!(", in task {inner}{}", self.task_name(&inner));
        }
        out
    }

    fn thread_named(&self, tid: u64) -> String {
        let threads = list(&self.dump["threads"]).iter();
        let found = threads.into_iter().find(|thread| thread["tid"] == tid);
        let name = found.and_then(|thread| word(&thread["name"]));
        name.map_or_else(|| tid.to_string(), |name| format!("{tid} {name}"))
    }

    fn task_name(&self, address: &str) -> String {
        let tasks = list(&self.dump["tasks"]).iter();
        let found = tasks.into_iter().find(|task| task["task"] == address);
        let name = found.and_then(|task| word(&task["name"]));
        name.map(|name| format!(" {name}")).unwrap_or_default()
    }
}

fn frames(stack: &[Value], truncated: bool) -> String {
    let mut out = String::new();
    for place in stack.iter().take(MOST_FRAMES) {
        out += &format!("  {}\n", frame(place));
    }
    if stack.len() > MOST_FRAMES || truncated {
        let more = stack.len().saturating_sub(MOST_FRAMES);
        let least = if truncated { "at least " } else { "" };
        out += &format!("  ... {least}{more} more\n");
    }
    out
}

/// `shop/orders.py:12 charge`: the last two parts of the path.
fn frame(place: &Value) -> String {
    let file = word(&place["file"]).unwrap_or_default();
    let parts: Vec<&str> = file.rsplitn(3, '/').take(2).collect();
    let file = parts.into_iter().rev().collect::<Vec<_>>().join("/");
    let function = word(&place["function"]).unwrap_or_default();
    format!("{}:{} {function}", file.trim_start_matches('/'), number(&place["line"]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A text without control characters; none if it is empty.
fn word(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(file: &str, line: u64, function: &str) -> Value {
        json!({"file": file, "line": line, "function": function})
    }

    #[test]
    fn a_dump_is_short_lines_and_each_wait_has_its_holder() {
        let dump = json!({
            "pid": 7, "command": "python app.py", "runtime": "CPython 3.14.10", "read": "outside",
            "took_us": 2500, "gil_holder": 8,
            "threads": [
                {"tid": 7, "name": "python", "state": "waiting", "wait": "a futex",
                 "waits_for": {"kind": "lock", "object": "0x10", "holder": 8},
                 "holds": [], "stack": [place("/srv/app/shop.py", 3, "pay\u{1b}")],
                 "truncated": false, "settled": true},
                {"tid": 8, "name": "worker", "state": "running", "holds_gil": true,
                 "holds": [{"lock": "0x10", "recursive": false, "at": place("x.py", 9, "run")}],
                 "stack": [], "torn": "moved"},
            ],
            "tasks": [
                {"task": "0x20", "name": "fetch", "awaits": [
                    {"awaits": "lock", "object": "0x30", "holder": "0x21", "stack": []}]},
                {"task": "0x21", "name": "keep", "awaits": [
                    {"awaits": "sleep", "timeout_us": 1_500_000, "stack": []}]},
            ],
            "requests": [{"id": 1, "name": "GET /", "age_us": 1_234_000, "tid": 7}],
        });
        let wanted = "process 7 python app.py: CPython 3.14.10
2 threads, 2 tasks, read from outside in 2.5 ms
GIL: held by 8 worker
open requests: 1
     1.234 s  GET /  thread 7

thread 7 python: waits for lock 0x10, held by thread 8 worker
  app/shop.py:3 pay?

thread 8 worker: runs, holds the GIL
  holds lock 0x10 x.py:9 run
  torn: it ran while its stack was read (moved)

task 0x20 fetch: awaits lock 0x30, held by task 0x21 keep

task 0x21 keep: awaits sleep, limit 1.5 s
";
        assert_eq!(of(&dump), wanted);
    }

    #[test]
    fn a_deep_stack_is_cut_and_a_truncated_stack_says_so() {
        let stack: Vec<Value> = (0..30).map(|line| place("a.py", line, "f")).collect();
        assert!(frames(&stack, false).ends_with("  a.py:23 f\n  ... 6 more\n"));
        assert!(frames(&stack[..3], true).ends_with("  ... at least 0 more\n"));
    }
}
