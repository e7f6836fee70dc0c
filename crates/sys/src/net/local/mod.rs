//! Unix sockets between processes of one user: where they lie, listening, asking.
//!
//! How it works: a listener is bound and made to listen under a hidden name, then renamed to
//! `<pid>.sock`, so a socket that can be seen answers. Its folder is one that only this user can
//! enter (`folder`); the kernel is asked for the client's user (SO_PEERCRED) all the same.
//! Descriptors are non-blocking, close on exec, and are closed in forked children (`ours`).
//!
//! What it promises: no call here blocks but `wait`, and no write raises SIGPIPE. What it does not:
//! processes in another pid namespace that share the folder may have the same number; the second
//! one's socket is called `<pid>.1.sock`, and so on.

mod folder;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use folder::{folder, folders, folders_of, own_uid};

use crate::ours::Fd;
use crate::whole_file::rename_new;

/// Names tried for one process number.
const NAMES: u32 = 10;

/// A listening socket, removed by `remove`.
pub struct Listener {
    fd: Fd,
    path: PathBuf,
}

impl Listener {
    /// Listens in `folder` as process `pid`. Errors say which path and why.
    pub fn open(folder: &Path, pid: u32) -> Result<Listener, String> {
        // Another namespace may have a process of this number that starts at this moment.
        let hidden = folder.join(format!(".{pid}.{:08x}.new", crate::random::number() as u32));
        let wrong = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let listener = UnixListener::bind(&hidden).map_err(|e| wrong(&hidden, e))?;
        listener.set_nonblocking(true).map_err(|e| wrong(&hidden, e))?;
        for number in 0..NAMES {
            let name = match number {
                0 => format!("{pid}.sock"),
                n => format!("{pid}.{n}.sock"),
            };
            let path = folder.join(name);
            if is_alive(&path) {
                continue;
            }
            // A dead process's.
            if let Some(_turn) = turn_to_remove(folder).filter(|_| is_dead(&path)) {
                let _ = std::fs::remove_file(&path);
            }
            return match rename_new(&hidden, &path) {
                Ok(()) => Ok(Listener { fd: OwnedFd::from(listener).into(), path }),
                // Another one came first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    let _ = std::fs::remove_file(&hidden);
                    Err(wrong(&path, error))
                }
            };
        }
        let _ = std::fs::remove_file(&hidden);
        Err(format!("{}: {NAMES} processes of number {pid} listen there", folder.display()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A client, when one waits.
    pub fn accept(&self) -> io::Result<Fd> {
        accept(&self.fd)
    }

    /// Whether it is still there: the host may have closed it. One system call.
    pub fn is_intact(&self) -> bool {
        self.fd.is_intact()
    }

    /// Accepts no more clients, wakes a thread that waits for one, and removes the file.
    pub fn remove(&self) {
        shut(&self.fd);
        let _ = std::fs::remove_file(&self.path);
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A client of a listening socket of any family, when one waits. It is non-blocking.
pub fn accept(listener: &Fd) -> io::Result<Fd> {
    listener.check()?;
    // SAFETY: NULL for the address is allowed; the descriptor is ours and open.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// Makes a listening socket accept no more clients, and wakes a thread that waits for one.
pub fn shut(listener: &Fd) {
    if !listener.is_intact() {
        return;
    }
    // SAFETY: shutdown takes no pointers; the descriptor is ours and open.
    unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Whether a process listens at `path` (or could: only a refusal proves that none does).
pub fn is_alive(path: &Path) -> bool {
    match connect(path) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        }
    }
}

/// Connects without waiting: a listener whose queue is full is an error (EAGAIN). The stream is
/// non-blocking.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all zeroes is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        let most = address.sun_path.len() - 1;
        let text =
            format!("{}: found {} bytes, wanted at most {most}", path.display(), bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: no pointers; the descriptor is checked before it is owned.
    let fd = unsafe {
        libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; it has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = std::mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is whole, with a NUL behind its path, and `length` is its size.
    let done = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) };
    match done {
        0 => Ok(UnixStream::from(fd)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process (0: in no namespace of ours) and user at the other end of a connected socket.
pub fn peer(fd: &impl AsRawFd) -> io::Result<(u32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `found`.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut length,
        )
    };
    match done {
        0 => Ok((found.pid.max(0) as u32, found.uid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads what is there. 0: the other end has closed.
pub fn read(fd: &Fd, into: &mut [u8]) -> io::Result<usize> {
    fd.check()?;
    // SAFETY: `into` is ours and writable for its whole length.
    let got = unsafe {
        libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Writes what there is room for.
pub fn write(fd: &Fd, bytes: &[u8]) -> io::Result<usize> {
    fd.check()?;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is readable for its whole length.
    let put = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(put).map_err(|_| io::Error::last_os_error())
}

/// A descriptor to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The descriptor; negative: none.
    pub fd: RawFd,
    /// Waits for room to write, not for something to read.
    pub to_write: bool,
    /// Set by `wait`: it is ready, or broken.
    pub ready: bool,
}

/// Waits until one of `list` is ready, `timeout_ms` at most (negative: for ever). A signal ends it
/// early.
pub fn wait(list: &mut [Waiting], timeout_ms: i32) {
    let mut polled: Vec<libc::pollfd> = list
        .iter()
        .map(|w| libc::pollfd {
            fd: w.fd,
            events: if w.to_write { libc::POLLOUT } else { libc::POLLIN },
            revents: 0,
        })
        .collect();
    // SAFETY: the list is ours and as long as it says.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    for (waiting, polled) in list.iter_mut().zip(&polled) {
        waiting.ready = polled.revents != 0;
    }
}

/// The sockets in `folder`: process number (as the file says) and path, by number.
pub fn sockets(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
        let pid = name.split('.').next()?.parse().ok()?;
        Some((pid, path))
    };
    let mut found: Vec<_> = entries.flatten().filter_map(|entry| of(entry.path())).collect();
    found.sort();
    found
}

/// Removes the sockets in `folder` without a listener; at most `most` are tried. Returns how many
/// were removed: none while another process does so.
pub fn tidy(folder: &Path, most: usize) -> usize {
    let Some(_turn) = turn_to_remove(folder) else { return 0 };
    let dead = sockets(folder).into_iter().take(most).filter(|(_, path)| is_dead(path));
    let removed = dead.filter(|(_, path)| std::fs::remove_file(path).is_ok()).count();
    // Hidden ones of processes that were killed in between. A young one may not listen yet.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| is_hidden(path)).take(most) {
        let since = std::fs::symlink_metadata(&path).and_then(|found| found.modified());
        let is_old = since.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > HIDDEN_AT_MOST));
        if is_old && is_dead(&path) {
            let _ = std::fs::remove_file(&path);
        }
    }
    removed
}

/// Only the process that has this removes sockets, and nobody puts one in the place of another:
/// what it finds dead is still that when it removes it.
struct Turn(File);

impl Drop for Turn {
    fn drop(&mut self) {
        // A child that was forked meanwhile has the folder open, too, and would keep the lock.
        // SAFETY: the descriptor is open for as long as the file is.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// None: another one has it.
fn turn_to_remove(folder: &Path) -> Option<Turn> {
    let file = File::open(folder).ok()?;
    // SAFETY: as above.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    (locked == 0).then_some(Turn(file))
}

/// A socket has a hidden name for less than this.
const HIDDEN_AT_MOST: Duration = Duration::from_secs(60);

/// Whether it is the name that a socket has at first.
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with('.') && name.ends_with(".new")
}

fn is_dead(path: &Path) -> bool {
    let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    connect(path).err().is_some_and(refused)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::DirBuilderExt;

    use super::*;

    fn private(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("dashcam-local-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new().mode(0o700).create(&path).expect("temp dir is writable");
        path
    }

    #[test]
    fn a_socket_answers_under_its_number_and_is_gone_when_removed() {
        let folder = private("answers");
        let listener = Listener::open(&folder, 4711).expect("listens");
        assert_eq!(listener.path().file_name(), Some("4711.sock".as_ref()));
        assert_eq!(sockets(&folder).len(), 1);
        let mut client = connect(listener.path()).expect("somebody listens");
        client.write_all(b"hello").expect("there is room");
        let server = listener.accept().expect("a client waits");
        assert_eq!(peer(&server).expect("connected"), (std::process::id(), own_uid()));
        let mut got = [0; 16];
        assert_eq!(read(&server, &mut got).expect("data is there"), 5);
        assert_eq!(read(&server, &mut got).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(client);
        assert!(write(&server, b"too late").is_err(), "and no signal");
        listener.remove();
        let mut list = [Waiting { fd: listener.as_raw_fd(), to_write: false, ready: false }];
        wait(&mut list, -1);
        assert!(list[0].ready, "who waits is woken");
        assert!(sockets(&folder).is_empty() && !is_alive(listener.path()));
    }

    #[test]
    fn a_live_socket_of_the_same_number_is_left_alone_and_a_dead_one_replaced() {
        let folder = private("twins");
        let first = Listener::open(&folder, 7).expect("listens");
        let second = Listener::open(&folder, 7).expect("listens beside it");
        assert_eq!(second.path().file_name(), Some("7.1.sock".as_ref()));
        assert_eq!(tidy(&folder, 100), 0, "both live");
        drop(first);
        assert_eq!(tidy(&folder, 100), 1, "closed without being removed, as by a kill");
        let third = Listener::open(&folder, 7).expect("listens");
        assert_eq!(third.path().file_name(), Some("7.sock".as_ref()));
        drop(third);
        let fourth = Listener::open(&folder, 7).expect("listens");
        assert_eq!(fourth.path().file_name(), Some("7.sock".as_ref()), "the dead one gave way");
    }

    /// As processes of several pid namespaces do.
    #[test]
    fn those_of_one_number_that_start_at_once_have_a_socket_each() {
        const EACH: usize = 4;
        let folder = private("at-once");
        for _ in 0..testkit::count("DASHCAM_LISTENERS", 50) {
            // One that a kill has left.
            drop(Listener::open(&folder, 7).expect("listens"));
            let together = std::sync::Barrier::new(EACH);
            let open = || {
                together.wait();
                tidy(&folder, 100);
                Listener::open(&folder, 7).expect("listens")
            };
            let listeners: Vec<Listener> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..EACH).map(|_| scope.spawn(open)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            for listener in &listeners {
                let _client = connect(listener.path()).expect("it has its name");
                listener.accept().expect("the client is its own");
            }
            listeners.iter().for_each(Listener::remove);
            let left = std::fs::read_dir(&folder).expect("a folder").count();
            assert_eq!(left, 0, "nothing is left behind");
        }
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_hidden_name_that_a_kill_left_goes_when_it_is_old() {
        let folder = private("hidden");
        drop(UnixListener::bind(folder.join(".7.0000abcd.new")).expect("a socket"));
        let left = || std::fs::read_dir(&folder).expect("a folder").count();
        assert_eq!((tidy(&folder, 100), left()), (0, 1), "one that begins looks like that, too");
        let old = std::time::SystemTime::now() - 2 * HIDDEN_AT_MOST;
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            set_times(&entry.path(), old);
        }
        assert_eq!((tidy(&folder, 100), left()), (0, 0));
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    /// A socket cannot be opened as a file.
    fn set_times(path: &Path, to: std::time::SystemTime) {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
        let passed = to.duration_since(std::time::UNIX_EPOCH).expect("later");
        let time = libc::timespec { tv_sec: passed.as_secs() as libc::time_t, tv_nsec: 0 };
        // SAFETY: a C string, and two times.
        let code = unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), [time; 2].as_ptr(), 0) };
        assert_eq!(code, 0);
    }

    #[test]
    fn a_path_too_long_is_refused_with_the_length_wanted() {
        let long = Path::new("/tmp").join("x".repeat(200));
        let refused = connect(&long).expect_err("too long").to_string();
        assert!(refused.ends_with("wanted at most 107"), "{refused}");
    }
}
