//! Sockets that only send, and never make the caller wait: UDP and unix ones.
//!
//! Every socket is non-blocking and closes on exec, and is an `ours::Fd`, so a forked child can
//! close its copy. A write to a peer that is gone is an error (EPIPE), never a SIGPIPE.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::kept::owned;
use crate::ours::Fd;

/// The type of a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unix {
    /// SOCK_DGRAM.
    Datagram,
    /// SOCK_STREAM.
    Stream,
}

/// A UDP socket connected to `to`, so that refusals (ICMP) come back as errors. Two or three
/// syscalls. Errors: no route, no descriptors.
pub fn udp(to: SocketAddr) -> io::Result<Fd> {
    let socket = match to {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

/// A unix socket connected to `path`; a path that begins with `@` is a name in the abstract
/// namespace. Never waits: a stream whose listener's backlog is full is EAGAIN. Errors: ENOENT and
/// ECONNREFUSED without a listener, EPROTOTYPE when the socket there is of the other kind, EINVAL
/// for a path of more than 107 bytes.
pub fn unix(path: &str, kind: Unix) -> io::Result<Fd> {
    let kind = match kind {
        Unix::Datagram => libc::SOCK_DGRAM,
        Unix::Stream => libc::SOCK_STREAM,
    };
    // SAFETY: an all-zero sockaddr_un is a valid value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let name = path.as_bytes();
    // One byte is left for the NUL that ends a path.
    if name.is_empty() || name.len() >= address.sun_path.len() || name.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let mut len = size_of::<libc::sa_family_t>() + name.len() + 1;
    if name[0] == b'@' {
        address.sun_path[0] = 0;
        len -= 1;
    }
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers.
    let fd = owned(unsafe { libc::socket(libc::AF_UNIX, kind | flags, 0) })?;
    let at = (&raw const address).cast();
    // SAFETY: `address` is a whole sockaddr_un and `len` lies within it; the descriptor is open.
    match unsafe { libc::connect(fd.as_raw_fd(), at, len as libc::socklen_t) } {
        0 => Ok(fd),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends from the start of `bytes`; how many went (all of them on a datagram socket). One syscall.
/// Errors: EAGAIN when it would have to wait, EBADF when the host has closed it, EPIPE,
/// ECONNREFUSED, EMSGSIZE, ENOBUFS and so on.
pub fn send(fd: &Fd, bytes: &[u8]) -> io::Result<usize> {
    fd.check()?;
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    loop {
        // SAFETY: `bytes` is readable for its whole length; the descriptor is open.
        let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        match usize::try_from(n) {
            Ok(n) => return Ok(n),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
        }
    }
}

/// The pending error of the socket, if any, which is cleared. One syscall.
pub fn pending_error(fd: &Fd) -> Option<io::Error> {
    let mut errno: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let out = (&raw mut errno).cast();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: `out` has room for the `len` bytes the kernel may write; the descriptor is open.
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, out, &mut len) };
    (done == 0 && errno != 0).then(|| io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    fn errno<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|e| e.raw_os_error())
    }

    fn place(name: &str) -> String {
        let path = std::env::temp_dir().join(format!("send-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path.to_str().expect("a plain path").to_owned()
    }

    #[test]
    fn a_udp_port_where_nobody_listens_says_so_after_the_send() {
        let closed = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("loopback");
        let fd = udp(closed).expect("connects");
        assert_eq!(send(&fd, b"x").expect("leaves"), 1);
        let waiting = (0..1000).find_map(|_| pending_error(&fd));
        assert_eq!(waiting.and_then(|e| e.raw_os_error()), Some(libc::ECONNREFUSED));
        assert!(pending_error(&fd).is_none(), "it is reported once");
    }

    #[test]
    fn unix_sockets_of_both_kinds_are_distinguished() {
        let (gram, stream) = (place("gram"), place("stream"));
        let receiver = UnixDatagram::bind(&gram).expect("binds");
        let _listener = UnixListener::bind(&stream).expect("binds");
        let fd = unix(&gram, Unix::Datagram).expect("connects");
        assert_eq!(send(&fd, b"hello").expect("goes"), 5);
        let mut got = [0; 8];
        assert_eq!(receiver.recv(&mut got).expect("is there"), 5);
        assert_eq!(errno(unix(&stream, Unix::Datagram)), Some(libc::EPROTOTYPE));
        assert_eq!(errno(unix(&gram, Unix::Stream)), Some(libc::EPROTOTYPE));
        drop(receiver);
        assert_eq!(errno(send(&fd, b"x")), Some(libc::ECONNREFUSED));
        for path in [&gram, &stream] {
            std::fs::remove_file(path).expect("is there");
        }
        assert_eq!(errno(unix(&gram, Unix::Stream)), Some(libc::ENOENT));
        assert_eq!(errno(unix(&"x".repeat(108), Unix::Stream)), Some(libc::EINVAL));
        assert_eq!(errno(unix("", Unix::Stream)), Some(libc::EINVAL));
    }

    #[test]
    fn an_abstract_name_is_one_with_an_at() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("dashcam-send-{}", std::process::id());
        let at = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("short");
        let receiver = UnixDatagram::bind_addr(&at).expect("binds");
        let fd = unix(&format!("@{name}"), Unix::Datagram).expect("connects");
        assert_eq!(send(&fd, b"x").expect("goes"), 1);
        assert_eq!(receiver.recv(&mut [0; 8]).expect("is there"), 1);
    }
}
