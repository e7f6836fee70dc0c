//! The peer of a TCP connection that is still being made.
//!
//! How it works: the socket itself does not have it before the connection is made (getpeername says
//! ENOTCONN), and a program that gives its connections a time limit does not wait in `connect`,
//! whose arguments would have it, but in `poll`. The kernel's list of sockets has it: netlink
//! (sock_diag) returns the sockets that have sent their SYN and no more; the inode of the
//! descriptor selects one.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | SOCK_DIAG_BY_FAMILY, states SYN_SENT | peer address | 3.3, inet_diag, tcp_diag; unprivileged |
//!
//! What it promises: nothing blocks; `MOST_REPLIES` answers of 16 KiB are read at most, and the
//! list is requested once in `BETWEEN` at most, as the kernel walks its table of all sockets for it
//! (0.4 ms of CPU with room for 262,144); the last `REMEMBERED` are kept by inode. What it does
//! not: an answer where sock_diag is missing or refused, and for the socket of another network
//! namespace than the caller's.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Least time between two walks of the kernel's table.
const BETWEEN: Duration = Duration::from_millis(100);
const MOST_REPLIES: usize = 8;
/// Addresses kept by inode.
const REMEMBERED: usize = 16;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Its number among the states.
const SYN_SENT: u32 = 2;
/// `struct nlmsghdr`, and that with `struct inet_diag_req_v2`.
const HEAD: usize = 16;
const REQUEST: usize = HEAD + 56;
/// `struct inet_diag_msg`.
const ANSWER: usize = 72;

#[derive(Default)]
struct Asked {
    at: Option<Instant>,
    known: Vec<(u64, SocketAddr)>,
}

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::default();
}

/// The peer that the socket with this inode is being connected to; None unless its SYN is under
/// way. `family`: AF_INET or AF_INET6. Cost: a look-up, or the kernel's walk; see above.
pub fn peer(inode: u64, family: libc::c_int) -> Option<SocketAddr> {
    ASKED.with_borrow_mut(|asked| {
        if let Some((_, to)) = asked.known.iter().find(|(known, _)| *known == inode) {
            return Some(*to);
        }
        let now = Instant::now();
        if asked.at.is_some_and(|at| now.duration_since(at) < BETWEEN) {
            return None;
        }
        asked.at = Some(now);
        // The inode of a connection that is made or given up may go to another socket.
        asked.known.clear();
        ask(family as u8, &mut asked.known)?;
        let own = asked.known.iter().find(|(known, _)| *known == inode).map(|(_, to)| *to);
        let spare = asked.known.len().saturating_sub(REMEMBERED);
        asked.known.drain(..spare);
        own
    })
}

/// Adds the connections of this family that are under way, by inode. None: the kernel refuses.
fn ask(family: u8, known: &mut Vec<(u64, SocketAddr)>) -> Option<()> {
    const NETLINK_SOCK_DIAG: libc::c_int = 4;
    let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: opens a descriptor and touches no memory of ours.
    let raw = unsafe { libc::socket(libc::AF_NETLINK, flags, NETLINK_SOCK_DIAG) };
    if raw < 0 {
        return None;
    }
    // SAFETY: `raw` was opened just now and has no other owner.
    let link = unsafe { OwnedFd::from_raw_fd(raw) };
    let request = request(family);
    // SAFETY: `request` is readable for the length given.
    let sent = unsafe { libc::send(link.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent != request.len() as isize {
        return None;
    }
    let mut buf = [0u8; 16 * 1024];
    for _ in 0..MOST_REPLIES {
        // SAFETY: `buf` is writable for the length given.
        let got = unsafe { libc::recv(link.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), 0) };
        let got = usize::try_from(got).ok().filter(|got| *got > 0)?;
        if !collect(&buf[..got.min(buf.len())], known) {
            break;
        }
    }
    Some(())
}

fn request(family: u8) -> [u8; REQUEST] {
    const NLM_F_REQUEST_DUMP: u16 = 0x301;
    let mut out = [0u8; REQUEST];
    out[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    out[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    out[HEAD] = family;
    out[HEAD + 1] = libc::IPPROTO_TCP as u8;
    out[HEAD + 4..HEAD + 8].copy_from_slice(&(1u32 << SYN_SENT).to_ne_bytes());
    out
}

/// Adds the sockets of one answer; returns whether more answers follow.
fn collect(mut bytes: &[u8], known: &mut Vec<(u64, SocketAddr)>) -> bool {
    while let Some(head) = bytes.first_chunk::<HEAD>() {
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let sort = u16::from_ne_bytes([head[4], head[5]]);
        if sort != SOCK_DIAG_BY_FAMILY || length < HEAD || length > bytes.len() {
            // NLMSG_DONE, NLMSG_ERROR, or nothing that was asked for.
            return false;
        }
        known.extend(bytes[HEAD..length].first_chunk::<ANSWER>().and_then(peer_of));
        // Messages begin at multiples of four.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// Inode and peer of a `struct inet_diag_msg`.
fn peer_of(body: &[u8; ANSWER]) -> Option<(u64, SocketAddr)> {
    let inode = u32::from_ne_bytes([body[68], body[69], body[70], body[71]]);
    let port = u16::from_be_bytes([body[6], body[7]]);
    let ip = match libc::c_int::from(body[0]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(*body[24..].first_chunk::<4>()?)),
        libc::AF_INET6 => {
            IpAddr::V6(Ipv6Addr::from(*body[24..].first_chunk::<16>()?)).to_canonical()
        }
        _ => return None,
    };
    Some((u64::from(inode), SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(inode: u32) -> Vec<u8> {
        let mut out = vec![0u8; HEAD + ANSWER];
        out[0..4].copy_from_slice(&((HEAD + ANSWER) as u32).to_ne_bytes());
        out[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        let body = &mut out[HEAD..];
        body[0] = libc::AF_INET as u8;
        body[6..8].copy_from_slice(&5432u16.to_be_bytes());
        body[24..28].copy_from_slice(&[10, 0, 0, 7]);
        body[68..72].copy_from_slice(&inode.to_ne_bytes());
        out
    }

    #[test]
    fn connections_under_way_are_found_by_inode_and_no_bytes_panic() {
        let parsed = |bytes: &[u8]| {
            let mut known = Vec::new();
            (collect(bytes, &mut known), known)
        };
        let to = |inode| (inode, "10.0.0.7:5432".parse().unwrap());
        let both = [answer(4), answer(5)].concat();
        assert_eq!(parsed(&both), (true, vec![to(4), to(5)]));
        let mut done = answer(6);
        done[4..6].copy_from_slice(&3u16.to_ne_bytes());
        assert_eq!(parsed(&[answer(4), done].concat()), (false, vec![to(4)]));
        for cut in 0..both.len() {
            assert!(parsed(&both[..cut]).1.len() < 2, "{cut}");
        }
    }
}
