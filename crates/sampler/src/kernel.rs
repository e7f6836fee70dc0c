//! The real world: clocks, /proc and perf events of this process, by crate `sys`.

use format::source::SourceState;
use std::io;

use recorder::Recorder;
use sys::calls::{self, Wait};
use sys::mem::Reader;
use sys::perf::{Refused, Switch, SwitchStream, Wakings};
use sys::task::{Schedstat, TaskCall, TaskReader, Usage};
use sys::vitals::{Missing, Vitals};
use sys::{clock, lock_owners, ours, task};

use crate::figures::Figures;
use crate::world::{Clock, Proc, Sink, SwitchRecords, ThreadFiles, VitalSigns};

/// This process, and a sink for what is found in it.
pub struct Kernel<S> {
    mem: Reader,
    sink: S,
}

impl<S: Sink> Kernel<S> {
    /// Errors: the process cannot read its own memory.
    pub fn new(sink: S) -> io::Result<Kernel<S>> {
        Ok(Kernel { mem: Reader::new()?, sink })
    }
}

impl<S> Clock for Kernel<S> {
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn thread_cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns()
    }

    fn process_cpu_ns(&self) -> u64 {
        clock::process_cpu_ns()
    }

    fn yield_cpu(&self) {
        std::thread::yield_now();
    }
}

impl ThreadFiles for TaskReader {
    fn schedstat(&mut self) -> io::Result<Schedstat> {
        TaskReader::schedstat(self)
    }

    fn call(&mut self) -> io::Result<TaskCall> {
        TaskReader::call(self)
    }

    fn usage(&mut self) -> io::Result<Usage> {
        TaskReader::usage(self)
    }

    fn descriptors(&self) -> usize {
        TaskReader::descriptors(self)
    }
}

impl SwitchRecords for SwitchStream {
    #[inline]
    fn drain(&mut self, each: impl FnMut(Switch)) {
        SwitchStream::drain(self, each);
    }

    fn released_ns(&self) -> u64 {
        SwitchStream::released_ns(self)
    }

    fn filled(&self) -> f64 {
        SwitchStream::filled(self)
    }

    fn lost(&self) -> u64 {
        SwitchStream::lost(self)
    }

    fn cpus(&self) -> usize {
        SwitchStream::cpus(self)
    }

    fn descriptors(&self) -> usize {
        SwitchStream::descriptors(self)
    }

    fn cover_new_cpus(&mut self, skip: &[u32]) -> Result<usize, Refused> {
        SwitchStream::cover_new_cpus(self, skip)
    }

    fn follow(&mut self, wakings: &mut Wakings, tids: &[u32]) -> Result<(), Refused> {
        SwitchStream::follow(self, wakings, tids)
    }
}

impl VitalSigns for Vitals {
    fn read(&mut self, each: impl FnMut(&'static str, f64)) {
        Vitals::read(self, each);
    }

    fn missing(&self) -> &[Missing] {
        Vitals::missing(self)
    }

    fn give_back(&mut self) {
        Vitals::give_back(self);
    }

    fn open_descriptors(&self) -> Option<u64> {
        Vitals::open_descriptors(self)
    }
}

impl<S> Proc for Kernel<S> {
    type Files = TaskReader;
    type Switches = SwitchStream;
    type Vitals = Vitals;

    fn list(&self, tids: &mut Vec<u32>) -> io::Result<()> {
        task::list(tids)
    }

    fn cpu_ns(&self, tid: u32) -> Option<u64> {
        task::cpu_ns(tid)
    }

    fn open(&self, tid: u32) -> io::Result<TaskReader> {
        TaskReader::open(tid)
    }

    fn last_id(&self) -> Option<u32> {
        task::last_id()
    }

    fn open_switches(&self, skip: &[u32]) -> Result<SwitchStream, Refused> {
        SwitchStream::open(skip)
    }

    fn find_wakings(&self) -> Result<Wakings, Refused> {
        Wakings::find()
    }

    fn open_vitals(&self) -> Vitals {
        Vitals::open()
    }

    fn memory(&self) -> &Reader {
        &self.mem
    }

    fn wait(&self, call: &TaskCall) -> Wait {
        calls::meaning(call, &self.mem)
    }

    fn lock_owner(&self, call: &TaskCall, futex: u64) -> Option<u32> {
        lock_owners::owner(&self.mem, call, futex)
    }

    fn has_room(&self, descriptors: usize) -> bool {
        ours::has_room(descriptors)
    }

    fn note_descriptors(&self, count: impl FnOnce() -> Option<u64>) {
        // Descriptors in a table of our own take none of the host's, and are never given back.
        if ours::is_apart() {
            return;
        }
        if let Some(open) = ours::open_in_all().or_else(count) {
            ours::check_room(open);
        }
    }

    fn is_tight(&self) -> bool {
        ours::is_tight()
    }
}

impl<S: Sink> Sink for Kernel<S> {
    #[inline]
    fn append(&self, record: &[u64], now_ns: u64) {
        self.sink.append(record, now_ns);
    }

    #[inline]
    fn recorder(&self) -> &'static Recorder {
        self.sink.recorder()
    }

    fn set_source(&self, name: &str, state: SourceState) {
        self.sink.set_source(name, state);
    }

    fn store_sources(&self) {
        self.sink.store_sources();
    }

    fn retire(&self, wakings: Option<Wakings>) {
        self.sink.retire(wakings);
    }

    fn figures(&self) -> &Figures {
        self.sink.figures()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Takes nothing: for tests of what is read.
    pub(crate) struct Nowhere;

    impl Sink for Nowhere {
        fn append(&self, _record: &[u64], _now_ns: u64) {}

        fn recorder(&self) -> &'static Recorder {
            unreachable!("what is only read needs no recorder")
        }

        fn set_source(&self, _name: &str, _state: SourceState) {}

        fn store_sources(&self) {}

        fn retire(&self, _wakings: Option<Wakings>) {}

        fn figures(&self) -> &Figures {
            unreachable!("what is only read counts nothing")
        }
    }
}
