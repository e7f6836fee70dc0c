//! `dashcam alert`: a ready hook that sends the verdict on a capture to Slack or PagerDuty.
//!
//! How it works: as a hook it finds the verdict in its environment; of a capture without one, and
//! when it is called by hand, it judges the capture itself. One POST of JSON for each receiver.
//!
//! What it promises: one alert for each cause and hour, over all processes that write into the
//! folder (`once`); one that could not be sent does not count. `--dry-run` sends nothing and
//! prints what would be sent, of each kind if no receiver is named. Addresses and keys are taken
//! from the environment as well, since a hook's words are in every capture; no message shows them.

mod message;
mod once;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use otlp::{http, Endpoint};
use serde_json::Value;

use crate::brief::Brief;
use crate::export::tls::Tls;
use crate::output::exit_code::{UNREADABLE, USAGE};
use once::Claim;

/// A receiver has answered within this time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Where PagerDuty takes events.
const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";
/// What an address has to look like.
const ADDRESS: &str = "https://HOST/PATH, as https://hooks.slack.com/services/...";

/// Where to; None: as the environment says.
pub struct Receivers {
    /// A webhook that takes Slack's messages.
    pub slack: Option<String>,
    /// The routing key of a PagerDuty service.
    pub pagerduty: Option<String>,
}

/// One POST.
struct Message {
    receiver: &'static str,
    to: Endpoint,
    body: Value,
}

/// Sends the verdict on `file`.
pub fn alert(file: &Path, receivers: &Receivers, dry_run: bool) -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let brief = match Brief::of_hook(file, environment) {
        Some(brief) => brief,
        None => match Brief::of_file(file, None) {
            Ok(brief) => brief,
            Err(code) => return code,
        },
    };
    let messages = match messages(&brief, receivers, environment) {
        Ok(messages) => messages,
        Err(wrong) => {
            eprintln!("dashcam: alert: {wrong}");
            return ExitCode::from(USAGE);
        }
    };
    if messages.is_empty() {
        if dry_run {
            return show_each_kind(&brief);
        }
        eprintln!(
            "dashcam: alert: found no receiver, wanted --slack URL or --pagerduty KEY, or \
             DASHCAM_ALERT_SLACK or DASHCAM_ALERT_PAGERDUTY in the environment"
        );
        return ExitCode::from(USAGE);
    }
    if dry_run {
        messages.iter().for_each(|message| println!("{}\n{:#}", message.receiver, message.body));
        return ExitCode::SUCCESS;
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut code = ExitCode::SUCCESS;
    for message in &messages {
        let claim = match Claim::take(folder, &format!("{}-{}", message.receiver, brief.key())) {
            Ok(Some(claim)) => Some(claim),
            Ok(None) => {
                let receiver = message.receiver;
                eprintln!("dashcam: alert: {receiver} had this cause within the hour: not sent");
                continue;
            }
            Err(error) => {
                // Better twice than not at all.
                eprintln!("dashcam: alert: {}: {error}; sent all the same", folder.display());
                None
            }
        };
        if let Err(error) = send(message) {
            claim.into_iter().for_each(Claim::give_back);
            // The path of a webhook is its secret.
            let (receiver, host) = (message.receiver, &message.to.host);
            eprintln!("dashcam: alert: {receiver} at {host}: {error}; wanted it to take a POST");
            code = ExitCode::from(UNREADABLE);
        }
    }
    code
}

/// What would be sent if there were receivers.
fn show_each_kind(brief: &Brief) -> ExitCode {
    eprintln!("dashcam: alert: no receiver is named: this is what each kind would get");
    let host = host();
    println!("Slack\n{:#}", message::slack(brief, &host));
    println!("PagerDuty\n{:#}", message::pagerduty(brief, &host, "KEY"));
    ExitCode::SUCCESS
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// For each receiver that is named one.
fn messages(
    brief: &Brief,
    receivers: &Receivers,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Message>, String> {
    let given = |flag: &Option<String>, name| flag.clone().or_else(|| environment(name));
    let mut made = Vec::new();
    let host = host();
    let address = |name: &str, url: &str| {
        // The value may be a secret.
        let wrong = |_| format!("{name}: found an address of another form, wanted {ADDRESS}");
        Endpoint::parse_with_tls(url).map_err(wrong)
    };
    if let Some(url) = given(&receivers.slack, "DASHCAM_ALERT_SLACK") {
        let to = address("--slack", &url)?;
        made.push(Message { receiver: "Slack", to, body: message::slack(brief, &host) });
    }
    if let Some(key) = given(&receivers.pagerduty, "DASHCAM_ALERT_PAGERDUTY") {
        let url = environment("DASHCAM_ALERT_PAGERDUTY_URL");
        let to = address("DASHCAM_ALERT_PAGERDUTY_URL", url.as_deref().unwrap_or(PAGERDUTY))?;
        let body = message::pagerduty(brief, &host, key.trim());
        made.push(Message { receiver: "PagerDuty", to, body });
    }
    Ok(made)
}

fn send(message: &Message) -> io::Result<()> {
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
    let (to, body) = (&message.to, message.body.to_string());
    let answer = match to.tls {
        true => {
            let tls = Tls::load("", |_| None).map_err(io::Error::other)?;
            let wrap = |socket| tls.around(&to.host, socket);
            http::post_over(to, &headers, body.as_bytes(), TIMEOUT, wrap)?
        }
        false => http::post_over(to, &headers, body.as_bytes(), TIMEOUT, Ok)?,
    };
    match answer.is_taken() {
        true => Ok(()),
        false => Err(io::Error::other(format!("answered {}", answer.status))),
    }
}

impl Brief {
    /// What makes two alerts the same: the cause and its place, else the reason.
    fn key(&self) -> String {
        let text = match self.judged.fingerprint.as_str() {
            "" => &self.reason,
            fingerprint => fingerprint,
        };
        // A reason has times in it.
        let keep = |c: &char| !c.is_ascii_digit() || !self.judged.fingerprint.is_empty();
        let safe = |c: char| if c.is_alphanumeric() { c } else { '-' };
        let text: String = text.chars().filter(keep).map(safe).take(80).collect();
        format!("{}-{text}", self.service)
    }
}
