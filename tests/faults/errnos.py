"""The system calls that are handed over, and the errors each is made to fail with. x86-64."""

from __future__ import annotations

from errno import (EACCES, EADDRINUSE, EAGAIN, EBADF, EINTR, EINVAL, EIO, EMFILE, ENOENT, ENOMEM, ENOSPC,
                   ENOSYS, EPERM)

# Besides EPERM, which a seccomp profile may return for any call. `close` is left out: on Linux it
# closes also when it fails, which a substituted error cannot do.
CALLS: "dict[str, tuple[int, tuple[int, ...]]]" = {
    "read": (0, (EIO, EINTR)),
    "write": (1, (EIO, ENOSPC, EINTR)),
    "fstat": (5, (EBADF,)),
    "poll": (7, (EINTR, ENOMEM)),
    "lseek": (8, (EINVAL,)),
    "mmap": (9, (ENOMEM,)),
    "mprotect": (10, (ENOMEM,)),
    "munmap": (11, (ENOMEM,)),
    "rt_sigaction": (13, (EINVAL,)),
    "rt_sigprocmask": (14, (EINVAL,)),
    "ioctl": (16, (EINVAL,)),
    "pread64": (17, (EIO, EINTR)),
    "pwrite64": (18, (EIO, ENOSPC)),
    "sched_yield": (24, (ENOSYS,)),
    "madvise": (28, (EINVAL,)),
    "nanosleep": (35, (EINTR,)),
    "socket": (41, (EMFILE,)),
    "connect": (42, (EACCES,)),
    "sendto": (44, (EAGAIN,)),
    "recvfrom": (45, (EAGAIN,)),
    "shutdown": (48, (EINVAL,)),
    "bind": (49, (EADDRINUSE,)),
    "listen": (50, (EADDRINUSE,)),
    "getsockname": (51, (EBADF,)),
    "getpeername": (52, (EBADF,)),
    "getsockopt": (55, (EBADF,)),
    "clone": (56, (EAGAIN,)),
    "uname": (63, (EINVAL,)),
    "fcntl": (72, (EMFILE, EINVAL)),
    "flock": (73, (EAGAIN,)),
    "ftruncate": (77, (ENOSPC,)),
    "rename": (82, (EACCES, ENOSPC)),
    "mkdir": (83, (EACCES, ENOSPC)),
    "link": (86, (EACCES,)),
    "unlink": (87, (EACCES,)),
    "readlink": (89, (EACCES,)),
    "chmod": (90, (EACCES,)),
    "getrlimit": (97, (EINVAL,)),
    "getrusage": (98, (EINVAL,)),
    "sysinfo": (99, (EINVAL,)),
    "sigaltstack": (131, (ENOMEM,)),
    "prctl": (157, (EINVAL,)),
    "futex": (202, (EINTR,)),
    "sched_setaffinity": (203, (EINVAL,)),
    "sched_getaffinity": (204, (EINVAL,)),
    "getdents64": (217, (EIO,)),
    "clock_gettime": (228, (EINVAL,)),
    "clock_nanosleep": (230, (EINTR, EINVAL)),
    "tgkill": (234, (EAGAIN,)),
    "openat": (257, (EMFILE, EACCES, ENOENT)),
    "newfstatat": (262, (EACCES,)),
    "unlinkat": (263, (EACCES,)),
    "linkat": (265, (ENOENT,)),
    "fallocate": (285, (ENOSPC,)),
    "accept4": (288, (EMFILE,)),
    "perf_event_open": (298, (EMFILE, ENOSYS)),
    "prlimit64": (302, (EINVAL,)),
    "process_vm_readv": (310, (ENOSYS,)),
    "process_vm_writev": (311, (ENOSYS,)),
    "renameat2": (316, (EINVAL,)),
    "getrandom": (318, (ENOSYS,)),
    "membarrier": (324, (ENOSYS,)),
    "statx": (332, (ENOSYS, EACCES)),
    "pidfd_open": (434, (EMFILE,)),
    "clone3": (435, (EAGAIN, ENOSYS)),
    "close_range": (436, (ENOSYS,)),
    "pidfd_getfd": (438, (EMFILE,)),
}
NAMES = {number: name for name, (number, _) in CALLS.items()}


# Failures that are not promised, with reasons: they are tried all the same, and reported.
KNOWN: "dict[tuple[str, int], str]" = {
    ("getrandom", EPERM): "Rust's library opens /dev/urandom in its place, and keeps it",
    ("getrandom", ENOSYS): "Rust's library opens /dev/urandom in its place, and keeps it",
}


def errors(name: str) -> "tuple[int, ...]":
    """The errors a call is made to fail with. A refused futex ends any process: the C library
    aborts.
    """
    return CALLS[name][1] if name == "futex" else (EPERM, *CALLS[name][1])
