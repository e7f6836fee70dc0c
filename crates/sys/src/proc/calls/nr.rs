//! Numbers of system calls that are not the same everywhere, or too new for the libc crate.
//!
//! aarch64 came late and has no call that a newer one replaced (`open`, `poll`, `stat`, ...). There
//! such a name stands for a negative number, which no call has, so one list serves both machines.

macro_rules! only_x86 {
    ($($name:ident = $sys:ident else $never:literal;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        pub(super) const $name: i64 = libc::$sys;
        #[cfg(not(target_arch = "x86_64"))]
        pub(super) const $name: i64 = $never;
    )*};
}

only_x86! {
    POLL = SYS_poll else -101;
    SELECT = SYS_select else -102;
    EPOLL_WAIT = SYS_epoll_wait else -103;
    OPEN = SYS_open else -104;
    CREAT = SYS_creat else -105;
    STAT = SYS_stat else -106;
    LSTAT = SYS_lstat else -107;
    ACCESS = SYS_access else -108;
    READLINK = SYS_readlink else -109;
    GETDENTS = SYS_getdents else -110;
    UNLINK = SYS_unlink else -111;
    RENAME = SYS_rename else -112;
    RENAMEAT = SYS_renameat else -113;
    MKDIR = SYS_mkdir else -114;
    RMDIR = SYS_rmdir else -115;
    LINK = SYS_link else -116;
    SYMLINK = SYS_symlink else -117;
    CHMOD = SYS_chmod else -118;
    CHOWN = SYS_chown else -119;
    VFORK = SYS_vfork else -120;
    PAUSE = SYS_pause else -121;
}

/// futex_wait (6.7); numbers from 424 on are the same on all machines.
pub(super) const FUTEX_WAIT: i64 = 455;
