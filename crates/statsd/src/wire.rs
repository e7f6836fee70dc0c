//! One connection: UDP, unix datagrams, or a unix stream.
//!
//! | | a packet is |
//! | --- | --- |
//! | UDP, unix datagram | a datagram |
//! | unix stream | its length in 4 bytes, little endian, then its bytes, as DogStatsD reads it |
//!
//! What it promises: `send` never waits. On a stream it may have written a part when it returns
//! WouldBlock; it continues there when it is called again with the same packet. A connection that
//! is dropped within a packet leaves the receiver with a cut frame, which it throws away.
//!
//! UDP: after each datagram the socket is asked for an error, since a refusal by this machine is
//! there at once. One datagram a call, on purpose: `sendmmsg` swallows the refusals (decision
//! 0009).

use std::io;
use std::net::SocketAddr;

use sys::ours::Fd;
use sys::send::{self, Unix};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Udp,
    Datagram,
    Stream,
}

/// An open connection.
pub(crate) struct Wire {
    fd: Fd,
    kind: Kind,
    /// Stream: the frame being written; empty between frames.
    frame: Vec<u8>,
    /// How many bytes of it were written.
    at: usize,
}

/// The result of a send.
pub(crate) enum Sent {
    /// The kernel has it.
    Whole,
    /// This packet did not go.
    Failed(io::Error),
    /// This packet did not go, because an earlier one was refused.
    RefusedBefore(io::Error),
}

impl Wire {
    /// To a host. Errors: no route, no descriptors.
    pub(crate) fn udp(to: SocketAddr) -> io::Result<Wire> {
        Ok(Wire::new(send::udp(to)?, Kind::Udp))
    }

    /// To the unix socket at `path`, of whichever kind it is.
    pub(crate) fn unix(path: &str) -> io::Result<Wire> {
        match send::unix(path, Unix::Datagram) {
            Ok(fd) => Ok(Wire::new(fd, Kind::Datagram)),
            Err(e) if e.raw_os_error() == Some(libc::EPROTOTYPE) => Wire::unix_stream(path),
            Err(error) => Err(error),
        }
    }

    /// To the unix stream socket at `path`.
    pub(crate) fn unix_stream(path: &str) -> io::Result<Wire> {
        Ok(Wire::new(send::unix(path, Unix::Stream)?, Kind::Stream))
    }

    fn new(fd: Fd, kind: Kind) -> Wire {
        Wire { fd, kind, frame: Vec::new(), at: 0 }
    }

    /// Whether a datagram that went may still be refused.
    pub(crate) fn is_udp(&self) -> bool {
        self.kind == Kind::Udp
    }

    /// Sends a packet, or what is left of it.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Sent {
        let result = match self.kind {
            Kind::Stream => self.stream(packet),
            Kind::Udp | Kind::Datagram => send::send(&self.fd, packet).map(drop),
        };
        match result {
            Ok(()) if self.is_udp() => match send::pending_error(&self.fd) {
                None => Sent::Whole,
                Some(error) => Sent::Failed(error),
            },
            Ok(()) => Sent::Whole,
            // Only an answer to an earlier datagram can refuse this one before it leaves.
            Err(e) if self.is_udp() && e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                Sent::RefusedBefore(e)
            }
            Err(error) => Sent::Failed(error),
        }
    }

    fn stream(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.frame.is_empty() {
            self.frame.extend_from_slice(&(packet.len() as u32).to_le_bytes());
            self.frame.extend_from_slice(packet);
            self.at = 0;
        }
        while self.at < self.frame.len() {
            self.at += send::send(&self.fd, &self.frame[self.at..])?;
        }
        self.frame.clear();
        Ok(())
    }
}
