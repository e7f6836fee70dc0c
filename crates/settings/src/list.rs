//! The list of all settings.
//!
//! A row: `name => field: Kind, default, accepted values, when it may change, where it is listed,
//! what it does;`. `field` is its name in `Config` and in `status()`, with its unit. The lower and
//! the upper limit of a kind that has limits are read from the accepted values (`1MiB to 4GiB`).

use trigger::Wrong;

/// One setting.
pub struct Knob {
    /// Name; the environment variable is `DASHCAM_` and the name in capitals.
    pub name: &'static str,
    /// Its name in `Config` and in `status()`.
    pub field: &'static str,
    /// Its kind, as in `kinds`.
    pub kind: &'static str,
    /// Value when nothing is given.
    pub default: &'static str,
    /// Accepted values.
    pub accepts: &'static str,
    /// Whether it may change while the process records.
    pub live: bool,
    /// Whether the command lists its flag in the short help, too.
    pub listed: Listed,
    /// What it does.
    pub sentence: &'static str,
    pub(crate) check: fn(&Knob, &str) -> Result<(), Wrong>,
}

impl Knob {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("DASHCAM_{}", self.name.to_uppercase())
    }

    /// The command's flag, without the dashes in front.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// Where the command's help lists a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// In `-h` and in `--help`.
    Short,
    /// In `--help` alone.
    Long,
}

/// Calls the given macro with all settings.
#[macro_export]
macro_rules! settings {
    ($take:path) => {
        $take! {
            enabled => enabled: Switch, "on", "on, off", Live, Long,
                "Turns everything on or off.";
            service => service: Service, "", "text", AtStart, Short,
                "Name of the service; the program's name when empty.";
            labels => labels: OfProcess, "", "version=4.2,environment=prod", AtStart, Short,
                "Labels of the process, in each capture; with those of OTEL_RESOURCE_ATTRIBUTES.";
            out => out: Folder, "captures", "folder", AtStart, Short,
                "Where captures are written.";
            slow => slow: Slow, "500ms",
                "500ms; checkout>250ms; p99(checkout)>50ms/30s; several with commas", Live, Short,
                "What is slow: a limit for any request, or by name.";
            memory => memory_bytes: Pages, "64MiB", "1MiB to 4GiB", AtStart, Short,
                "Size of the black box.";
            window => window_ns: Time, "60s", "1s to 24h", Live, Short,
                "How far back a capture reaches.";
            post => post_ns: Time, "1s", "1ms to 10m", Live, Short,
                "How long to go on recording after the trigger before saving.";
            cooldown => cooldown_ns: Time, "10s", "100ms to 24h", Live, Short,
                "Quiet time after a capture; doubles while slow requests go on.";
            keep => keep: Count, "50", "1 to 100000", Live, Short,
                "Most captures kept; the oldest are removed first.";
            keep_bytes => keep_bytes: Size, "1GiB", "1MiB to 1TiB", Live, Long,
                "Most bytes of captures kept.";
            rate_hz => period_ns: Rate, "100", "1 to 1000", Live, Long,
                "Passes of the sampler a second.";
            budget_percent => budget_percent: Number, "1", "0.01 to 100", Live, Long,
                "CPU time the sampler may use, percent of one core.";
            switches => switches: Switch, "on", "on, off", AtStart, Long,
                "Exact context switches from the kernel (off: estimates from /proc).";
            stacks => stacks: Switch, "on", "on, off", AtStart, Long,
                "Python stacks.";
            metrics_series => metrics_series: Count, "2000", "1 to 8192", AtStart, Long,
                "Most series of metrics (name, kind, tags); calls beyond are refused and counted.";
            threads => threads: Count, "16", "1 to 1024", Live, Long,
                "Most threads sampled in one pass.";
            on_error => on_error: Errors, "",
                "error; TimeoutError; *Timeout*(checkout); errors(checkout)>5%/30s; several with commas", Live, Short,
                "Which failed requests make a capture.";
            on_metric => on_metric: Metrics, "",
                "queue.depth>100; errors{route=*}>5/s/10s; p99(db.query)>50ms/30s; several with commas", Live, Short,
                "Which numbers of metrics make a capture.";
            openmetrics => openmetrics: Endpoint, "",
                "127.0.0.1:9464; 127.0.0.1:9464-9479; unix:/run/billy-{pid}.sock", AtStart, Short,
                "Where a Prometheus or OpenMetrics scraper finds the metrics; none when empty.";
            signal => signal: Signal, "", "USR2", AtStart, Long,
                "The signal that makes a capture, if the program has no handler of its own for it.";
            per_day => per_day: Count, "100", "1 to 100000", Live, Long,
                "Most captures that rules make in a day; the others are counted.";
            repeat_after => repeat_after_ns: TimeOrNone, "0s", "0s to 168h", Live, Long,
                "A cause (request name and rule) captured less than this long ago is counted, not captured again.";
            decay => decay_ns: TimeOrNone, "0s", "0s to 168h", Live, Long,
                "After this long without a capture limits begin to fall, by half in each further such time; 0s: never.";
            at_exit => at_exit: End, "slow", "slow, crash, always, never", Live, Long,
                "A capture at the end: of slow requests that are in none yet, of an uncaught exception too, always, never.";
            hook => hook: Command, "", "a command", AtStart, Short,
                "Run for each capture, with its path as the last argument.";
            explain => explain: Switch, "on", "on, off", Live, Long,
                "The verdict on each capture, by the command dashcam in a process of its own.";
            source_lines => source_lines: Switch, "on", "on, off", Live, Long,
                "Keeps the lines of source around the places that the verdict names, in the capture.";
            rollups => rollups: Switch, "on", "on, off", AtStart, Long,
                "Counts all requests by name and hour, in a file beside the captures, for dashcam fleet.";
            control => control: Switch, "on", "on, off", AtStart, Long,
                "The control socket: dashcam ps, status, snap and set.";
            otlp => otlp: Collector, "", "http://HOST:4318, env, off", AtStart, Long,
                "Where slow and failed requests, a share of the others, and metrics are sent by OTLP; env: where OTEL_EXPORTER_OTLP_ENDPOINT says.";
            otlp_share => otlp_share: Percent, "1", "0 to 100", AtStart, Long,
                "Share of the other requests that is sent, percent.";
            calls => calls: Switch, "on", "on, off", AtStart, Long,
                "Records statements, commands and requests to other services as spans (docs/integrations.md).";
            propagate => propagate: Switch, "off", "on, off", AtStart, Long,
                "Sends traceparent along with HTTP requests and Celery tasks that the program sends (Python).";
            otel => otel: Switch, "off", "on, off", AtStart, Long,
                "Records the spans of OpenTelemetry instrumentations (Python, with opentelemetry-sdk).";
        }
    };
}
