//! Where a container's seccomp profile forbids perf events, computing has no place in native code:
//! the sources say why, blocked threads still have their stacks, and the service goes on.

use std::hint::black_box;
use std::time::Duration;

use capture::read::Capture;
use diagnosis::Cause;

/// Makes the kernel refuse `perf_event_open` to this thread and those it starts, as Docker does.
fn forbid_perf_events() {
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let nr = libc::SYS_perf_event_open as u32;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let mut rules = [
        libc::sock_filter { code: load, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: jump, jt: 0, jf: 1, k: nr },
        libc::sock_filter { code: answer, jt: 0, jf: 0, k: refused },
        libc::sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    let (filter, none) = (libc::SECCOMP_MODE_FILTER as libc::c_ulong, 0 as libc::c_ulong);
    // SAFETY: `program` and its rules live through the calls, which only read them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, none, none, none), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program), 0);
    }
}

#[inline(never)]
fn burn(cpu_ns: u64) -> u64 {
    let end_ns = sys::clock::thread_cpu_ns() + cpu_ns;
    let mut sum = 1u64;
    while sys::clock::thread_cpu_ns() < end_ns {
        sum = (0..5_000u64).fold(sum, |sum, i| black_box(sum.rotate_left(7) ^ i));
    }
    sum
}

#[inline(never)]
fn rest() -> u64 {
    std::thread::sleep(Duration::from_millis(150));
    black_box(1)
}

#[test]
fn without_perf_events_a_capture_says_so() {
    forbid_perf_events();
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("noperf-{}", std::process::id()));
    let settings = dashcam::Config::new().service("noperf").slow("50ms").out(out.display());
    dashcam::start(settings).expect("settings");
    std::thread::sleep(Duration::from_millis(200));
    for turn in 0..60 {
        let slow = turn % 20 == 19;
        let _request = dashcam::request!("either");
        match turn {
            39 => rest(),
            _ => burn(if slow { 150_000_000 } else { 500_000 }),
        };
    }
    let path = dashcam::snap("test").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    symbols::name_native(&mut capture);
    for name in ["switches", "running_stacks"] {
        let state = capture.meta.sources.iter().find(|(n, _)| n.as_str() == name);
        let state = &state.expect("a source").1;
        assert!(state.starts_with("off: perf_event_open refused"), "{name}: {state}");
        assert!(state.contains("seccomp") || state.contains("perf_event_paranoid"), "{state}");
    }
    let diagnosis = diagnosis::diagnose(&capture, |_| 50_000_000);
    println!("{}", report::to_text(&diagnosis));
    let of = |cause| diagnosis.findings.iter().find(|f| f.cause == cause);
    let slept = of(Cause::Sleep).and_then(|f| f.place.as_ref()).expect("a place of the pause");
    assert_eq!(slept.function, "rest");
    let computed = of(Cause::Cpu).expect("its computing, by the CPU clock");
    assert_eq!(computed.place, None, "nobody saw where");
    testkit::remove(&out);
}
