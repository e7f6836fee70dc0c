//! Whether a process may be attached to: rights, state, switches. Pure: facts in, a refusal out.
//!
//! How it works: the facts of the process (`target`) and of this one (`Own`) are compared, the most
//! specific reason first. Here is what can be known without the process's memory; its interpreter,
//! the package and the layout are checked in their own files.
//!
//! What it promises: a refusal says what was found, what is wanted, and what would help. What is
//! missing on purpose: rights that only an attempt shows (a seccomp profile, user namespaces); then
//! `denied` gives the likely reason.

use std::io;
use std::path::Path;

use crate::refusal::{refused, Kind, Refusal};
use crate::target::Target;

/// The bit of CAP_SYS_PTRACE in a set of capabilities.
const CAP_SYS_PTRACE: u32 = 19;

/// What this process may do.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its effective user.
    pub user: u32,
    /// It has CAP_SYS_PTRACE.
    pub may_trace_all: bool,
    /// Yama's rule for the machine; None: there is no Yama.
    pub ptrace_scope: Option<u32>,
}

impl Own {
    /// Reads it from /proc.
    pub fn read(proc: &Path) -> Own {
        let status = std::fs::read_to_string(proc.join("self/status")).unwrap_or_default();
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let bits = line("CapEff:").and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        let user = line("Uid:").and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
        let scope = std::fs::read_to_string(proc.join("sys/kernel/yama/ptrace_scope")).ok();
        Own {
            user: user.unwrap_or(u32::MAX),
            may_trace_all: bits.is_some_and(|bits| bits >> CAP_SYS_PTRACE & 1 == 1),
            ptrace_scope: scope.and_then(|text| text.trim().parse().ok()),
        }
    }
}

/// Refuses what cannot succeed.
pub fn check(target: &Target, own: &Own) -> Result<(), Refusal> {
    state(target)?;
    rights(target, own)?;
    switch(target)
}

/// Refuses what cannot be read from outside: no right to. A process that is stopped, or traced by
/// another, can be read.
pub fn check_reading(target: &Target, own: &Own) -> Result<(), Refusal> {
    if matches!(target.state, 'Z' | 'X') {
        return state(target);
    }
    rights(target, own)
}

fn state(target: &Target) -> Result<(), Refusal> {
    let pid = target.pid;
    if target.tracer != 0 {
        return Err(refused(
            "tracer",
            format!("process {}", target.tracer),
            "none",
            "a process has one tracer only: end the debugger or strace that has it",
        ));
    }
    let (found, remedy) = match target.state {
        'Z' | 'X' => {
            let found = "ended, and not waited for by its parent";
            let refusal = refused("process", found, "a running process", "nothing can be done");
            return Err(refusal.of_kind(Kind::Gone));
        }
        'T' => ("stopped by a signal", format!("`kill -CONT {pid}` first")),
        't' => ("stopped by a debugger", "end the debugger first".to_owned()),
        _ => return Ok(()),
    };
    Err(refused("process", found, "running", remedy))
}

fn rights(target: &Target, own: &Own) -> Result<(), Refusal> {
    if own.may_trace_all {
        return Ok(());
    }
    let scope = "kernel.yama.ptrace_scope";
    match own.ptrace_scope {
        Some(3) => {
            let found = "3, which lets nobody trace";
            let remedy = "it can only be lowered by a reboot; start the service with `dashcam run`";
            return Err(refused(scope, found, "0, 1 or 2", remedy));
        }
        Some(2) => {
            let found = "2, which lets only CAP_SYS_PTRACE trace";
            return Err(refused(scope, found, "0, or that capability", "run dashcam with sudo"));
        }
        _ => (),
    }
    if let Some(other) = target.users.iter().find(|user| **user != own.user) {
        let remedy = format!("run dashcam as user {other} (`sudo -u '#{other}'`), or as root");
        let (found, wanted) = (format!("{other}"), format!("{}, which is yours", own.user));
        return Err(refused("user of the process", found, wanted, remedy));
    }
    if target.owner != own.user {
        let found = "not dumpable (it changed its user, or forbids it with PR_SET_DUMPABLE)";
        return Err(refused("process", found, "a dumpable process", "run dashcam with sudo"));
    }
    Ok(())
}

fn switch(target: &Target) -> Result<(), Refusal> {
    let Some(value) = target.variable("DASHCAM_ENABLED") else { return Ok(()) };
    let off = ["0", "false", "no", "off"].contains(&value.trim().to_lowercase().as_str());
    match off {
        false => Ok(()),
        true => Err(refused(
            "DASHCAM_ENABLED in its environment",
            value,
            "not off",
            "its operator has turned dashcam off: restart it without the variable",
        )),
    }
}

/// Why memory that should be readable could not be opened, or the process not be stopped.
pub fn denied(own: &Own, error: &io::Error) -> Refusal {
    let remedy = match own.ptrace_scope {
        Some(1) if !own.may_trace_all => {
            "kernel.yama.ptrace_scope is 1, which lets a process trace its descendants only: run \
             dashcam with sudo, or `sysctl kernel.yama.ptrace_scope=0`"
        }
        _ => {
            "a container's seccomp profile or a security module may forbid it: run dashcam outside \
             of the container, or give it CAP_SYS_PTRACE (`--cap-add SYS_PTRACE`)"
        }
    };
    refused(
        "the right to trace it",
        error.to_string(),
        "the right to read, write and stop it",
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Own = Own { user: 1000, may_trace_all: false, ptrace_scope: Some(0) };
    const ROOT: Own = Own { user: 0, may_trace_all: true, ptrace_scope: Some(1) };

    fn running() -> Target {
        Target {
            pid: 4711,
            own_pid: 4711,
            state: 'S',
            users: [1000; 3],
            owner: 1000,
            ..Target::default()
        }
    }

    fn said(target: &Target, own: &Own) -> String {
        check(target, own).map_or_else(|refusal| refusal.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_running_process_of_the_same_user_or_under_root_is_fine() {
        assert_eq!(said(&running(), &USER), "fine");
        assert_eq!(said(&running(), &ROOT), "fine");
        assert_eq!(said(&running(), &Own { ptrace_scope: None, ..USER }), "fine");
    }

    #[test]
    fn another_user_and_an_undumpable_process_are_refused_unless_tracing_all_is_allowed() {
        let other = Target { users: [1000, 1000, 33], ..running() };
        assert_eq!(
            said(&other, &USER),
            "user of the process: found 33, wanted 1000, which is yours; run dashcam as user 33 \
             (`sudo -u '#33'`), or as root"
        );
        let hidden = Target { owner: 0, ..running() };
        assert!(said(&hidden, &USER).contains("found not dumpable"), "{}", said(&hidden, &USER));
        assert_eq!(said(&other, &ROOT), "fine");
        assert_eq!(said(&hidden, &ROOT), "fine");
    }

    #[test]
    fn yamas_stricter_rules_are_refused_with_what_would_help() {
        let two = said(&running(), &Own { ptrace_scope: Some(2), ..USER });
        assert!(two.starts_with("kernel.yama.ptrace_scope: found 2"), "{two}");
        assert!(two.ends_with("run dashcam with sudo"), "{two}");
        let three = said(&running(), &Own { ptrace_scope: Some(3), ..USER });
        assert!(three.contains("found 3") && three.contains("dashcam run"), "{three}");
        // One is allowed to try: the process may have named this one with PR_SET_PTRACER.
        assert_eq!(said(&running(), &Own { ptrace_scope: Some(1), ..USER }), "fine");
        let refusal = io::Error::from_raw_os_error(1);
        let one = denied(&Own { ptrace_scope: Some(1), ..USER }, &refusal).to_string();
        assert!(one.contains("kernel.yama.ptrace_scope is 1"), "{one}");
        let seccomp = denied(&ROOT, &refusal).to_string();
        assert!(seccomp.contains("seccomp"), "{seccomp}");
    }

    #[test]
    fn stopped_traced_and_ended_processes_are_refused_also_for_root() {
        let stopped = said(&Target { state: 'T', ..running() }, &ROOT);
        assert_eq!(
            stopped,
            "process: found stopped by a signal, wanted running; `kill -CONT 4711` first"
        );
        let traced = said(&Target { state: 'S', tracer: 99, ..running() }, &ROOT);
        assert!(traced.contains("found process 99, wanted none"), "{traced}");
        let ended = check(&Target { state: 'Z', ..running() }, &ROOT).expect_err("ended");
        assert_eq!(ended.kind, Kind::Gone);
    }

    #[test]
    fn a_stopped_or_traced_process_is_read_and_one_of_another_user_is_not() {
        let reading = |target: &Target, own: &Own| {
            check_reading(target, own).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(reading(&Target { state: 'T', ..running() }, &USER), Ok(()));
        assert_eq!(reading(&Target { tracer: 99, ..running() }, &USER), Ok(()));
        let other = reading(&Target { users: [33; 3], ..running() }, &USER).expect_err("not ours");
        assert!(other.contains("found 33, wanted 1000"), "{other}");
        let ended = check_reading(&Target { state: 'Z', ..running() }, &ROOT).expect_err("ended");
        assert_eq!(ended.kind, Kind::Gone);
    }

    #[test]
    fn a_process_whose_operator_turned_dashcam_off_stays_off() {
        let with = |value: &str| Target {
            environment: vec![("DASHCAM_ENABLED".to_owned(), value.to_owned())],
            ..running()
        };
        assert!(said(&with(" Off "), &USER).contains("found  Off , wanted not off"));
        assert!(said(&with("0"), &USER).contains("found 0"));
        assert_eq!(said(&with("1"), &USER), "fine");
    }
}
