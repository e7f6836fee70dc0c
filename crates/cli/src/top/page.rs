//! What `top` shows of a process, as lines.
//!
//! What it promises: at most as many lines as there is room for; what is left out is counted.

use analysis::readable::{counted, ms_text, thousands};

use super::watched::{Open, Seen, ThreadSeen};
use crate::output::columns::{columns, cut, plain};

/// The least that says something: the head, one name, one open request, one thread.
pub const LINES_MIN: usize = 10;
/// Names, open requests, and threads that are listed, if there is room.
const LISTED_MAX: usize = 12;

/// At most `room` lines of at most `width` characters.
pub fn lines(seen: &Seen, room: usize, width: usize) -> Vec<String> {
    let mut out = head(seen);
    // A head of columns and a line for what is left out, for each of the three lists.
    let each = (room.saturating_sub(out.len() + 6) / 3).clamp(1, LISTED_MAX);
    out.extend(names(seen, each));
    out.extend(open(seen, each));
    out.extend(threads(seen, each));
    out.truncate(room);
    out.iter().map(|line| cut(line, width)).collect()
}

fn head(seen: &Seen) -> Vec<String> {
    let text = |key: &str| plain(seen.ps[key].as_str().unwrap_or_default());
    let number = |key: &str| thousands(seen.ps[key].as_u64().unwrap_or(0));
    let state = if seen.ps["on"] == true { "" } else { ", recording is off" };
    let mut out = vec![format!(
        "{}, process {}{state}: {} requests, {} slow, {} captures",
        text("service"),
        seen.pid,
        number("requests"),
        number("slow"),
        number("captures")
    )];
    let mut cpu = match seen.cpu_percent() {
        Some((cpu, own)) => format!("CPU {cpu:.0} % of a core; dashcam {own:.1} %"),
        None => "CPU: after the next second".to_owned(),
    };
    if let Some((name, part)) = &seen.gil {
        cpu += &format!("; the GIL was held by {name} in {:.0} % of samples", part * 100.0);
    }
    out.push(cpu);
    let verdict = text("verdict");
    if !verdict.is_empty() {
        out.push(format!("newest verdict: {verdict}"));
    }
    out
}

fn names(seen: &Seen, most: usize) -> Vec<String> {
    let seconds = (seen.window_ns as f64 / 1e9).max(0.001);
    let rows = seen.names.iter().take(most).map(|name| {
        let time = |share| ms_text(name.quantile(share));
        let open = seen.open.iter().filter(|open| open.name == name.name).count();
        let rate = name.count() as f64 / seconds;
        let digits = usize::from(rate < 9.95);
        vec![
            format!("{rate:.digits$}"),
            time(0.5),
            time(0.95),
            time(1.0),
            thousands(name.slow),
            open.to_string(),
            name.name.clone(),
        ]
    });
    let head = ["A SECOND", "P50", "P95", "MAX", "SLOW", "OPEN", &format!("IN {seconds:.0} S")];
    listed(columns(&head, rows), seen.names.len(), most, "name")
}

fn open(seen: &Seen, most: usize) -> Vec<String> {
    if seen.open.is_empty() {
        return Vec::new();
    }
    let rows = seen.open.iter().take(most).map(|open: &Open| {
        let age = ms_text(seen.now_ns.saturating_sub(open.begin_ns) as f64 / 1e6);
        let thread = seen.threads.iter().find(|thread| thread.tid == open.tid);
        let at = thread.and_then(|thread| thread.place.clone()).unwrap_or_default();
        let name = thread.map_or_else(|| open.tid.to_string(), |thread| thread.name.clone());
        vec![age, open.name.clone(), name, at]
    });
    listed(
        columns(&["RUNS FOR", "REQUEST", "THREAD", "AT"], rows),
        seen.open.len(),
        most,
        "request",
    )
}

fn threads(seen: &Seen, most: usize) -> Vec<String> {
    let program: Vec<&ThreadSeen> = seen.threads.iter().filter(|thread| !thread.is_own).collect();
    let rows = program.iter().take(most).map(|thread| {
        let cpu = thread.cpu_percent.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.0} %"));
        let state = match thread.state {
            'R' => "runs",
            'D' => "disk",
            _ if thread.wait.is_empty() => "waits",
            _ => thread.wait,
        };
        let at = thread.place.clone().unwrap_or_default();
        vec![cpu, state.to_owned(), thread.name.clone(), at]
    });
    listed(columns(&["CPU", "DOES", "THREAD", "AT"], rows), program.len(), most, "thread")
}

fn listed(text: String, all: usize, most: usize, what: &str) -> Vec<String> {
    let mut out: Vec<String> = text.lines().map(str::to_owned).collect();
    if all > most {
        out.push(format!("and {}", counted(all - most, &format!("more {what}"))));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::watched::NameSeen;
    use super::*;

    fn seen(threads: u32) -> Seen {
        let thread = |tid| ThreadSeen {
            tid,
            name: format!("worker-{tid}"),
            state: 'S',
            cpu_percent: Some(1.5),
            place: Some("app.py:9 price()".to_owned()),
            wait: "futex",
            is_own: tid == 1,
        };
        let times = vec![(5.0, 90), (900.0, 10)];
        Seen {
            ps: json!({"service": "billy", "on": true, "requests": 4812, "slow": 10, "captures": 1,
                       "verdict": "sleep at a.py:1 f()"}),
            pid: 7,
            now_ns: 20_000_000_000,
            window_ns: 10_000_000_000,
            names: vec![NameSeen { name: "GET /".to_owned(), times, slow: 10 }],
            open: vec![],
            threads: (1..=threads).map(thread).collect(),
            gil: Some(("worker-2".to_owned(), 0.25)),
        }
    }

    #[test]
    fn requests_have_rate_and_times_and_own_threads_are_summed_up() {
        let text = lines(&seen(3), usize::MAX, usize::MAX).join("\n");
        for wanted in [
            "billy, process 7: 4,812 requests, 10 slow, 1 captures\n",
            "CPU 3 % of a core; dashcam 1.5 %; the GIL was held by worker-2 in 25 % of samples\n",
            "newest verdict: sleep at a.py:1 f()\n",
            "10        5.0 ms  900 ms  900 ms  10    0     GET /\n",
            "2 %  futex  worker-2  app.py:9 price()",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("worker-1 "), "{text}");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let all = lines(&seen(200), 20, 40);
        assert!(all.len() <= 20 && all.iter().all(|line| line.chars().count() <= 40), "{all:?}");
        assert!(all.iter().any(|line| line.ends_with(" more threads")), "{all:?}");
    }
}
