//! Finds the files with the CPU quota's throttling of this process and the pressure of its cgroup.
//!
//! How it works: /proc/self/cgroup names the cgroup inside each hierarchy, /proc/self/mountinfo
//! says where hierarchies are mounted, and from which cgroup on they are visible (a container
//! usually sees its own as the root). Version 1 keeps the cpu controller in a hierarchy of its own;
//! version 2 has one for everything, and when both exist the cpu controller is in the former. A
//! quota may sit on the process's own cgroup or on one above it: the innermost that has one now is
//! watched, else the process's own. Pressure only version 2 keeps: of the process's own cgroup,
//! whatever controllers it has.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a hierarchy with the cpu controller is mounted, and which of its cgroups lies there.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'t> {
    root: &'t str,
    point: &'t str,
    v2: bool,
}

/// Path of the cpu.stat to watch, or why there is none.
pub(super) fn find() -> Result<String, &'static str> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|_| "no /proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|_| "no mountinfo")?;
    let candidates = [false, true].map(|v2| own_dir(&own, &mounts, v2));
    let dir = candidates.into_iter().flatten().find(|(dir, _)| has_throttling(dir));
    let (dir, point) = dir.ok_or("no cpu controller for this cgroup")?;
    let limited =
        dir.ancestors().take_while(|d| d.starts_with(&point)).find(|d| quota_of(d).is_some());
    let chosen = limited.unwrap_or(&dir).join("cpu.stat");
    chosen.to_str().map(str::to_owned).ok_or("path is not UTF-8")
}

/// CPUs that the process's cgroup, and those above it, may use; None: no quota is known. Some reads
/// of files, 0.1 ms.
pub fn quota() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let of_hierarchy = |v2| {
        let (dir, point) = own_dir(&own, &mounts, v2)?;
        let all = dir.ancestors().take_while(|dir| dir.starts_with(&point));
        all.filter_map(quota_of).min_by(f64::total_cmp)
    };
    [false, true].into_iter().filter_map(of_hierarchy).min_by(f64::total_cmp)
}

/// "50000 100000" in version 2; in version 1 two files.
fn quota_of(dir: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
    let text = read("cpu.max")
        .or_else(|| Some(read("cpu.cfs_quota_us")? + " " + &read("cpu.cfs_period_us")?))?;
    parse_quota(&text)
}

fn parse_quota(text: &str) -> Option<f64> {
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    // -1 is none.
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The directory of the process's own cgroup, with its `cpu.pressure`, or why there is none.
pub(super) fn with_pressure() -> Result<String, &'static str> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|_| "no /proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|_| "no mountinfo")?;
    let (dir, _) = own_dir(&own, &mounts, true).ok_or("no cgroup of version 2")?;
    let has_pressure = dir.join("cpu.pressure").exists();
    has_pressure
        .then_some(dir)
        .and_then(|dir| dir.to_str().map(str::to_owned))
        .ok_or("its cgroup has none")
}

/// The directory of the process's own cgroup, and the mount point it lies under.
fn own_dir(own: &str, mounts: &str, v2: bool) -> Option<(PathBuf, PathBuf)> {
    let path = own_path(own, v2)?;
    let mount = mounts.lines().filter_map(parse_mount).find(|mount| mount.v2 == v2)?;
    let below = path.strip_prefix(mount.root).unwrap_or(path);
    let dir = Path::new(mount.point).join(below.trim_start_matches('/'));
    // Seen from inside a container the path may be one of the host's: then its root is our own.
    let dir = if dir.is_dir() { dir } else { PathBuf::from(mount.point) };
    Some((dir, PathBuf::from(mount.point)))
}

/// "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1.
fn own_path(own: &str, v2: bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let wanted = match v2 {
            true => id == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|c| c == "cpu"),
        };
        wanted.then_some(path)
    })
}

/// "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu": root, mount point, then behind
/// the dash type, source and options. None for mounts without a cpu controller.
fn parse_mount(line: &str) -> Option<Mount<'_>> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let v2 = kind == "cgroup2";
    let v1 = kind == "cgroup" && options.split(',').any(|option| option == "cpu");
    (v1 || v2).then_some(Mount { root, point, v2 })
}

fn has_throttling(dir: &Path) -> bool {
    let stat = fs::read_to_string(dir.join("cpu.stat")).unwrap_or_default();
    stat.contains("nr_throttled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_number_of_cpus() {
        // Version 2; version 1, where each number is a line of its own file.
        for (text, cpus) in [("50000 100000\n", 0.5), ("250000\n 100000\n", 2.5)] {
            assert_eq!(parse_quota(text), Some(cpus));
        }
        for text in ["max 100000\n", "-1\n 100000\n", "", "5", "0 0", "1 0", "a b"] {
            assert_eq!(parse_quota(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_cpu_hierarchy_is_found_among_others() {
        let own = "5:cpuset:/a\n4:cpu,cpuacct:/b/c\n1:name=systemd:/d\n0::/e:f\n";
        assert_eq!(own_path(own, false), Some("/b/c"));
        assert_eq!(own_path(own, true), Some("/e:f"));
        assert_eq!(own_path("garbage\n", true), None);
        let v1 = "32 31 0:29 /x /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu";
        let mount = parse_mount(v1).expect("a cgroup mount");
        assert_eq!((mount.root, mount.point, mount.v2), ("/x", "/sys/fs/cgroup/cpu", false));
        let v2 = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        assert!(parse_mount(v2).is_some_and(|mount| mount.v2));
        for line in ["", " - ", "1 2 3 - cgroup", "32 31 0:29 / /x rw - cgroup cgroup rw,cpuset"] {
            assert_eq!(parse_mount(line), None, "{line:?}");
        }
    }
}
