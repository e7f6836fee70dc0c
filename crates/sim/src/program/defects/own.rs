//! Defects of the request's own thread: it sleeps, computes, waits for something outside.

use super::ill::Ill;
use crate::program::maker::{bare, Maker};
use crate::program::{about, Function, Host, Native, Op, Outside, MS, US};

const PEER: &str = "tcp 127.0.0.1:5432";

/// The guilty function: this with the defect, next to nothing without.
fn guilty(maker: &mut Maker, sick: Vec<Op>, healthy: Vec<Op>) -> usize {
    let body = if maker.sick { sick } else { healthy };
    maker.function(body)
}

fn wait(outside: Outside, length: u64, name: &str) -> Op {
    Op::Wait(outside, about(length), name.to_owned())
}

fn waits(maker: &mut Maker, host: Host, outside: Outside, name: &str, cause: &str) -> Ill {
    let length = maker.trouble();
    let quick = wait(outside, 600 * US, name);
    let function = guilty(maker, vec![wait(outside, length, name)], vec![quick]);
    Ill::own(maker, function, cause, host)
}

pub fn sleep_nap(maker: &mut Maker, host: Host) -> Ill {
    waits(maker, host, Outside::Sleep, "", "sleep")
}

pub fn sleep_event(maker: &mut Maker, host: Host) -> Ill {
    waits(maker, host, Outside::Nap, "", "sleep")
}

pub fn sleep_retry(maker: &mut Maker, host: Host) -> Ill {
    let (times, length) = (maker.random.between(3, 9), maker.trouble());
    let pause = wait(Outside::Sleep, length / times, "");
    let sick = vec![Op::Repeat(times as u32, bare(vec![pause, Op::Compute(about(200 * US))]))];
    let function = guilty(maker, sick, Vec::new());
    Ill::own(maker, function, "sleep", host)
}

pub fn sleep_flag(maker: &mut Maker, host: Host) -> Ill {
    let times = maker.trouble() / (3 * MS);
    let ask = bare(vec![wait(Outside::Sleep, 3 * MS, ""), Op::Compute(about(15 * US))]);
    let function = guilty(maker, vec![Op::Repeat(times as u32, ask)], Vec::new());
    Ill::own(maker, function, "sleep", host)
}

/// Code of an installed package asks a peer: the program's own function is the place.
pub fn downstream_library(maker: &mut Maker, host: Host) -> Ill {
    let length = if maker.sick { maker.trouble() } else { 600 * US };
    let client = maker.function(vec![wait(Outside::Answer, length, PEER)]);
    let made = &mut maker.functions[client];
    made.file = format!("{}/psycopg/connection.py", crate::program::SITE);
    let function = maker.function(vec![Op::Call(client)]);
    Ill::own(maker, function, "downstream-wait", host)
}

pub fn downstream_ask(maker: &mut Maker, host: Host) -> Ill {
    waits(maker, host, Outside::Answer, PEER, "downstream-wait")
}

pub fn downstream_loop(maker: &mut Maker, host: Host) -> Ill {
    let (times, length) = (maker.random.between(20, 60), maker.trouble());
    let ask = wait(Outside::Answer, length / times, PEER);
    let sick = vec![Op::Repeat(times as u32, bare(vec![ask]))];
    let function = guilty(maker, sick, vec![wait(Outside::Answer, 600 * US, PEER)]);
    Ill::own(maker, function, "downstream-wait", host)
}

pub fn connect_full(maker: &mut Maker, host: Host) -> Ill {
    waits(maker, host, Outside::Connect, "tcp 127.0.0.1:9042", "connect")
}

pub fn dns_slow(maker: &mut Maker, host: Host) -> Ill {
    waits(maker, host, Outside::Resolve, "udp 10.0.0.2:53", "dns")
}

pub fn child_run(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let sick = vec![wait(Outside::Child, length, "child process convert")];
    let function = guilty(maker, sick, Vec::new());
    Ill::own(maker, function, "subprocess-wait", host)
}

pub fn pipe_full(maker: &mut Maker, host: Host) -> Ill {
    let write = wait(Outside::PipeRoom, 12 * MS, "pipe");
    let function = guilty(maker, vec![Op::Repeat(40, bare(vec![write]))], Vec::new());
    Ill::own(maker, function, "pipe-write", host)
}

pub fn disk_sync(maker: &mut Maker, host: Host) -> Ill {
    let times = maker.random.between(20, 40) as u32;
    let path = "/srv/app/journal.db";
    let (copy, sync) = (Op::Copy(about(3 * MS)), wait(Outside::Sync, 9 * MS, path));
    let function = guilty(maker, vec![Op::Repeat(times, bare(vec![copy, sync]))], Vec::new());
    Ill::own(maker, function, "disk-io", host)
}

pub fn disk_read(maker: &mut Maker, host: Host) -> Ill {
    let read = wait(Outside::Read, 25 * MS, "/srv/app/archive.bin");
    let function = guilty(maker, vec![Op::Repeat(16, bare(vec![read]))], Vec::new());
    Ill::own(maker, function, "disk-io", host)
}

pub fn lock_file(maker: &mut Maker, host: Host) -> Ill {
    let held = "/run/app.lock, held by process 4711 (spooler)";
    waits(maker, host, Outside::FileLock, held, "lock-wait")
}

pub fn cpu_loop(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let function = guilty(maker, vec![Op::Compute(about(length))], Vec::new());
    Ill::own(maker, function, "cpu", host)
}

pub fn cpu_regex(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let sick = vec![Op::Repeat(4, bare(vec![Op::Native(about(length / 4), Native::Keeps)]))];
    let function = guilty(maker, sick, Vec::new());
    Ill::own(maker, function, "cpu", host)
}

pub fn cpu_digest(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let sick = vec![Op::Repeat(12, bare(vec![Op::Native(about(length / 12), Native::Releases)]))];
    let function = guilty(maker, sick, Vec::new());
    Ill::own(maker, function, "cpu", host)
}

pub fn gc_asked(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble_of(200, 500);
    let sick = vec![Op::Collect(about(length))];
    let function = guilty(maker, sick, vec![Op::Collect(about(300 * US))]);
    Ill::own(maker, function, "gc-pause", host).slow_ms(120)
}

pub fn import_late(maker: &mut Maker, host: Host) -> Ill {
    let (length, stem) = (maker.trouble(), maker.word());
    maker.functions.push(Function {
        name: "<module>".to_owned(),
        file: format!("{}/{stem}.py", crate::program::HOME),
        first_line: 0,
        is_task: false,
        body: Vec::new(),
    });
    let module = maker.functions.len() - 1;
    let function = guilty(maker, vec![Op::Import(about(length), module)], Vec::new());
    Ill::own(maker, function, "import", host)
}

pub fn fork_large(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble_of(200, 450);
    let child = wait(Outside::Child, 3 * MS, "child process true");
    let function = guilty(maker, vec![Op::Fork(about(length)), child], Vec::new());
    Ill::own(maker, function, "fork", host).slow_ms(150)
}

pub fn fault_fresh(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let function = guilty(maker, vec![Op::Touch(about(length))], Vec::new());
    Ill::own(maker, function, "page-fault", host).slow_ms(150).accepting(&["cpu"])
}

pub fn fault_major(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let sick = vec![wait(Outside::MajorFault, length, "")];
    let function = guilty(maker, sick, Vec::new());
    Ill::own(maker, function, "page-fault", host)
}
