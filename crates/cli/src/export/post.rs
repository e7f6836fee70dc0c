//! `dashcam export --to otlp --post URL`: a capture to a collector, by OTLP over HTTP or HTTPS.
//!
//! Traces and metrics go in requests of a size that a collector takes with its default settings. A
//! busy collector is tried again, a few times; a refusal ends the sending, and is reported.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use capture::read::Capture;
use export::otlp::Signal;
use otlp::env::Settings;
use otlp::{http, Endpoint};

use crate::export::tls::Tls;
use crate::output::exit_code::USAGE;
use crate::read;

/// How often a request is tried while the collector is busy.
const TRIES: u32 = 5;
/// The longest pause between two tries, whatever the collector asks for.
const MOST_WAIT: Duration = Duration::from_secs(30);

/// The result of one signal.
#[derive(Default)]
struct Sent {
    items: u64,
    requests: u64,
    rejected: u64,
    message: String,
}

/// Posts the capture at `path`, or the newest in that folder.
pub fn post(path: &Path, url: &str) -> ExitCode {
    let settings = otlp::env::load_with_tls(url, |name| std::env::var(name).ok());
    // An error in the settings for traces is one for metrics too.
    let mut complaints = settings.complaints.clone();
    complaints.dedup();
    for complaint in &complaints {
        eprintln!("dashcam: {}", complaint.replacen("otlp:", "--post:", 1));
    }
    let (Some(traces), Some(metrics)) = (&settings.traces, &settings.metrics) else {
        if settings.complaints.is_empty() {
            eprintln!("dashcam: --post: found {url:?}, wanted http://HOST:PORT or https://HOST");
        }
        return ExitCode::from(USAGE);
    };
    let (file, capture) = match read::open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    for what in &capture.damage {
        eprintln!("dashcam: {}: {what}; what is whole is sent", file.display());
    }
    let mut complete = true;
    for (word, what, to) in
        [("spans", Signal::Traces, traces), ("points", Signal::Metrics, metrics)]
    {
        match signal(&capture, what, to, &settings) {
            Ok(sent) => {
                println!("{} {word} in {} requests to {to}", sent.items, sent.requests);
                if sent.rejected > 0 {
                    complete = false;
                    let Sent { rejected, message, .. } = sent;
                    eprintln!("dashcam: {to}: rejected {rejected} {word}: {message}");
                }
            }
            Err(error) => {
                complete = false;
                eprintln!(
                    "dashcam: {to}: {error}; wanted a collector that takes OTLP over HTTP there; \
                     {word} may have been sent in part"
                );
            }
        }
    }
    if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(USAGE)
    }
}

fn signal(capture: &Capture, what: Signal, to: &Endpoint, settings: &Settings) -> io::Result<Sent> {
    let mut sent = Sent::default();
    let (headers, name) = match what {
        Signal::Traces => (&settings.headers[0], "TRACES"),
        Signal::Metrics => (&settings.headers[1], "METRICS"),
    };
    let tls = match to.tls {
        true => Some(Tls::load(name, |name| std::env::var(name).ok()).map_err(io::Error::other)?),
        false => None,
    };
    let mut each = |items: usize, body: &[u8]| {
        let answer = one(to, tls.as_ref(), headers, body, settings.timeout)?;
        sent.requests += 1;
        sent.items += items as u64;
        if answer.rejected > 0 {
            sent.rejected = sent.rejected.saturating_add(answer.rejected);
            sent.message = answer.message;
        }
        Ok(())
    };
    export::otlp::messages(capture, what, &mut |_, _| (), &mut each)?;
    Ok(sent)
}

fn one(
    to: &Endpoint,
    tls: Option<&Tls>,
    headers: &[(String, String)],
    body: &[u8],
    timeout: Duration,
) -> io::Result<http::Answer> {
    let mut wait = Duration::from_secs(1);
    for tried in 1.. {
        let answer = match tls {
            Some(tls) => {
                http::post_over(to, headers, body, timeout, |socket| tls.around(&to.host, socket))?
            }
            None => http::post_over(to, headers, body, timeout, Ok)?,
        };
        if answer.is_taken() {
            return Ok(answer);
        }
        if !answer.is_later() || tried >= TRIES {
            return Err(io::Error::other(format!("{} {}", answer.status, answer.message)));
        }
        std::thread::sleep(answer.retry_after.unwrap_or(wait).min(MOST_WAIT));
        wait *= 2;
    }
    Err(io::Error::other("not tried"))
}
