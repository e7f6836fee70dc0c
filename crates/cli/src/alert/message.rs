//! The JSON that Slack's webhooks and PagerDuty's events (version 2) take.

use serde_json::{json, Value};

use crate::brief::Brief;

/// PagerDuty's limit for a summary is 1,024.
const MOST_CHARS: usize = 1000;

/// A message for a webhook: Slack, Mattermost, Rocket.Chat.
pub fn slack(brief: &Brief, host: &str) -> Value {
    let lines = [
        format!(
            "*{}* on {}: {}",
            escaped(&brief.service),
            escaped(host),
            escaped(&brief.judged.line)
        ),
        escaped(&brief.reason),
        format!("`dashcam why {}`", escaped(&brief.file)),
    ];
    json!({"text": lines.join("\n")})
}

/// An event that triggers an incident, one for each cause and service.
pub fn pagerduty(brief: &Brief, host: &str, key: &str) -> Value {
    let summary = format!("{}: {}", brief.service, brief.judged.line);
    json!({
        "routing_key": key,
        "event_action": "trigger",
        "dedup_key": format!("dashcam-{}", brief.key()),
        "payload": {
            "summary": summary.chars().take(MOST_CHARS).collect::<String>(),
            "source": host,
            "severity": "warning",
            "component": brief.service,
            "class": brief.judged.cause,
            "custom_details": brief.to_json(),
        },
    })
}

/// The three characters that mean something in Slack's text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
