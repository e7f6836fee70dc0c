//! One POST over HTTP/1.1, and its result.
//!
//! How it works: a connection for each request. A second may pass between two requests, and if a
//! proxy had closed an idle connection meanwhile, spans would be lost for nothing.
//!
//! What it promises: every step ends at the deadline, so a collector that hangs costs its caller
//! that long and no longer. The exception is the look-up of a host's name, which the C library ends
//! when it likes. What is missing on purpose: redirects are not followed.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::wire::{fields, Field};

/// The largest number of bytes of an answer that are read.
const MOST_ANSWER: usize = 64 << 10;
/// The largest number of bytes of a collector's message that are kept.
const MOST_MESSAGE: usize = 300;

/// The collector's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status: 200.
    pub status: u16,
    /// The collector asks for the next request only after this time.
    pub retry_after: Option<Duration>,
    /// Spans or points that it rejected, of a request that it took.
    pub rejected: u64,
    /// Its message.
    pub message: String,
}

impl Answer {
    /// It took the request, except for what it rejected.
    pub fn is_taken(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// It wants the request again later.
    pub fn is_later(&self) -> bool {
        matches!(self.status, 429 | 502 | 503 | 504)
    }
}

/// What a request is sent over: a socket, or a wrapper (TLS) around one.
pub trait Stream: Read + Write {
    /// The socket, whose timeouts are set before every step.
    fn socket(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// Posts a message over what `wrap` makes of a connection. `headers` come after ours; a
/// Content-Type among them replaces that of OTLP. Errors: no connection, no whole answer in time,
/// and those of `wrap`.
pub fn post_over<S: Stream>(
    endpoint: &Endpoint,
    headers: &[(String, String)],
    body: &[u8],
    timeout: Duration,
    wrap: impl FnOnce(TcpStream) -> io::Result<S>,
) -> io::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let socket = connect(endpoint, &mut Vec::new(), deadline)?;
    exchange(&mut wrap(socket)?, endpoint, headers, body, deadline)
}

/// Posts a message over plain HTTP. `note` is called with the connection's descriptor, and its
/// result is dropped before the connection is closed: so a host knows which descriptors to close in
/// a forked child. `known`: addresses of the endpoint's host, empty at first; the name is looked up
/// again only after none of them could be reached.
pub fn post_noting<N>(
    endpoint: &Endpoint,
    headers: &[(String, String)],
    body: &[u8],
    timeout: Duration,
    known: &mut Vec<SocketAddr>,
    note: impl FnOnce(RawFd) -> N,
) -> io::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let mut stream = connect(endpoint, known, deadline)?;
    let _noted = note(stream.as_raw_fd());
    exchange(&mut stream, endpoint, headers, body, deadline)
}

fn exchange(
    stream: &mut impl Stream,
    endpoint: &Endpoint,
    headers: &[(String, String)],
    body: &[u8],
    deadline: Instant,
) -> io::Result<Answer> {
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
         User-Agent: dashcam/{}\r\n",
        endpoint.path,
        endpoint.authority(),
        body.len(),
        env!("CARGO_PKG_VERSION"),
    );
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        head.push_str("Content-Type: application/x-protobuf\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    // A collector that refuses early may close before it has read everything: its answer is read
    // anyway.
    let sent = send(stream, &[head.as_bytes(), body], deadline);
    match (sent, receive(stream, deadline)) {
        (_, Ok(answer)) => Ok(answer),
        // The answer says more than the closed connection.
        (Err(closed), Err(error)) if closed.kind() == io::ErrorKind::BrokenPipe => Err(error),
        (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error),
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        false => Ok(left),
    }
}

fn connect(
    endpoint: &Endpoint,
    known: &mut Vec<SocketAddr>,
    deadline: Instant,
) -> io::Result<TcpStream> {
    if known.is_empty() {
        match endpoint.host.parse::<IpAddr>() {
            Ok(address) => known.push(SocketAddr::new(address, endpoint.port)),
            Err(_) => known.extend((&*endpoint.host, endpoint.port).to_socket_addrs()?),
        }
    }
    let addresses = std::mem::take(known);
    let mut last = io::Error::other("the name has no address");
    for (i, address) in addresses.iter().enumerate() {
        // If an address swallows packets, time is left for the next one.
        let others = u32::try_from(addresses.len() - i).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, left(deadline)? / others) {
            Ok(stream) => {
                // Head and body are two writes; the second must not wait for the first's
                // acknowledgement.
                stream.set_nodelay(true)?;
                *known = addresses;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn send(stream: &mut impl Stream, parts: &[&[u8]], deadline: Instant) -> io::Result<()> {
    for mut part in parts.iter().copied() {
        while !part.is_empty() {
            set_timeouts(stream.socket(), deadline)?;
            match stream.write(part) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => part = &part[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(in_time(error)),
            }
        }
    }
    // A wrapper around a socket may have kept some of it.
    stream.flush().map_err(in_time)
}

/// Both timeouts: a wrapper around a socket may read in order to write.
fn set_timeouts(socket: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = left(deadline)?;
    socket.set_write_timeout(Some(left))?;
    socket.set_read_timeout(Some(left))
}

/// A socket reports a timeout as EAGAIN.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
        _ => error,
    }
}

fn receive(stream: &mut impl Stream, deadline: Instant) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        if let Some(answer) = parse(&bytes, false) {
            return Ok(answer);
        }
        if bytes.len() >= MOST_ANSWER {
            break;
        }
        set_timeouts(stream.socket(), deadline)?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            // A TLS stream ended without notice: what came may be all there is.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(in_time(error)),
        }
    }
    parse(&bytes, true).ok_or_else(|| {
        let what = match bytes.is_empty() {
            true => "the connection was closed without an answer",
            false => "the answer is no HTTP",
        };
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// The answer in these bytes, if it is whole, or if no more will come.
fn parse(bytes: &[u8], is_all: bool) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 4..]);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.splitn(3, ' ');
    let version = first.next()?;
    let status: u16 = first.next()?.parse().ok()?;
    let reason = first.next().unwrap_or_default();
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    if (100..200).contains(&status) {
        // An interim answer; the real one follows.
        return parse(body, is_all);
    }
    let header = |name: &str| {
        let named = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.split("\r\n").skip(1).find_map(named)
    };
    let length = header("content-length").and_then(|text| text.parse::<usize>().ok());
    let chunked = header("transfer-encoding").is_some_and(|t| t.eq_ignore_ascii_case("chunked"));
    let (body, is_whole) = match (chunked, length) {
        (true, _) => dechunked(body),
        (false, Some(length)) => {
            (body[..body.len().min(length)].to_vec(), body.len() >= length.min(MOST_ANSWER))
        }
        (false, None) => (body.to_vec(), matches!(status, 204 | 304)),
    };
    if !is_whole && !is_all {
        return None;
    }
    let is_protobuf = header("content-type").is_some_and(|t| t.contains("protobuf"));
    let retry_after = header("retry-after").and_then(|text| text.parse().ok());
    let mut answer = Answer {
        status,
        retry_after: retry_after.map(|s: u64| Duration::from_secs(s.min(3600))),
        ..Answer::default()
    };
    let words = match (answer.is_taken(), is_protobuf) {
        (true, _) => taken(&body, &mut answer.rejected),
        (false, true) => text_of(&body, 2),
        (false, false) => String::from_utf8_lossy(&body).into_owned(),
    };
    let words = words.trim().replace(|c: char| c.is_control(), " ");
    answer.message = match (words.is_empty(), answer.is_taken()) {
        (true, false) => reason.trim().to_owned(),
        _ => words.chars().take(MOST_MESSAGE).collect(),
    };
    Some(answer)
}

/// `partial_success` of an `Export...ServiceResponse`: what was rejected, and why.
fn taken(body: &[u8], rejected: &mut u64) -> String {
    for (number, field) in fields(body) {
        if let (1, Field::Bytes(partial)) = (number, field) {
            for (number, field) in fields(partial) {
                if let (1, Field::Number(count)) = (number, field) {
                    // An int64; below zero it is not valid.
                    *rejected = count.min(i64::MAX as u64);
                }
            }
            return text_of(partial, 2);
        }
    }
    String::new()
}

fn text_of(message: &[u8], wanted: u32) -> String {
    let text = fields(message).find_map(|(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(String::from_utf8_lossy(bytes)),
        _ => None,
    });
    text.unwrap_or_default().into_owned()
}

/// The chunks of a chunked body, joined, and whether the last one came.
fn dechunked(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    while let Some(at) = body.windows(2).position(|two| two == b"\r\n") {
        let line = String::from_utf8_lossy(&body[..at]);
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(size, 16) else { return (out, true) };
        if size == 0 {
            return (out, true);
        }
        let rest = &body[at + 2..];
        if rest.len() < size.saturating_add(2) {
            out.extend_from_slice(&rest[..rest.len().min(size)]);
            return (out, false);
        }
        out.extend_from_slice(&rest[..size]);
        body = &rest[size + 2..];
    }
    (out, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_once_they_are_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
                      Content-Length: 8\r\n\r\n\x0a\x06\x08\x03\x12\x02no";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut], false), None, "{cut}");
        }
        let answer = parse(whole, false).expect("whole");
        assert_eq!((answer.status, answer.rejected, answer.message.as_str()), (200, 3, "no"));
        assert!(answer.is_taken());
    }

    #[test]
    fn addresses_are_kept_until_none_can_be_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listener.local_addr().expect("an address");
        let to = Endpoint::parse(&format!("http://localhost:{}", here.port())).expect("an address");
        let soon = || Instant::now() + Duration::from_secs(5);
        // A known address is used, whatever the name resolves to now.
        let mut known = vec![here];
        drop(connect(&to, &mut known, soon()).expect("somebody listens"));
        assert_eq!(known, [here]);
        drop(listener);
        connect(&to, &mut known, soon()).expect_err("nobody listens");
        assert_eq!(known, [], "looked up again next time");
    }

    #[test]
    fn refusals_say_when_to_come_again_and_why() {
        let busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n\r\n";
        assert_eq!(parse(busy, false), None, "its length is not given");
        let answer = parse(busy, true).expect("all there is");
        assert_eq!(answer.retry_after, Some(Duration::from_secs(7)));
        assert!(answer.is_later() && answer.message == "Service Unavailable");
        let bad = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-protobuf\r\n\
                    transfer-encoding: chunked\r\n\r\n3\r\n\x12\x05w\r\n4\r\nrong\r\n0\r\n\r\n";
        let answer = parse(bad, false).expect("chunks");
        assert_eq!((answer.message.as_str(), answer.is_later()), ("wrong", false));
        let first = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 204 x\r\n\r\n";
        assert_eq!(parse(first, false).map(|a| a.status), Some(204));
    }

    #[test]
    fn any_bytes_are_no_panic() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for round in 0..20_000u32 {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            let mut bytes =
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x0a\x02\x08\x01\r\n0\r\n"
                    .to_vec();
            let at = word as usize % bytes.len();
            bytes[at] = (word >> 32) as u8;
            bytes.truncate(bytes.len() - (round % 9) as usize);
            let _ = (parse(&bytes, false), parse(&bytes, true));
        }
    }
}
