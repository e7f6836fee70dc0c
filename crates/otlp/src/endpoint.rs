//! The address of a collector.

use std::fmt;

/// A collector's HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether TLS is wanted: https. The caller brings it.
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, beginning with a slash.
    pub path: String,
}

/// What the refusal of an address names as wanted.
const WANTED: &str = "http://HOST:PORT, like http://localhost:4318";
/// The same for callers that speak TLS.
const WANTED_TLS: &str =
    "http://HOST:PORT, like http://localhost:4318, or https://HOST, like https://otlp.example.com";

impl Endpoint {
    /// Whether its host is an address and not a name.
    pub fn is_resolved(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_ok()
    }

    /// From `http://host[:port][/path]`; without a port 80, as in any URL. Errors name what is
    /// wanted.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        match Endpoint::read(text, WANTED)? {
            Endpoint { tls: true, .. } => Err(format!(
                "{WANTED}; TLS is not spoken here: run a collector beside the service, and let it \
                 send on by https"
            )),
            endpoint => Ok(endpoint),
        }
    }

    /// The same for callers that speak TLS: `https://` too, without a port 443.
    pub fn parse_with_tls(text: &str) -> Result<Endpoint, String> {
        Endpoint::read(text, WANTED_TLS)
    }

    fn read(text: &str, wanted: &str) -> Result<Endpoint, String> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").ok_or(wanted)?;
        let tls = scheme.eq_ignore_ascii_case("https");
        if !tls && !scheme.eq_ignore_ascii_case("http") {
            return Err(wanted.to_owned());
        }
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if authority.contains(['@', '\\']) || text.contains(odd) || path.contains('#') {
            return Err(wanted.to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(wanted)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| wanted)?;
                (
                    host,
                    if port.is_empty() {
                        None
                    } else {
                        Some(port.strip_prefix(':').ok_or(wanted)?)
                    },
                )
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            None if tls => 443,
            None => 80,
            Some(port) => port.parse().ok().filter(|p| *p > 0).ok_or(wanted)?,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if host.is_empty() || host.contains(':') && !authority.starts_with('[') {
            return Err(wanted.to_owned());
        }
        Ok(Endpoint { tls, host: host.to_owned(), port, path })
    }

    /// The same address with `below` behind its path, as OTLP/HTTP wants it: `v1/traces`.
    #[must_use]
    pub fn join(&self, below: &str) -> Endpoint {
        let path = format!("{}/{below}", self.path.trim_end_matches('/'));
        Endpoint { path, ..self.clone() }
    }

    /// The `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        let shown = |text| Endpoint::parse(text).map(|e| e.to_string());
        let is = |text: &str| Ok(text.to_owned());
        assert_eq!(shown("http://localhost:4318"), is("http://localhost:4318/"));
        assert_eq!(shown(" HTTP://agent "), is("http://agent:80/"));
        assert_eq!(shown("http://[::1]:99/a/b?c=d"), is("http://[::1]:99/a/b?c=d"));
        assert_eq!(shown("http://[::1]"), is("http://[::1]:80/"));
        let base = Endpoint::parse("http://h:1/otlp/").map(|e| e.join("v1/traces").to_string());
        assert_eq!(base, is("http://h:1/otlp/v1/traces"));
        let bare = Endpoint::parse("http://h:1").map(|e| e.join("v1/traces").to_string());
        assert_eq!(bare, is("http://h:1/v1/traces"));
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_form_wanted() {
        let bad = ["", "on", "localhost:4318", "grpc://h:1", "http://", "http://:1", "http://h:0"];
        let worse = ["http://h:x", "http://h:65536", "http://u@h:1", "http://h h", "http://::1"];
        let worst = ["http://[h]:1", "http://[::1", "http://[::1]x", "http://h/\r\nX: y"];
        for text in bad.into_iter().chain(worse).chain(worst) {
            assert!(Endpoint::parse(text).is_err_and(|e| e.contains("http://")), "{text}");
        }
        let refused = Endpoint::parse("https://h:4318").expect_err("no TLS");
        assert!(refused.contains("TLS") && refused.contains("collector"), "{refused}");
        let spoken = Endpoint::parse_with_tls("HTTPS://otlp.example.com/x").map(|e| e.to_string());
        assert_eq!(spoken, Ok("https://otlp.example.com:443/x".to_owned()));
        let refused = Endpoint::parse_with_tls("grpc://h:4317").expect_err("no gRPC");
        assert!(refused.contains("https://"), "{refused}");
    }
}
