//! Where the kernel refuses switches, the error says what, why and what would help, and nothing
//! stays open.

use sys::perf::{Refused, SwitchStream};

const OTHER_UID: u32 = 65533;

/// Makes perf_event_open fail with EPERM for the calling thread, as container profiles do.
fn forbid_perf() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let give = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        statement(load, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                libc::SYS_perf_event_open as u32,
            )
        },
        statement(give, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(give, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
    // SAFETY: the filter lives through the call; both settings concern the calling thread only.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_forbidden_call_is_distinguished_from_a_strict_setting() {
    let refused = std::thread::spawn(|| {
        forbid_perf();
        SwitchStream::open(&[]).err()
    });
    let refused = refused.join().expect("it only opens").expect("the filter refuses");
    assert_eq!((refused.what, refused.errno), ("perf_event_open", libc::EPERM));
    let strict = refused.paranoid.is_some_and(|level| level > 2);
    let remedy = if strict { "paranoid to 2" } else { "seccomp" };
    assert!(refused.to_string().contains(remedy), "{refused}");
}

#[test]
fn the_words_are_these() {
    let refused = |errno, paranoid| Refused { what: "perf_event_open", errno, paranoid };
    assert_eq!(
        refused(libc::EACCES, Some(4)).to_string(),
        "perf_event_open refused: Permission denied (os error 13); perf_event_paranoid is 4; \
         set kernel.perf_event_paranoid to 2, or grant CAP_PERFMON"
    );
    assert_eq!(
        refused(libc::ENOSYS, None).to_string(),
        "perf_event_open refused: Function not implemented (os error 38); perf_event_paranoid is \
         not readable; this kernel or sandbox has no perf events"
    );
}

#[test]
fn rings_shrink_before_they_are_refused() {
    if !crate::common::is_root() && !crate::common::plays("greedy") {
        return crate::common::skipped("needs a user of its own, so root to become one");
    }
    if crate::common::is_root() {
        let own = crate::common::named(module_path!(), "rings_shrink_before_they_are_refused");
        let status = crate::common::again(OTHER_UID, "greedy", &["--exact", &own]);
        assert!(status.success(), "{status}");
        return;
    }
    let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads the limit we give; concerns this process, which exists for this test.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &nothing) };
    let (mut streams, mut refused) = (Vec::new(), None);
    while refused.is_none() && streams.len() < 1_000 {
        match SwitchStream::open(&[]) {
            Ok(stream) => streams.push(stream),
            Err(e) => refused = Some(e),
        }
    }
    let refused = refused.expect("the budget of a user is bounded");
    if streams.is_empty() && refused.what == "perf_event_open" {
        return crate::common::skipped(&refused.to_string());
    }
    let sizes: Vec<usize> = streams.iter().map(SwitchStream::ring_bytes).collect();
    assert_eq!(sizes.first(), Some(&65536));
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    assert!(sizes.last().is_some_and(|bytes| *bytes < 65536), "{sizes:?}");
    assert!(refused.to_string().contains("perf_event_mlock_kb"), "{refused}");
    let held: usize = streams.iter().map(SwitchStream::descriptors).sum();
    assert_eq!(
        crate::common::open_descriptors("perf_event"),
        held,
        "a refusal leaves nothing open"
    );
}
