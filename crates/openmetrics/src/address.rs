//! The address to listen on: the text of the setting `openmetrics`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The largest number of ports in a range.
const MOST_PORTS: u16 = 1000;

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The first free port of a range; 0: any.
    Tcp(IpAddr, RangeInclusive<u16>),
    /// A socket in the file system; `{pid}` in it becomes the process's number.
    Unix(String),
}

impl Address {
    /// Reads `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`, `127.0.0.1:9464-9479`,
    /// `unix:/run/billy-{pid}.sock`. None: off. Names of hosts are not looked up. Errors: what is
    /// wanted.
    pub fn parse(text: &str) -> Result<Option<Address>, String> {
        let text = text.trim();
        let wrong = || {
            "an address and a port like 127.0.0.1:9464, a range like 127.0.0.1:9464-9479, or \
             unix:/absolute/path"
                .to_owned()
        };
        if text.is_empty() || text.eq_ignore_ascii_case("off") {
            return Ok(None);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Some(Address::Unix(path.to_owned()))),
                false => Err(wrong()),
            };
        }
        let (host, ports) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(inner) => IpAddr::V6(inner.parse().map_err(|_| wrong())?),
            None if host == "localhost" => Ipv4Addr::LOCALHOST.into(),
            None => IpAddr::V4(host.parse().map_err(|_| wrong())?),
        };
        let port = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let ports = match ports.split_once('-') {
            None => port(ports)?..=port(ports)?,
            Some((first, last)) => port(first)?..=port(last)?,
        };
        let sense = ports.start() <= ports.end() && ports.end() - ports.start() < MOST_PORTS;
        sense.then_some(Some(Address::Tcp(host, ports))).ok_or_else(wrong)
    }

    /// The addresses to try, in order.
    pub(crate) fn sockets(&self) -> Vec<SocketAddr> {
        match self {
            Address::Tcp(host, ports) => {
                ports.clone().map(|port| SocketAddr::new(*host, port)).collect()
            }
            Address::Unix(_) => Vec::new(),
        }
    }

    /// The path of process `pid`.
    pub(crate) fn path(&self, pid: u32) -> Option<PathBuf> {
        match self {
            Address::Tcp(..) => None,
            Address::Unix(path) => Some(PathBuf::from(path.replace("{pid}", &pid.to_string()))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{path}"),
            Address::Tcp(host, ports) => {
                write!(f, "{}", SocketAddr::new(*host, *ports.start()))?;
                match ports.start() == ports.end() {
                    true => Ok(()),
                    false => write!(f, "-{}", ports.end()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_back() {
        let cases = ["127.0.0.1:9464", "[::1]:0", "0.0.0.0:9464-9479", "unix:/run/a-{pid}.sock"];
        for text in cases {
            let address = Address::parse(text).expect(text).expect("one");
            assert_eq!(address.to_string(), text);
        }
        let local = Address::parse(" localhost:1 ").expect("valid").expect("one");
        assert_eq!(local.to_string(), "127.0.0.1:1");
        assert_eq!((Address::parse(""), Address::parse("off")), (Ok(None), Ok(None)));
        let unix = Address::parse("unix:/a-{pid}").expect("valid").expect("one");
        assert_eq!(unix.path(7), Some(PathBuf::from("/a-7")));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "9464",
            ":9464",
            "127.0.0.1",
            "127.0.0.1:x",
            "host.example:1",
            "127.0.0.1:9-8",
            "127.0.0.1:1-9999",
            "::1:80",
            "[::1]",
            "unix:relative",
            "127.0.0.1:70000",
        ] {
            let refused = Address::parse(text).expect_err(text);
            assert!(refused.starts_with("an address") && refused.contains("9464-9479"));
        }
    }
}
