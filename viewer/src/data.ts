// The page's data, unpacked. crates/view/src/whole.rs writes it.
//
// Times are ns since the page's time zero. `stack` 0 is none; `holder` and `culprit` are a thread's
// index plus 1, 0 none. Lists of times arrive as differences and are summed up here, once.

export type Ints = number[];

export interface SourceLines { first: number; lines: string[]; changed: boolean }
export interface Place {
  function: string; qualified: string; file: string; line: number; module: string; source?: SourceLines | null;
}
export interface Cause {
  rank: number; cause: string; share: number; confidence: string; slow_requests: number;
  normal_requests: number; summary: string; where: Place | null; culprit: Place | null;
  target: string | null; evidence: { what: string; value: number; unit: string }[];
  missing: string[]; advice: string;
}
export interface Verdict {
  capture: {
    file: string; service: string; host: string; pid: number; reason: string;
    sources: Record<string, string>; losses: { what: string; count: number }[];
  };
  requests: {
    total: number; slow: number; threshold_ms: number | null; typical_ms: number | null; worst_ms: number;
  };
  causes: Cause[];
  unexplained_share: number;
}
export interface Requests {
  name: Ints; thread: Ints; begin: Ints; waited: Ints; length: Ints; flags: Ints;
}
export interface Slices {
  from: Ints; length: Ints; thread: Ints; state: Ints; exact: Ints; cause: Ints; stack: Ints;
  culprit: Ints; culprit_stack: Ints; measured: Ints; target: Ints;
}
export interface Detail {
  request: number; id: string; has_all_threads: boolean; attributes: number; lanes: Ints; lanes_left: number;
  slices: Slices;
}
export interface States {
  thread: number; covered: Ints; from: Ints; length: Ints; state: Ints; exact: Ints; wait: Ints;
  stack: Ints; holder: Ints; measured: Ints; target: Ints;
}
export interface Spans {
  name: Ints; thread: Ints; begin: Ints; length: Ints; request: Ints; error: Ints; attributes: Ints;
}
export interface Vital { name: string; at: Ints; value: (number | null)[] }
export interface Data {
  schema: number;
  verdict: Verdict;
  text: string;
  markdown: string;
  members: Ints[];
  about: {
    version: string; runtime: string; slow_rule: string; zero_epoch_ms: number; from: number;
    to: number; horizon: number; torn_blocks: number;
  };
  cause_names: string[];
  wait_names: string[];
  requests: Requests;
  details: Detail[];
  states: States[];
  spans: Spans;
  events: { name: Ints; thread: Ints; at: Ints; request: Ints; attributes: Ints };
  tasks: { thread: Ints; queued: Ints; begin: Ints; end: Ints; request: Ints };
  gcs: { thread: Ints; begin: Ints; length: Ints; generation: Ints; collected: Ints };
  gil: { from: Ints; length: Ints; thread: Ints };
  vitals: Vital[];
  coverage: {
    thread: Ints; left: number; read: Ints; before: Ints; between: Ints; after: Ints; dropped: Ints;
  };
  damage: string[];
  left_out: string[];
  names: string[];
  frames: { function: Ints; file: Ints; line: Ints; owner: Ints };
  stacks: { parent: Ints; frame: Ints };
  threads: { tid: Ints; name: Ints };
}

export const SLOW = 1, ERROR = 2, OPEN = 4, ON_LOOP = 8;
export const RUN = 0, READY = 1, WAIT = 2, UNKNOWN = 3;
export const STATE_NAMES = ["on CPU", "ready, no CPU", "waiting", "not seen"];
/** Of a frame: own code, library, interpreter, dashcam, a server that takes requests in, native code that
 * the interpreter called. */
export const OWN = 0, LIBRARY = 1, INTERPRETER = 2, SERVER = 4, NATIVE = 5;

function sum(steps: Ints): void {
  for (let i = 1; i < steps.length; i++) steps[i] += steps[i - 1];
}

/** Unpacks base64 of a zlib stream of JSON. */
export async function unpack(text: string): Promise<Data> {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text()) as Data;
  if (data.schema !== 1) throw new Error(`page data has schema ${data.schema}, wanted 1`);
  sum(data.requests.begin);
  data.details = data.details.filter((d) => d.request >= 0);
  for (const detail of data.details) sum(detail.slices.from);
  for (const states of data.states) { sum(states.covered); sum(states.from); }
  for (const times of [data.spans.begin, data.events.at, data.gcs.begin, data.gil.from]) sum(times);
  for (const vital of data.vitals) sum(vital.at);
  return data;
}

/** Rows by the request they belong to. */
function gather(requests: Ints, into: Map<number, Ints>): void {
  requests.forEach((request, i) => {
    if (request < 0) return;
    const known = into.get(request);
    if (known) known.push(i); else into.set(request, [i]);
  });
}

/** Data, and the queries of the views. */
export class Book {
  readonly detailOf = new Map<number, Detail>();
  readonly statesOf = new Map<number, States>();
  /** Spans of each request, by begin. */
  readonly spansOf = new Map<number, Ints>();

  /** Events of each request, by time. */
  readonly eventsOf = new Map<number, Ints>();
  /** The request of an id, of those with a timeline. */
  readonly requestOf = new Map<string, number>();
  /** Lines of source that came with the verdict, by `file:line`. */
  readonly sources = new Map<string, string>();
  private readonly stretches = new Map<Slices, Ints>();

  constructor(readonly data: Data) {
    for (const detail of data.details) {
      this.detailOf.set(detail.request, detail);
      this.requestOf.set(detail.id, detail.request);
    }
    for (const place of data.verdict.causes.flatMap((c) => [c.where, c.culprit])) {
      const line = place?.source?.lines[place.line - place.source.first];
      if (place && line) this.sources.set(`${place.file}:${place.line}`, line.trim());
    }
    for (const states of data.states) this.statesOf.set(states.thread, states);
    gather(data.spans.request, this.spansOf);
    gather(data.events.request, this.eventsOf);
  }

  isSlow(request: number): boolean { return (this.data.requests.flags[request] & SLOW) !== 0; }
  name(id: number): string { return this.data.names[id] ?? "?"; }
  requestName(request: number): string { return this.name(this.data.requests.name[request]); }
  end(request: number): number {
    return this.data.requests.begin[request] + this.data.requests.length[request];
  }

  thread(id: number): string {
    const { tid, name } = this.data.threads;
    const text = this.name(name[id]);
    return text ? `${text} (${tid[id]})` : `thread ${tid[id]}`;
  }

  /** Frames of a stack, innermost first. */
  frames(stack: number): number[] {
    const out: number[] = [];
    const { parent, frame } = this.data.stacks;
    for (let at = stack; at > 0 && at < frame.length; at = parent[at]) out.push(frame[at]);
    return out;
  }

  /** `price()`, without its class. */
  functionName(frame: number): string {
    return this.name(this.data.frames.function[frame]);
  }

  /** `geocache.py:41`; the file alone of native code whose line is not known. */
  place(frame: number): string {
    const { file, line } = this.data.frames;
    const name = this.name(file[frame]).split("/").pop()!;
    return line[frame] === 0 ? name : `${name}:${line[frame]}`;
  }

  /** The innermost frame of the program's own code, else of a library, else any; -1 without. */
  ownFrame(stack: number): number {
    const frames = this.frames(stack);
    const owner = this.data.frames.owner;
    for (const wanted of [OWN, LIBRARY]) {
      const found = frames.find((f) => owner[f] === wanted);
      if (found !== undefined) return found;
    }
    return frames[0] ?? -1;
  }

  /** `backoff() refresh.py:28` of a stack. */
  where(stack: number): string {
    const frame = this.ownFrame(stack);
    return frame < 0 ? "not seen" : `${this.functionName(frame)}() ${this.place(frame)}`;
  }

  /** The line of source of a frame, if the verdict came with it; "" else. */
  source(frame: number): string {
    const { file, line } = this.data.frames;
    return this.sources.get(`${this.name(file[frame])}:${line[frame]}`) ?? "";
  }

  /**
   * For each slice the first one of its stretch: slices that touch, of one cause, resource and place.
   * Native frames come and go with each sample; a computation changes its line.
   */
  stretch(slices: Slices): Ints {
    let begins = this.stretches.get(slices);
    if (begins) return begins;
    const { function: named, file } = this.data.frames;
    const place = (i: number) => {
      const frame = this.ownFrame(slices.stack[i]);
      return (slices.state[i] === RUN || slices.state[i] === READY) && frame >= 0 ? `${named[frame]} ${file[frame]}` : String(frame);
    };
    const key = (i: number) => [slices.cause[i], slices.thread[i], slices.exact[i], slices.target[i], place(i)].join("|");
    begins = [];
    let last = "";
    for (let i = 0; i < slices.from.length; i++) {
      const own = key(i);
      const touches = i > 0 && slices.from[i - 1] + slices.length[i - 1] === slices.from[i];
      begins.push(touches && own === last ? begins[i - 1] : i);
      last = own;
    }
    this.stretches.set(slices, begins);
    return begins;
  }

  cause(id: number): string { return this.data.cause_names[id] ?? "unknown"; }
}
