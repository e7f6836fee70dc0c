//! Available memory: of the machine, of this process's cgroup, of a file system in memory, and of
//! the process's address space.
//!
//! Why: a box in shared memory is charged to the cgroup like any other memory; taking more than is
//! available would get the host killed. A missing file sets no limit.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that can be taken before the machine or the cgroup has none left; `u64::MAX` when no limit
/// is known.
pub fn available_bytes() -> u64 {
    machine().unwrap_or(u64::MAX).min(cgroup().unwrap_or(u64::MAX))
}

/// Bytes that an unprivileged user may still write into the file system of `path`; None: unknown,
/// or it has no limit of its own (a tmpfs without size).
pub fn left_in(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: an all-zero statvfs is a valid value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a NUL; statvfs only writes into `found`.
    let known = unsafe { libc::statvfs(path.as_ptr(), &mut found) } == 0;
    (known && found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Bytes of address space that this process may still take (`RLIMIT_AS`); None: no limit. The C
/// library gives threads arenas of 64 MiB of it.
pub fn address_space_left() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours. The call fails only for a limit that does not exist.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    if !known || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().next()?.parse().ok()?;
    // SAFETY: sysconf reads a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    Some(limit.rlim_cur.saturating_sub(pages.saturating_mul(page)))
}

fn machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The tightest of the cgroups this process is in, version 2 and version 1.
fn cgroup() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, limit, usage) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // A limit may be set at any level above; in a container the path may not be visible at all.
        let mut path = path.trim_end_matches('/').to_owned();
        loop {
            let read = |file: &str| number(&format!("{root}{path}/{file}"));
            if let (Some(limit), Some(usage)) = (read(limit), read(usage)) {
                let stat = fs::read_to_string(format!("{root}{path}/memory.stat"));
                let used = usage.saturating_sub(reclaimable(&stat.unwrap_or_default()));
                let left = limit.saturating_sub(used);
                least = Some(least.map_or(left, |l| l.min(left)));
            }
            match path.rfind('/') {
                Some(cut) => path.truncate(cut),
                None => break,
            }
        }
    }
    least
}

/// Of memory.stat: pages of files that were not used lately, which count as used until somebody
/// needs the memory. In a container that reads files they fill all that is left.
fn reclaimable(stat: &str) -> u64 {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    // Version 1 has the sum with the cgroups below under a name of its own.
    value("total_inactive_file").or_else(|| value("inactive_file")).unwrap_or(0)
}

/// A file with one number; "max" is none.
fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn pages_of_files_that_are_not_used_are_available() {
        let reclaimable = super::reclaimable;
        assert_eq!(reclaimable("anon 5\ninactive_file 4096\nactive_file 7\n"), 4096);
        assert_eq!(reclaimable("inactive_file 1\ntotal_inactive_file 8192\n"), 8192);
        for none in ["", "inactive_file", "inactive_file x", "inactive_files 3"] {
            assert_eq!(reclaimable(none), 0, "{none:?}");
        }
    }

    #[test]
    fn there_is_some_memory_on_this_machine() {
        let bytes = super::available_bytes();
        assert!(bytes > 1 << 20 && bytes < 1 << 60, "{bytes}");
    }
}
