//! The vitals move when what they count happens, and missing ones are reported.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use sys::vitals::Vitals;

fn read(vitals: &mut Vitals) -> HashMap<&'static str, f64> {
    let mut all = HashMap::new();
    vitals.read(|name, value| {
        assert!(value.is_finite() && value >= 0.0, "{name} = {value}");
        assert!(all.insert(name, value).is_none(), "{name} twice");
    });
    all
}

#[test]
fn faults_memory_threads_descriptors_and_time_move() {
    // In a process of its own, where the other tests open and start nothing.
    let moved = crate::common::in_a_child(|| {
        values_move();
        0
    });
    assert_eq!(moved, 0);
}

fn values_move() {
    const BYTES: usize = 32 << 20;
    let mut vitals = Vitals::open();
    let before = read(&mut vitals);
    let file = std::fs::File::open("/proc/self/exe").expect("/proc is there");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || wait.recv());
    // Black boxes keep the pages from being optimised away.
    let memory = std::hint::black_box(vec![1u8; BYTES]);
    std::thread::sleep(std::time::Duration::from_millis(1));
    let after = read(&mut vitals);
    let grown = |name: &str| after[name] - before[name];
    assert!(grown("rss_bytes") > 0.8 * BYTES as f64, "{}", grown("rss_bytes"));
    assert!(grown("minor_faults") >= 16.0, "{}", grown("minor_faults"));
    assert!(grown("process_cpu_ns") > 0.0 && grown("voluntary_switches") > 0.0);
    assert_eq!(grown("fds"), 1.0);
    assert_eq!(grown("threads"), 1.0);
    drop((memory, file, go));
    let _ = thread.join().expect("it only waits");
}

#[test]
fn sockets_are_counted_one_by_one_and_apart_from_other_descriptors() {
    let done = crate::common::in_a_child(|| {
        let mut vitals = Vitals::open();
        let before = read(&mut vitals);
        let _file = std::fs::File::open("/proc/self/exe").expect("/proc is there");
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let one = socket();
        let with_one = read(&mut vitals);
        assert_eq!(with_one["sockets"] - before["sockets"], 1.0);
        assert_eq!(with_one["fds"] - before["fds"], 2.0);
        let _pair = std::os::unix::net::UnixStream::pair().expect("sockets are there");
        // SAFETY: no pointers; the copy is closed with the process.
        let far = unsafe { libc::fcntl(one.as_raw_fd(), libc::F_DUPFD, 900) };
        assert!(far >= 900, "{far}");
        drop(one);
        assert_eq!(read(&mut vitals)["sockets"] - before["sockets"], 3.0);
        // Other processes of the namespace open and close theirs meanwhile.
        let is_seen = || {
            let before = read(&mut vitals)["namespace_sockets"];
            let _some: Vec<_> = (0..50).map(|_| socket()).collect();
            (read(&mut vitals)["namespace_sockets"] >= before + 25.0).then_some(())
        };
        crate::common::wait_for("fifty more sockets in the namespace", is_seen);
        0
    });
    assert_eq!(done, 0);
}

#[test]
fn of_too_many_descriptors_it_is_said_that_sockets_are_not_counted() {
    let done = crate::common::in_a_child(|| {
        let mut vitals = Vitals::open();
        let is_said = |vitals: &Vitals| vitals.missing().iter().any(|m| m.source == "sockets");
        assert!(read(&mut vitals).contains_key("sockets") && !is_said(&vitals));
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        // SAFETY: the call only reads `limit`; it concerns this child only.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            crate::common::skipped("no room for 1,024 descriptors");
            return 0;
        }
        let file = std::fs::File::open("/proc/self/exe").expect("/proc is there");
        let many: Vec<_> = (0..1100).map(|_| file.try_clone().expect("there is room")).collect();
        let seen = read(&mut vitals);
        assert!(!seen.contains_key("sockets") && seen["fds"] > 1100.0 && is_said(&vitals));
        drop(many);
        assert!(read(&mut vitals).contains_key("sockets") && !is_said(&vitals));
        0
    });
    assert_eq!(done, 0);
}

/// The page lists every value that this host gives.
#[test]
fn docs_vitals_md_has_a_row_for_every_value() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vitals.md");
    let page = std::fs::read_to_string(page).expect("docs/vitals.md");
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let named: std::collections::HashSet<&str> = names.collect();
    let seen = read(&mut Vitals::open());
    let missing: Vec<_> = seen.keys().filter(|name| !named.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/vitals.md has no row for {missing:?}");
}

#[test]
fn counts_are_those_of_proc() {
    // In a process of its own, as above.
    let own = crate::common::in_a_child(|| {
        let mut vitals = Vitals::open();
        let seen = read(&mut vitals);
        let mut tids = Vec::new();
        sys::task::list(&mut tids).expect("/proc is there");
        assert_eq!(seen["threads"], tids.len() as f64);
        let listed = std::fs::read_dir("/proc/self/fd").expect("/proc is there").count();
        // Listing opens one more.
        assert_eq!(seen["fds"], listed as f64 - 1.0);
        0
    });
    assert_eq!(own, 0);
}

#[test]
fn every_value_is_either_there_or_said_to_be_missing() {
    let mut vitals = Vitals::open();
    let seen = read(&mut vitals);
    let sources = [
        ("rss_bytes", "rss"),
        ("psi_cpu_some_total_us", "pressure of cpu"),
        ("psi_io_some_avg10_percent", "pressure of io"),
        ("psi_memory_some_total_us", "pressure of memory"),
        ("host_steal_ticks", "steal"),
        ("cgroup_throttled_ns", "cgroup throttling"),
        ("psi_cgroup_cpu_some_total_us", "pressure of the cgroup"),
        ("psi_cgroup_memory_some_avg10_percent", "pressure of the cgroup"),
        ("threads", "threads"),
        ("fds", "fds"),
        ("sockets", "sockets"),
        ("namespace_sockets", "sockets of the network namespace"),
    ];
    for (value, source) in sources {
        let missing = vitals.missing().iter().find(|m| m.source == source);
        assert_ne!(seen.contains_key(value), missing.is_some(), "{value}: {missing:?}");
    }
}

/// Where cgroups of version 2 lie.
fn version_2() -> Option<std::path::PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(Into::into)
}

#[test]
fn a_moved_process_has_the_pressure_of_its_new_cgroup() {
    let Some(root) = version_2() else {
        return crate::common::skipped("no cgroups of version 2");
    };
    let own = root.join(format!("sys-test-{}", std::process::id()));
    if std::fs::create_dir(&own).is_err() {
        return crate::common::skipped("not allowed to make a cgroup");
    }
    let (folder, name) = (own.clone(), "psi_cgroup_cpu_some_total_us");
    let done = crate::common::in_a_child(move || {
        let total = || {
            let text = std::fs::read_to_string(folder.join("cpu.pressure")).unwrap_or_default();
            let some = text.lines().find(|line| line.starts_with("some "));
            some.and_then(|line| line.rsplit("total=").next()?.parse::<f64>().ok())
        };
        let mut vitals = Vitals::open();
        let before = read(&mut vitals);
        if std::fs::write(folder.join("cgroup.procs"), "0").is_err() || total().is_none() {
            crate::common::skipped("not allowed to go there, or it has no pressure");
            return 0;
        }
        // It is new, so no task can have waited in it for long yet, as tasks have on the host.
        let value = read(&mut vitals)[name];
        assert!(total().is_some_and(|now| value <= now), "{value} {:?}", total());
        assert!(value < before["psi_cpu_some_total_us"].max(1e6), "{value}: the host's own");
        assert!(!vitals.missing().iter().any(|m| m.source == "pressure of the cgroup"));
        // Threads that compute side by side wait for each other.
        let grown = || {
            let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
            let spin = move || while std::time::Instant::now() < until {};
            let others: Vec<_> = (0..8).map(|_| std::thread::spawn(spin)).collect();
            others.into_iter().for_each(|other| drop(other.join()));
            (read(&mut vitals)[name] > value).then_some(())
        };
        crate::common::wait_for("pressure in a cgroup of its own", grown);
        0
    });
    assert_eq!(done, 0);
    std::fs::remove_dir(&own).expect("nobody is there any more");
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
