//! Settings of a sink: target, dialect, and what is added to each line.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// StatsD's usual port.
pub const PORT: u16 = 8125;
/// A datagram that fits a usual network's MTU, less what tunnels take.
pub const UDP_PACKET: usize = 1432;
/// What DogStatsD's receivers read at once from a unix socket.
pub const UNIX_PACKET: usize = 8192;
/// The largest packet that may be set: what fits a UDP datagram.
pub const MOST_PACKET: usize = 65_507;
/// Bytes that may wait in the queue.
pub const QUEUE: usize = 4 << 20;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nowhere.
    Off,
    /// A UDP port of a host, by name or address.
    Udp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix socket of whichever kind is there: datagrams are tried first.
    Unix(String),
    /// A unix stream socket; each packet behind its length, 4 bytes, little endian.
    UnixStream(String),
}

impl Target {
    /// Whether no name has to be resolved to reach it.
    pub fn is_resolved(&self) -> bool {
        !matches!(self, Target::Udp { host, .. } if host.parse::<IpAddr>().is_err())
    }

    /// From `udp://host:port`, `unix:///path`, `unixgram:///path`, `unixstream:///path`, or `off`
    /// (also 0, false, no). An IPv6 address is in brackets. Errors: what is wanted.
    pub fn parse(text: &str) -> Result<Target, String> {
        let text = text.trim();
        if parse_switch(text) == Some(false) {
            return Ok(Target::Off);
        }
        let forms = "udp://HOST:PORT, unix:///PATH, unixstream:///PATH or off";
        let (scheme, rest) = text.split_once("://").ok_or(forms)?;
        match scheme.to_ascii_lowercase().as_str() {
            "udp" => Target::host_port(rest),
            "unix" | "unixgram" => Ok(Target::Unix(path(rest)?)),
            "unixstream" => Ok(Target::UnixStream(path(rest)?)),
            _ => Err(forms.to_owned()),
        }
    }

    /// From `host:port` or `host`. Errors: what is wanted.
    pub fn host_port(text: &str) -> Result<Target, String> {
        let wanted = "HOST:PORT, like localhost:8125 or [::1]:8125";
        let text = text.trim().trim_end_matches('/');
        if text.parse::<Ipv6Addr>().is_ok() {
            return Ok(Target::Udp { host: text.to_owned(), port: PORT });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(wanted)?;
                host.parse::<Ipv6Addr>().map_err(|_| wanted)?;
                let port = if port.is_empty() { None } else { port.strip_prefix(':') };
                (host, port.map_or_else(|| PORT.to_string(), str::to_owned))
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, port.to_owned()),
                None => (text, PORT.to_string()),
            },
        };
        let port = port.parse().ok().filter(|p| *p > 0).ok_or(wanted)?;
        let odd = |c: char| c.is_whitespace() || c.is_control() || "/@?#".contains(c);
        if host.is_empty() || host.contains(odd) {
            return Err(wanted.to_owned());
        }
        Ok(Target::Udp { host: host.to_owned(), port })
    }

    /// Bytes of a datagram by default.
    pub fn usual_packet(&self) -> usize {
        match self {
            Target::Off | Target::Udp { .. } => UDP_PACKET,
            Target::Unix(_) | Target::UnixStream(_) => UNIX_PACKET,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Off => f.write_str("off"),
            Target::Udp { host, port } if host.contains(':') => write!(f, "udp://[{host}]:{port}"),
            Target::Udp { host, port } => write!(f, "udp://{host}:{port}"),
            Target::Unix(path) => write!(f, "unix://{path}"),
            Target::UnixStream(path) => write!(f, "unixstream://{path}"),
        }
    }
}

fn path(text: &str) -> Result<String, String> {
    let fits = (2..108).contains(&text.len()) && !text.contains('\0');
    match fits && (text.starts_with('/') || text.starts_with('@')) {
        true => Ok(text.to_owned()),
        false => {
            Err("an absolute path of at most 107 bytes, like unix:///run/dogstatsd.sock".into())
        }
    }
}

/// On or off: 1/true/yes/on and 0/false/no/off, in any case. None: neither.
pub fn parse_switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The dialect of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The original: no tags, no events, `c`, `g`, `ms` and `s` only.
    StatsD,
    /// Datadog's: tags, `h`, `d`, packed values, events, service checks.
    #[default]
    DogStatsD,
}

/// How a host's name becomes addresses. May wait as long as it likes: only the dispatcher calls it.
pub type Resolve = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// By the C library: hosts file, DNS, whatever the machine is set to.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// Settings of a sink.
#[derive(Clone, Debug)]
pub struct Config {
    /// The target.
    pub target: Target,
    /// The dialect.
    pub dialect: Dialect,
    /// Put before every name, with a dot between; empty: none. Not before the sink's own names.
    pub prefix: String,
    /// Tags of every line, events and self-metrics included. Plain StatsD: none are sent.
    pub tags: Vec<(String, String)>,
    /// Id of this container, for tags that the Agent adds. DogStatsD 1.2.
    pub container: Option<String>,
    /// Bytes of a datagram, 64 to 65507.
    pub packet_bytes: usize,
    /// Bytes that may wait; beyond them the oldest datagrams are dropped.
    pub queue_bytes: usize,
    /// Several values in one line. DogStatsD 1.1 (Agent 7.25).
    pub packed: bool,
    /// Adds the window's end to each counter and gauge. DogStatsD 1.3; the Agent aggregates such
    /// lines no further.
    pub timestamps: bool,
    /// How often the sink sends metrics about itself; None: never.
    pub self_every: Option<Duration>,
    /// How old a name's address may get before it is resolved again.
    pub resolve_every: Duration,
    /// Resolves it.
    pub resolve: Resolve,
    /// Called on the dispatcher when lines stop going and when they go again.
    pub say: Option<fn(&str)>,
}

impl Config {
    /// The defaults, for a sink that does nothing.
    pub fn off() -> Config {
        Config::to(Target::Off)
    }

    /// The defaults for a target.
    pub fn to(target: Target) -> Config {
        Config {
            dialect: Dialect::DogStatsD,
            prefix: String::new(),
            tags: Vec::new(),
            container: None,
            packet_bytes: target.usual_packet(),
            queue_bytes: QUEUE,
            packed: true,
            timestamps: false,
            self_every: Some(Duration::from_secs(10)),
            resolve_every: Duration::from_secs(60),
            resolve,
            say: None,
            target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_shown() {
        let udp = |host: &str, port| Ok(Target::Udp { host: host.into(), port });
        assert_eq!(Target::parse("udp://localhost:9125"), udp("localhost", 9125));
        assert_eq!(Target::parse(" UDP://agent "), udp("agent", 8125));
        assert_eq!(Target::parse("udp://[::1]:99"), udp("::1", 99));
        assert_eq!(Target::parse("udp://[fe80::1]"), udp("fe80::1", 8125));
        assert_eq!(Target::parse("udp://::1"), udp("::1", 8125));
        assert_eq!(Target::parse("unix:///run/x.sock"), Ok(Target::Unix("/run/x.sock".into())));
        assert_eq!(Target::parse("unixgram://@x"), Ok(Target::Unix("@x".into())));
        assert_eq!(Target::parse("unixstream:///x"), Ok(Target::UnixStream("/x".into())));
        for off in ["off", "False", "0", "no", " OFF "] {
            assert_eq!(Target::parse(off), Ok(Target::Off));
        }
        for text in ["udp://h:9125", "udp://[::1]:99", "unix:///x", "unixstream:///x", "off"] {
            assert_eq!(Target::parse(text).map(|t| t.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn an_invalid_target_is_refused_with_the_form_wanted() {
        let bad = ["", "on", "true", "localhost:8125", "tcp://h:1", "udp://", "udp://:8125"];
        let worse = ["udp://h:0", "udp://h:65536", "udp://h:x", "udp://a:b:c", "udp://[h]:1"];
        let worst = ["udp://[::1", "unix://", "unix://x", "unix:///a\0b", "udp://h h:1"];
        for text in bad.into_iter().chain(worse).chain(worst) {
            let said = Target::parse(text);
            assert!(said.as_ref().is_err_and(|e| e.contains("like") || e.contains("udp://")));
        }
        let long = format!("unix:///{}", "x".repeat(120));
        assert!(Target::parse(&long).is_err_and(|e| e.contains("107 bytes")));
    }
}
