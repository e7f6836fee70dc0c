//! Stacks of blocked threads that run native code, as ids of the recorder's tables.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use format::record::{flag, Sample};
use format::region::code_flag::GAP_BITS;
use format::region::losses;
use recorder::Recorder;
use samplers::native_stacks::{Frame, NativeStacks, FRAME_POINTER, MOST_SITES, NO_SITE};
use sys::mem::Reader;
use sys::task::TaskCall;

/// Stacks read in one pass of threads that stand in no slow request's way.
const MOST_IDLE: u32 = 2;
/// Distinct stacks whose ids are remembered; beyond, the memory is emptied.
const MOST_STACKS: usize = 8 * 1024;

/// Reads native stacks and interns them. Their stale words differ from stack to stack, so they get
/// half of the tables at most: Python's stacks keep the other half.
pub(crate) struct Native {
    stacks: Option<NativeStacks>,
    state: &'static str,
    frames: Vec<Frame>,
    /// The recorder's id of each site, 0: not asked for yet.
    codes: Vec<u32>,
    known: HashMap<u64, u32>,
    /// Nodes these stacks may still add to the recorder's table.
    nodes_left: usize,
    /// The highest node seen: a higher one is new.
    newest: u32,
    idle_left: u32,
}

impl Native {
    /// `on`: the settings want stacks.
    pub(crate) fn new(recorder: &'static Recorder, on: bool) -> Native {
        let layout = recorder.region().layout();
        let stacks = on.then(|| NativeStacks::new(MOST_SITES.min(layout.code_slots / 2)));
        Native {
            state: match &stacks {
                None => "off: turned off by settings",
                Some(None) => "off: only stacks of x86-64 are understood",
                Some(Some(_)) => "on",
            },
            stacks: stacks.flatten(),
            frames: Vec::new(),
            codes: Vec::new(),
            known: HashMap::new(),
            nodes_left: layout.stack_slots / 2,
            newest: 0,
            idle_left: MOST_IDLE,
        }
    }

    /// The source's state, as captures and `status()` tell it.
    pub(crate) fn state(&self) -> &'static str {
        self.state
    }

    /// Begins a pass.
    pub(crate) fn begin_pass(&mut self) {
        self.idle_left = MOST_IDLE;
    }

    /// Puts the stack of a thread that is blocked in `call` into `sample`; leaves it alone when the
    /// thread is on a CPU, or when it does not matter (`close`) and this pass has read enough.
    pub(crate) fn look(
        &mut self,
        recorder: &Recorder,
        mem: &Reader,
        call: &TaskCall,
        close: bool,
        sample: &mut Sample,
    ) {
        let (TaskCall::Syscall { sp, pc, .. } | TaskCall::InKernel { sp, pc }) = *call else {
            return;
        };
        if !close && self.idle_left == 0 {
            return;
        }
        let Some(stacks) = &mut self.stacks else { return };
        self.idle_left -= u32::from(!close);
        let outcome = stacks.read(mem, (sp, pc), sample.t_ns, &mut self.frames);
        recorder.region().lose(losses::CODES_REFUSED, outcome.refused);
        if outcome.truncated {
            sample.flags |= flag::TRUNCATED;
        }
        sample.stack = self.stack_id(recorder);
    }

    /// The recorder's id of the stack in `frames` (innermost first); 0 when there is no room.
    fn stack_id(&mut self, recorder: &Recorder) -> u32 {
        let mut hasher = DefaultHasher::new();
        self.frames.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(id) = self.known.get(&hash) {
            return *id;
        }
        if self.nodes_left < self.frames.len() {
            recorder.region().lose(losses::STACKS_REFUSED, 1);
            return 0;
        }
        let mut parent = 0;
        for i in (0..self.frames.len()).rev() {
            let frame = self.frames[i];
            let code = self.code_id(recorder, frame.site);
            parent = recorder.tables().stack(parent, code, frame.gap | frame.link << GAP_BITS);
            if parent > self.newest {
                self.newest = parent;
                self.nodes_left -= 1;
            }
        }
        if self.known.len() >= MOST_STACKS {
            self.known.clear();
        }
        self.known.insert(hash, parent);
        parent
    }

    fn code_id(&mut self, recorder: &Recorder, site: u32) -> u32 {
        let tables = recorder.tables();
        let index = site as usize;
        if site == FRAME_POINTER {
            return tables.native_code(tables.name("fp"), tables.name("?"));
        }
        if let Some(id) = self.codes.get(index).filter(|id| **id != 0) {
            return *id;
        }
        let found = self.stacks.as_ref().and_then(|stacks| stacks.site(site));
        let Some((file, offset)) = found.filter(|_| site != NO_SITE) else {
            return tables.native_code(tables.name("?"), tables.name("?"));
        };
        let id = tables.native_code(tables.name(&format!("{offset:#x}")), tables.name(file));
        if self.codes.len() <= index {
            self.codes.resize(index + 1, 0);
        }
        self.codes[index] = id;
        id
    }
}

/// The thread that holds the mutex of the C library whose waiters sleep at `futex`; None when that
/// is no such mutex, as far as its fields tell. Source: `struct __pthread_mutex_s` of glibc 2.x on
/// 64 bits: lock, count, owner, users, kind, 4 bytes each. Rust's own mutex names no owner.
pub(crate) fn mutex_owner(mem: &Reader, futex: u64) -> Option<u32> {
    /// Locked, and somebody waits.
    const CONTENDED: u32 = 2;
    /// Normal, recursive, error-checking and adaptive mutexes; above are bits of their own.
    const KINDS: u32 = 4;
    const KIND_BITS: u32 = 0x7f;
    if !cfg!(all(target_env = "gnu", target_pointer_width = "64")) {
        return None;
    }
    let mut bytes = [0u8; 20];
    mem.read(futex as usize, &mut bytes).ok()?;
    let mut fields = [0u32; 5];
    for (field, bytes) in fields.iter_mut().zip(bytes.chunks_exact(4)) {
        *field = bytes.try_into().map(u32::from_le_bytes).unwrap_or_default();
    }
    let [lock, _, owner, users, kind] = fields;
    (lock == CONTENDED && owner != 0 && users != 0 && kind & KIND_BITS < KINDS).then_some(owner)
}
