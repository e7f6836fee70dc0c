//! What a file descriptor of this process leads to: a peer's address, a file, a pipe.
//!
//! Numbers are those of the host's table; a thread with another table (`ours`) uses links in /proc,
//! and for a socket a copy that is closed right after.
//!
//! How it works: `fstat` gives the sort; a socket is asked for its family, type and addresses;
//! everything else has a name in /proc/self/fd. Only calls that read are made, none of them can
//! block, and the descriptor's position, flags and buffers stay as they are.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | fstat | sort of thing | any kernel |
//! | getsockopt SO_DOMAIN, SO_TYPE, SO_ACCEPTCONN | socket kind, listening | 2.6.32 |
//! | getpeername, getsockname | "tcp 127.0.0.1:5432", peer port, connecting | any kernel |
//! | /proc/sys/net/ipv4/ip_local_port_range | which connections were most likely accepted | 2.6 |
//! | readlink /proc/self/fd/N | path, "pipe:\[123\]", "anon_inode:\[eventpoll\]" | any kernel |
//!
//! What it promises: an answer in 2-4 us, or None when nothing is open under that number. What it
//! does not: that the answer is still about the same thing. Another thread may close the descriptor
//! and get the number again between the sample of a blocked thread and this call; a caller that
//! calls right away is wrong rarely, never harmfully.
//!
//! The socket does not have the target of a connection still being made: `connecting::peer` finds
//! it, at more cost; `calls::connect_target` reads it from the arguments of a blocked `connect`,
//! and `calls::sent_to` that of a datagram that is sent to an address.

use std::cell::Cell;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;

use crate::ours;

/// What kind of thing a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdKind {
    /// Stream socket of the internet families.
    TcpSocket,
    /// Datagram socket of the internet families.
    UdpSocket,
    /// Unix socket of any type.
    UnixSocket,
    /// Pipe or named pipe.
    Pipe,
    /// Regular file, directory or block device.
    File,
    /// Terminal: console, serial line or pseudo terminal.
    Tty,
    /// epoll instance.
    Epoll,
    /// eventfd.
    EventFd,
    /// timerfd.
    Timer,
    /// pidfd: readable once its process has ended.
    Process,
    /// Anything else: other sockets, other devices, inotify, io_uring, ...
    Other,
}

/// What a descriptor leads to, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdInfo {
    /// The kind.
    pub kind: FdKind,
    /// One line: "tcp 127.0.0.1:5432", "unix /run/x.sock", "pipe:\[123\]", "/path/file". Of a
    /// datagram socket without a peer "udp, own port 47880".
    pub text: String,
    /// Port of the peer, for a connected internet socket.
    pub peer_port: Option<u16>,
    /// A stream socket that has no peer yet and does not listen.
    pub connecting: bool,
}

/// The coarse sort, from one `fstat`, without allocating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Socket of any family.
    Socket,
    /// Pipe or named pipe.
    Pipe,
    /// Regular file, directory or block device.
    File,
    /// Terminal.
    Tty,
    /// Everything else.
    Other,
}

/// The sort of thing behind `fd`. One syscall, 0.2 us. None when nothing is open there.
pub fn sort(fd: i32) -> Option<Sort> {
    /// Character devices that are terminals: the old and the multiplexed ones, serial lines, the
    /// eight majors of pseudo terminals, USB serial, ARM serial, hypervisor console.
    const TERMINALS: [RangeInclusive<u32>; 5] = [4..=5, 136..=143, 188..=188, 204..=204, 229..=229];
    let stat = stat(fd)?;
    Some(match stat.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Sort::Socket,
        libc::S_IFIFO => Sort::Pipe,
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Sort::File,
        libc::S_IFCHR => {
            let major = libc::major(stat.st_rdev);
            match TERMINALS.iter().any(|range| range.contains(&major)) {
                true => Sort::Tty,
                false => Sort::Other,
            }
        }
        _ => Sort::Other,
    })
}

/// What the host's descriptor leads to. From a thread with a table of ours by its link in /proc (1
/// us), which does not keep the file open: the host's `close` ends it as always.
pub(crate) fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: an all-zero stat is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let done = if ours::is_apart() {
        let mut path = [0u8; 32];
        // The NUL behind it is there already.
        write!(&mut path[..31], "/proc/self/fd/{fd}").ok()?;
        // SAFETY: the path ends with a NUL; stat only writes into `stat`.
        unsafe { libc::stat(path.as_ptr().cast(), &mut stat) }
    } else {
        // SAFETY: fstat only writes into `stat`.
        unsafe { libc::fstat(fd, &mut stat) }
    };
    (done == 0).then_some(stat)
}

/// The inode behind the host's `fd`: distinguishes sockets and pipes that are open at the same
/// time.
pub(crate) fn inode(fd: i32) -> Option<u64> {
    stat(fd).map(|stat| stat.st_ino)
}

/// What `fd` leads to. Allocates the text. None when nothing is open there.
pub fn describe(fd: i32) -> Option<FdInfo> {
    let sort = sort(fd)?;
    if sort == Sort::Socket {
        let inode = inode(fd)?;
        return ours::with_hosts(fd, |fd| socket(fd, inode));
    }
    let text = std::fs::read_link(format!("/proc/self/fd/{fd}"))
        .map(|path| String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned())
        .unwrap_or_default();
    let kind = match (sort, text.as_str()) {
        (Sort::Pipe, _) => FdKind::Pipe,
        (Sort::File, _) => FdKind::File,
        (Sort::Tty, _) => FdKind::Tty,
        (_, "anon_inode:[eventpoll]") => FdKind::Epoll,
        (_, "anon_inode:[eventfd]") => FdKind::EventFd,
        (_, "anon_inode:[timerfd]") => FdKind::Timer,
        (_, "anon_inode:[pidfd]") => FdKind::Process,
        _ => FdKind::Other,
    };
    Some(FdInfo { kind, text, peer_port: None, connecting: false })
}

/// Whether `fd` is a stream socket that has no peer yet and does not listen.
pub fn is_connecting(fd: i32) -> bool {
    let ask = |fd| {
        option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
            && option(fd, libc::SO_ACCEPTCONN) != Some(1)
            && matches!(address(fd, libc::getpeername), Err(libc::ENOTCONN))
    };
    ours::with_hosts(fd, ask).unwrap_or(false)
}

/// The own address of a TCP connection that was most likely accepted: its peer's port is an
/// ephemeral one (given by the kernel when none is requested), and its own is not. None for all
/// other things.
pub fn accepted_at(fd: i32) -> Option<String> {
    ours::with_hosts(fd, accepted).flatten()
}

fn accepted(fd: i32) -> Option<String> {
    let internet = matches!(option(fd, libc::SO_DOMAIN), Some(libc::AF_INET | libc::AF_INET6));
    let stream = internet && option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM);
    let peer = stream.then(|| address(fd, libc::getpeername).ok()).flatten()?;
    let own = address(fd, libc::getsockname).ok()?;
    let given = given_ports();
    (given.contains(&peer.port?) && !given.contains(&own.port?)).then_some(own.text)?
}

/// The kernel's ephemeral ports; read once a thread.
fn given_ports() -> RangeInclusive<u16> {
    const USUAL: (u16, u16) = (32768, 60999);
    thread_local! {
        static GIVEN: Cell<Option<(u16, u16)>> = const { Cell::new(None) };
    }
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
        let mut words = text.split_ascii_whitespace().map(str::parse);
        Some((words.next()?.ok()?, words.next()?.ok()?))
    };
    let (first, last) = GIVEN.get().unwrap_or_else(|| read().unwrap_or(USUAL));
    GIVEN.set(Some((first, last)));
    first..=last
}

fn socket(fd: i32, inode: u64) -> FdInfo {
    let family = option(fd, libc::SO_DOMAIN).unwrap_or(-1);
    let stream = option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM);
    let (kind, word) = match (family, option(fd, libc::SO_TYPE)) {
        (libc::AF_INET | libc::AF_INET6, Some(libc::SOCK_STREAM)) => (FdKind::TcpSocket, "tcp"),
        (libc::AF_INET | libc::AF_INET6, Some(libc::SOCK_DGRAM)) => (FdKind::UdpSocket, "udp"),
        (libc::AF_UNIX, _) => (FdKind::UnixSocket, "unix"),
        _ => (FdKind::Other, "socket"),
    };
    let peer = address(fd, libc::getpeername);
    let local = address(fd, libc::getsockname).ok();
    let listening = option(fd, libc::SO_ACCEPTCONN) == Some(1);
    let connecting = stream && !listening && peer == Err(libc::ENOTCONN);
    let named = |a: &Address| a.text.clone().filter(|text| !text.is_empty());
    // A socket accepted on a unix path has a nameless peer: its own name is the known one.
    let text = match (&peer, &local) {
        _ if kind == FdKind::Other => format!("{word} of family {family}"),
        (Ok(peer), local) => match named(peer).or_else(|| local.as_ref().and_then(named)) {
            Some(text) => format!("{word} {text}"),
            None => format!("{word} (unnamed)"),
        },
        (Err(_), local) => {
            let to = connecting && kind == FdKind::TcpSocket;
            if let Some(to) = to.then(|| crate::connecting::peer(inode, family)).flatten() {
                return FdInfo { kind, text: format!("tcp {to}"), peer_port: None, connecting };
            }
            if kind == FdKind::UdpSocket {
                // Its own address in place of a peer's would be mistaken for one.
                let own = local.as_ref().and_then(|own| own.port).filter(|port| *port != 0);
                let own =
                    own.map_or("no port of its own".to_owned(), |port| format!("own port {port}"));
                return FdInfo { kind, text: format!("udp, {own}"), peer_port: None, connecting };
            }
            let state = match (listening, connecting) {
                (true, _) => " listening",
                (_, true) => " not connected, from",
                _ => " from",
            };
            let at = local.as_ref().and_then(named);
            format!("{word}{state} {}", at.as_deref().unwrap_or("(unnamed)"))
        }
    };
    FdInfo { kind, text, peer_port: peer.ok().and_then(|peer| peer.port), connecting }
}

fn option(fd: i32, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let out = (&raw mut value).cast();
    // SAFETY: `out` has room for the `len` bytes the kernel may write.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, out, &mut len) };
    (done == 0).then_some(value)
}

/// An address in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// None for a family without words here.
    pub(crate) text: Option<String>,
    /// Port, for the internet families.
    pub(crate) port: Option<u16>,
}

type NameCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

/// Asks the kernel for one end of a socket; the error is errno.
fn address(fd: i32, call: NameCall) -> Result<Address, i32> {
    // SAFETY: an all-zero sockaddr_storage is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&storage) as libc::socklen_t;
    // SAFETY: `storage` has room for the `len` bytes the kernel may write.
    if unsafe { call(fd, (&raw mut storage).cast(), &mut len) } != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(errno.unwrap_or(0));
    }
    let len = (len as usize).min(size_of_val(&storage));
    // SAFETY: the storage was zeroed, so every byte of it has a value, and `len` is within it.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const storage).cast::<u8>(), len) };
    Ok(in_words(bytes))
}

/// A `struct sockaddr` in words: "127.0.0.1:53", "\[::1\]:80", "/run/x.sock", "@abstract".
pub(crate) fn in_words(bytes: &[u8]) -> Address {
    let family = bytes.first_chunk().map(|f| u16::from_ne_bytes(*f));
    let port = bytes.get(2..4).map(|p| u16::from_be_bytes([p[0], p[1]]));
    let ip = match family.map(libc::c_int::from) {
        Some(libc::AF_INET) => {
            let ip = bytes.get(4..).and_then(|b| b.first_chunk::<4>());
            ip.map(|b| IpAddr::V4(Ipv4Addr::from(*b)))
        }
        Some(libc::AF_INET6) => {
            let ip = bytes.get(8..).and_then(|b| b.first_chunk::<16>());
            ip.map(|b| IpAddr::V6(Ipv6Addr::from(*b)).to_canonical())
        }
        Some(libc::AF_UNIX) => return Address { text: Some(unix_name(&bytes[2..])), port: None },
        _ => None,
    };
    let both = ip.zip(port);
    Address {
        text: both.map(|(ip, port)| SocketAddr::new(ip, port).to_string()),
        port: both.map(|(_, port)| port),
    }
}

/// A path ends at NUL; an abstract name begins with one and has the rest of the bytes.
fn unix_name(path: &[u8]) -> String {
    match path.split_first() {
        None => String::new(),
        Some((0, name)) if !name.is_empty() => {
            let end = name.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            format!("@{}", String::from_utf8_lossy(&name[..end]))
        }
        _ => {
            let path = path.split(|b| *b == 0).next().unwrap_or_default();
            String::from_utf8_lossy(path).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_put_in_words_and_short_ones_survive() {
        let family = |f: libc::c_int| (f as u16).to_ne_bytes().to_vec();
        let v4 = [family(libc::AF_INET), vec![0x15, 0x38, 127, 0, 0, 1, 0, 0]].concat();
        assert_eq!(in_words(&v4).text.as_deref(), Some("127.0.0.1:5432"));
        assert_eq!(in_words(&v4).port, Some(5432));
        let mut v6 = [family(libc::AF_INET6), vec![0, 80], vec![0; 24]].concat();
        v6[23] = 1;
        assert_eq!(in_words(&v6).text.as_deref(), Some("[::1]:80"));
        let path = [family(libc::AF_UNIX), b"/run/x.sock\0".to_vec()].concat();
        assert_eq!(in_words(&path).text.as_deref(), Some("/run/x.sock"));
        let hidden = [family(libc::AF_UNIX), b"\0name".to_vec()].concat();
        assert_eq!(in_words(&hidden).text.as_deref(), Some("@name"));
        for full in [&v4, &v6, &path, &hidden] {
            for cut in 0..full.len() {
                in_words(&full[..cut]);
            }
        }
    }

    #[test]
    fn a_number_with_nothing_behind_it_is_none() {
        assert_eq!(describe(-1), None);
        assert_eq!(describe(i32::MAX), None);
        assert!(!is_connecting(-1));
    }
}
