//! The list of causes: the words that a verdict may use for why time passed.
//!
//! What it promises: the list is part of the JSON contract, and complete: every interval of a slow
//! request has one of them.

macro_rules! causes {
    ($($name:ident = $text:literal;)*) => {
        /// The contract's list of causes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Cause { $($name,)* }

        impl Cause {
            /// Every one.
            pub const ALL: &'static [Cause] = &[$(Cause::$name,)*];

            /// As in `dashcam why --json`.
            pub fn text(self) -> &'static str {
                match self { $(Cause::$name => $text,)* }
            }
        }
    };
}

causes! {
    Sleep = "sleep";
    LockWait = "lock-wait";
    GilWait = "gil-wait";
    GcPause = "gc-pause";
    Cpu = "cpu";
    CpuStarved = "cpu-starved";
    CpuThrottled = "cpu-throttled";
    EventLoopBlocked = "event-loop-blocked";
    PoolWait = "pool-wait";
    DownstreamWait = "downstream-wait";
    Connect = "connect";
    Dns = "dns";
    DiskIo = "disk-io";
    PipeWrite = "pipe-write";
    SubprocessWait = "subprocess-wait";
    Import = "import";
    Fork = "fork";
    PageFault = "page-fault";
    Stopped = "stopped";
    DeadlockTimeout = "deadlock-timeout";
    Recorder = "recorder";
    Unknown = "unknown";
}
