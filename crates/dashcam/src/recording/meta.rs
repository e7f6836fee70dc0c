//! The META text of a capture, and the settings text that lies in the black box for `recover`.

use std::sync::atomic::{AtomicU64, Ordering};

use format::json::{texts, Object};
use format::region::{losses, word};
use format::schema::SCHEMA_JSON;
use ring::{Place, Region};
use settings::Config;
use sys::random;

use crate::recording::runtime::Runtime;

/// Host name, as the kernel gives it.
pub(crate) fn host() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_owned()
}

/// How many CPUs the process may use at once, by its affinity and its cgroup's quota; 0: not known.
/// Asking reads files, so it is kept. No lock: a fork while another thread asks must leave nothing
/// the child would wait for.
fn cpus() -> u64 {
    static CPUS: AtomicU64 = AtomicU64::new(0);
    match CPUS.load(Ordering::Relaxed) {
        0 => {
            let cpus = std::thread::available_parallelism().map_or(0, |n| n.get() as u64);
            CPUS.store(cpus, Ordering::Relaxed);
            cpus
        }
        known => known,
    }
}

/// Sources by name.
pub fn sources(list: &[(String, String)]) -> String {
    list.iter().fold(Object::new(), |object, (name, state)| object.text(name, state)).finish()
}

/// Labels of the process by key.
pub(crate) fn labels(config: &Config) -> String {
    let each = config.labels.iter();
    each.fold(Object::new(), |object, (key, value)| object.text(key, value)).finish()
}

/// What does not change while the process records.
pub fn lasting(config: &Config, runtime: &Runtime, list: &[(String, String)]) -> Object {
    Object::new()
        .text("version", env!("CARGO_PKG_VERSION"))
        .text("service", &config.service)
        .text("host", &host())
        .raw("labels", &labels(config))
        .text("runtime", &runtime.name)
        .raw("stdlib", &texts(runtime.stdlib.iter().map(String::as_str)))
        .raw("site", &texts(runtime.site.iter().map(String::as_str)))
        .raw("application", &texts(runtime.application.iter().map(String::as_str)))
        .text("package", &runtime.package)
        .int("cpus", cpus())
        .raw("settings", &config.json())
        .raw("sources", &sources(list))
}

/// Loss counters by name.
pub fn loss_counts(region: &Region) -> String {
    let named = losses::NAMES.iter().zip(region.losses());
    named.fold(Object::new(), |object, (name, count)| object.int(name, count)).finish()
}

/// Descriptors of ours: in the program's table and how many there may be, in our own, and its
/// limit.
pub fn descriptors() -> String {
    use sys::ours;
    Object::new()
        .int("in_the_programs_table", ours::count() as u64)
        .int("of_at_most", ours::most() as u64)
        .int("in_our_own_table", ours::count_apart() as u64)
        .int("limit", ours::descriptor_limit())
        .finish()
}

/// The box's accounts beside the thread table: records of threads that are in it no more, records
/// overwritten, blocks taken back from idle threads.
pub fn books(region: &Region) -> String {
    let (_, [records, dropped]) = region.copy_threads();
    let at = |index: usize| region.header(index).load(std::sync::atomic::Ordering::Relaxed);
    Object::new()
        .int("records_of_past_threads", records)
        .int("dropped_by_past_threads", dropped)
        .int("overwritten", region.overwritten())
        .int("blocks_taken_back", at(word::TAKEN_BACK))
        .finish()
}

/// The META text of one capture.
pub fn capture(
    lasting: Object,
    region: &Region,
    reason: &str,
    from_ns: u64,
    to_ns: u64,
    sampler: &str,
) -> String {
    let at = |index: usize| region.header(index).load(std::sync::atomic::Ordering::Relaxed);
    let place = match region.place() {
        Place::File(path) => path.display().to_string(),
        Place::Process(why) => format!("process memory only: {why}"),
    };
    lasting
        .text("capture_id", &format!("{:016x}{:016x}", random::number(), random::number()))
        .text("reason", reason)
        .int("pid", u64::from(std::process::id()))
        .int("start_ns", at(word::START_NS))
        .int("start_epoch_ns", at(word::START_EPOCH_NS))
        .text("ids_seed", &format!("{:016x}", at(word::IDS_SEED)))
        .int("from_ns", from_ns)
        .int("to_ns", to_ns)
        .text("box", &place)
        .raw("losses", &loss_counts(region))
        .raw("books", &books(region))
        .raw("sampler", sampler)
        .raw("schema", SCHEMA_JSON)
        .finish()
}
