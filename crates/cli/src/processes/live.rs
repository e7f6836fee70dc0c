//! `dashcam ps`, `status`, `snap`, `set` and `detach`: talks to the recorded processes of this
//! user.
//!
//! How it works: each recorded process listens on a socket named after its process id, in a folder
//! that only its user can enter. A request is one line, the answer is one line of JSON. All folders
//! that a service may have chosen are searched, since its environment may differ from this shell's.
//!
//! What it promises: an answer, or a message within seconds: a process that hangs does not make the
//! command hang. Processes are named by their id, or all of a service by its name; what was changed
//! or saved is reported with both. Which process a number means: `named`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use sys::local;

use crate::output::columns::{age, columns, columns_within, local as local_time, now_ns, plain};
use crate::output::exit_code::{NOTHING, UNREADABLE, USAGE};
use crate::output::terminal;
use crate::processes::named::{find, places, where_searched, Named, Place};
use crate::processes::status_text;

/// A live process answers within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// For what is only good to know.
const AT_ONCE: Duration = Duration::from_millis(200);
/// It has written a capture within this time.
const CAPTURE: Duration = Duration::from_secs(40);
/// Answers longer than this are refused.
const LONGEST: u64 = 16 << 20;

/// Lists the recorded processes of this user, and removes sockets of dead ones.
pub fn ps(as_json: bool) -> ExitCode {
    let mut rows: Vec<Value> = Vec::new();
    for folder in local::folders() {
        local::tidy(&folder, usize::MAX);
    }
    for place in places() {
        match ask(&place.path, "ps", PATIENCE) {
            Ok(mut row) => {
                place.name(&mut row);
                rows.push(row);
            }
            Err(why) => why.report(&place),
        }
    }
    rows.sort_by_key(|row| row["pid"].as_u64());
    if as_json {
        rows.iter_mut().filter_map(Value::as_object_mut).for_each(|row| drop(row.remove("ok")));
        println!("{:#}", json!({"schema": 1, "processes": rows}));
    } else if !rows.is_empty() {
        match terminal::terminal() {
            Some(screen) => print!("{}", page(&rows, screen.columns)),
            None => print!("{}", table(&rows, local_time)),
        }
        notices(&rows).iter().for_each(|line| eprintln!("dashcam: {line}"));
    }
    if rows.is_empty() {
        eprintln!("dashcam: no recorded process of this user: {}", where_searched());
        return ExitCode::from(NOTHING);
    }
    ExitCode::SUCCESS
}

/// A recorded process.
pub struct Recorded {
    /// Its id, as it knows it.
    pub pid: u32,
    /// Its service.
    pub service: String,
    /// When recording began, Unix epoch.
    pub since_epoch_ns: u64,
}

/// The recorded processes of this user that answer at once.
pub fn recorded() -> Vec<Recorded> {
    places().iter().filter_map(|place| answering(place, AT_ONCE).ok()).collect()
}

fn answering(place: &Place, patience: Duration) -> Result<Recorded, Failure> {
    let row = ask(&place.path, "ps", patience)?;
    Ok(Recorded {
        pid: row["pid"].as_u64().unwrap_or(0) as u32,
        service: row["service"].as_str().unwrap_or_default().to_owned(),
        since_epoch_ns: row["since_epoch_ns"].as_u64().unwrap_or(0),
    })
}

/// All of them: a machine that is asked because it is overloaded may give none a processor at once.
/// One that does not answer is reported.
fn patiently() -> Vec<(Place, Recorded)> {
    let known = |place: Place| match answering(&place, PATIENCE) {
        Ok(recorded) => Some((place, recorded)),
        Err(why) => {
            why.report(&place);
            None
        }
    };
    places().into_iter().filter_map(known).collect()
}

fn table(rows: &[Value], since: fn(u64) -> String) -> String {
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0).to_string();
    let text = |row: &Value, key: &str| plain(row[key].as_str().unwrap_or("?"));
    let head =
        ["PID", "SERVICE", "SINCE", "STATE", "REQUESTS", "SLOW", "CAPTURES", "VERDICT", "BOX"];
    let cells = rows.iter().map(|row| {
        vec![
            number(row, "pid"),
            text(row, "service"),
            since(row["since_epoch_ns"].as_u64().unwrap_or(0)),
            if row["on"] == true { "on" } else { "off" }.to_owned(),
            number(row, "requests"),
            number(row, "slow"),
            number(row, "captures"),
            verdict(row),
            text(row, "box"),
        ]
    });
    columns(&head, cells)
}

/// For a terminal: without the box, times as ages, the verdict cut where the line ends.
fn page(rows: &[Value], width: usize) -> String {
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0).to_string();
    let head = ["PID", "SERVICE", "FOR", "STATE", "REQUESTS", "SLOW", "CAPTURES", "VERDICT"];
    let now_ns = now_ns();
    let cells = rows.iter().map(|row| {
        let since_ns = row["since_epoch_ns"].as_u64().unwrap_or(now_ns);
        vec![
            number(row, "pid"),
            plain(row["service"].as_str().unwrap_or("?")),
            age(now_ns.saturating_sub(since_ns)),
            if row["on"] == true { "on" } else { "off" }.to_owned(),
            number(row, "requests"),
            number(row, "slow"),
            number(row, "captures"),
            verdict(row),
        ]
    });
    columns_within(width, &head, cells)
}

/// Why processes that work have no requests.
fn notices(rows: &[Value]) -> Vec<String> {
    let notice = |row: &Value| {
        let why = row["no_requests_because"].as_str().filter(|why| !why.is_empty())?;
        Some(format!("process {}: {}", row["pid"].as_u64().unwrap_or(0), plain(why)))
    };
    rows.iter().filter_map(notice).collect()
}

/// The line of the newest verdict, without its figures.
fn verdict(row: &Value) -> String {
    let line = plain(row["verdict"].as_str().unwrap_or_default());
    // A place has a colon, too, and no space behind it.
    match line.split(": ").next() {
        None | Some("") => "-".to_owned(),
        Some(cause) => cause.to_owned(),
    }
}

/// The state of processes: what `dashcam.status()` gives inside them. JSON of several is a list.
pub fn status(word: &str, as_json: bool) -> ExitCode {
    let mut all: Vec<Value> = Vec::new();
    let code = each(word, |named| {
        let mut status = question(named, "status", PATIENCE)?["status"].take();
        if status["pid"] != named.pid {
            status["own_pid"] = status["pid"].take();
            status["pid"] = json!(named.pid);
        }
        all.push(status);
        Ok(())
    });
    match all.as_slice() {
        [one] if as_json => println!("{one:#}"),
        [] => (),
        all if as_json => println!("{:#}", json!(all)),
        all => {
            let texts: Vec<String> = all.iter().map(status_text::of).collect();
            let text = texts.join("\n");
            match terminal::terminal() {
                Some(screen) => print!("{}", status_text::within(&text, screen.columns)),
                None => print!("{text}"),
            }
        }
    }
    code
}

/// Calls `ask` for each process that `word` names, by its id or its service. Returns the first
/// error.
fn each(word: &str, mut ask: impl FnMut(&Named) -> Result<(), ExitCode>) -> ExitCode {
    let all = match named(word) {
        Ok(all) => all,
        Err(code) => return code,
    };
    let failed: Vec<ExitCode> = all.iter().filter_map(|named| ask(named).err()).collect();
    failed.into_iter().next().unwrap_or(ExitCode::SUCCESS)
}

/// The processes that a word names.
pub fn named(word: &str) -> Result<Vec<Named>, ExitCode> {
    if let Ok(pid) = word.parse() {
        return Ok(vec![match find(pid, &places(), is_there(word)) {
            Ok(place) => Named::of(place),
            Err(why) => Named { pid, is_here: true, socket: Err(why) },
        }]);
    }
    let all = patiently();
    let of = all.iter().filter(|(_, recorded)| recorded.service == word);
    let mut found: Vec<Named> = of.map(|(place, _)| Named::of(place)).collect();
    found.sort_by_key(|named| named.pid);
    if found.is_empty() {
        let mut services: Vec<&str> = all.iter().map(|(_, one)| &*one.service).collect();
        services.sort_unstable();
        services.dedup();
        let found = match services.is_empty() {
            true => where_searched(),
            false => format!("there are {}", plain(&services.join(", "))),
        };
        eprintln!(
            "dashcam: {}: no process of this user is recorded as this service: {found}; \
             `dashcam ps` lists them",
            plain(word)
        );
        return Err(ExitCode::from(NOTHING));
    }
    Ok(found)
}

/// Reports what was done, and to which process of which service.
fn report(named: &Named, done: &str) {
    let row = named.socket.as_ref().ok().and_then(|path| ask(path, "ps", PATIENCE).ok());
    let service = row.and_then(|row| Some(plain(row["service"].as_str()?)));
    let (service, pid) = (service.as_deref().unwrap_or("?"), named.pid);
    eprintln!("dashcam: {service}, process {pid}: {done}");
}

fn one(value: &Value) -> String {
    match value.as_str() {
        Some("") => "none".to_owned(),
        Some(text) => plain(text),
        None => value.to_string(),
    }
}

/// Makes processes save a capture; prints the paths.
pub fn snap(word: &str, reason: Option<&str>) -> ExitCode {
    let line = match reason {
        None => "snap".to_owned(),
        Some(reason) => format!("snap\t{}", one_word(reason)),
    };
    each(word, |named| {
        let answer = question(named, &line, CAPTURE)?;
        println!("{}", answer["path"].as_str().unwrap_or_default());
        report(named, "saved a capture");
        Ok(())
    })
}

/// Changes settings of processes.
pub fn set(word: &str, words: &[String]) -> ExitCode {
    let pair = |text: &String| match text.as_str() {
        "on" | "off" => format!("enabled={text}"),
        _ => one_word(text),
    };
    if let Some(wrong) =
        words.iter().find(|w| !w.contains('=') && !["on", "off"].contains(&w.as_str()))
    {
        eprintln!("dashcam: set: found {wrong:?}, wanted name=value (like slow=250ms), on or off");
        return ExitCode::from(USAGE);
    }
    let pairs: Vec<String> = words.iter().map(pair).collect();
    each(word, |named| {
        question(named, &format!("set\t{}", pairs.join("\t")), PATIENCE)?;
        report(named, &format!("set {}", pairs.join(" ")));
        Ok(())
    })
}

/// Ends the recording of processes. Their hooks remain, and do nothing.
pub fn detach(word: &str) -> ExitCode {
    each(word, |named| {
        question(named, "stop", PATIENCE)?;
        // The socket is removed first of all, the process's own threads of ours end behind it.
        let (pid, until) = (named.pid, Instant::now() + PATIENCE);
        while named.socket.as_ref().is_ok_and(|path| local::is_alive(path)) {
            if Instant::now() > until {
                eprintln!(
                    "dashcam: {pid}: still recorded {} s after it agreed",
                    PATIENCE.as_secs()
                );
                return Err(ExitCode::from(UNREADABLE));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("process {pid} is recorded no more; its hooks remain and do nothing");
        Ok(())
    })
}

/// A word of a request: tabs and line ends would end it.
fn one_word(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether a process of this number runs, recorded or not; a service was found before.
pub fn is_there(word: &str) -> bool {
    word.parse::<u32>().map_or(true, |pid| Path::new(&format!("/proc/{pid}")).exists())
}

/// The answer to a request; else why there is none.
pub fn answer_of(path: &Path, line: &str, patience: Duration) -> Result<Value, String> {
    ask(path, line, patience).map_err(|why| why.to_string())
}

/// Sends a request to a process. Errors are reported on stderr: 1 there is no such process, 2 it
/// refused the request, 3 it could not be reached.
fn question(named: &Named, line: &str, patience: Duration) -> Result<Value, ExitCode> {
    let pid = named.pid;
    let asked = named.socket.as_ref().map_err(|why| {
        eprintln!("dashcam: {pid}: {why}");
        ExitCode::from(NOTHING)
    });
    match ask(asked?, line, patience) {
        Ok(answer) => Ok(answer),
        Err(Failure::Refused(why)) => {
            eprintln!("dashcam: {pid}: {why}");
            Err(ExitCode::from(USAGE))
        }
        Err(why) => {
            eprintln!("dashcam: {pid}: {why}");
            Err(ExitCode::from(UNREADABLE))
        }
    }
}

enum Failure {
    /// The request could not be sent.
    Io(PathBuf, io::Error),
    /// It did not answer in time.
    Silent(Duration),
    /// It answered with an error.
    Refused(String),
    /// Its answer could not be understood.
    Odd(String),
}

impl Failure {
    /// Says it of one of all processes, unless it has just ended.
    fn report(&self, place: &Place) {
        use io::ErrorKind::{
            BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof,
        };
        let ended = [NotFound, ConnectionRefused, ConnectionReset, BrokenPipe, UnexpectedEof];
        if !matches!(self, Failure::Io(_, error) if ended.contains(&error.kind())) {
            eprintln!("dashcam: process {}: {self}", place.number());
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Failure::Silent(time) => {
                write!(f, "no answer within {} s; is it stopped?", time.as_secs())
            }
            Failure::Refused(why) => f.write_str(&plain(why)),
            Failure::Odd(why) => write!(f, "found an answer that is no JSON object: {why}"),
        }
    }
}

fn ask(path: &Path, line: &str, patience: Duration) -> Result<Value, Failure> {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::Silent(patience),
        _ => Failure::Io(path.to_owned(), error),
    };
    let until = Instant::now() + patience;
    let mut stream = local::connect(path).map_err(io)?;
    stream.set_nonblocking(false).map_err(io)?;
    stream.set_write_timeout(Some(patience)).map_err(io)?;
    // A process that refuses at once has sent an answer, although nothing could be written to it.
    let asked = stream.write_all(format!("{line}\n").as_bytes());
    let mut answer = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || answer.len() as u64 > LONGEST {
            return Err(Failure::Silent(patience));
        }
        stream.set_read_timeout(Some(left)).map_err(io)?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            // This process was stopped (Ctrl-Z) and goes on.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(_) if answer.ends_with(b"\n") => break,
            Err(error) => return Err(io(error)),
        }
    }
    if answer.is_empty() {
        asked.map_err(io)?;
        return Err(io(io::ErrorKind::UnexpectedEof.into()));
    }
    let answer: Value =
        serde_json::from_slice(&answer).map_err(|error| Failure::Odd(error.to_string()))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer),
        Some(false) => Err(Failure::Refused(one(&answer["error"]))),
        None => Err(Failure::Odd(answer.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_figure_and_no_control_characters() {
        let row = json!({"pid": 4711, "service": "bil\u{1b}ly", "since_epoch_ns": 0, "on": true,
            "requests": 12, "slow": 1, "captures": 1,
            "verdict": "sleep at a.py:1 f(): 98 % of the excess, confirmed, new", "box": "/dev/shm/x.box"});
        let text = table(&[row], crate::output::columns::utc);
        assert_eq!(
            text,
            "PID   SERVICE  SINCE                STATE  REQUESTS  SLOW  CAPTURES  VERDICT              BOX\n\
             4711  bil?ly   1970-01-01 00:00:00  on     12        1     1         sleep at a.py:1 f()  /dev/shm/x.box\n"
        );
    }

    #[test]
    fn a_process_that_works_without_requests_has_a_line_of_its_own() {
        let row = |pid: u64, why: &str| json!({"pid": pid, "no_requests_because": why});
        let rows = [row(1, ""), row(2, "no request has\u{1b} begun"), json!({"pid": 3})];
        assert_eq!(notices(&rows), ["process 2: no request has? begun"]);
    }
}
