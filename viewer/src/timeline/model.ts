// The rows below a request: what is drawn, without drawing it.
//
// From top to bottom: the request's time by cause; its spans, nested; the states of its own thread
// and of the threads it waited for; the GIL's holder; collections; counters.

import { RUN, type Book, type Detail, type States, type Vital } from "../data.ts";
import { unitOf } from "../format.ts";

export interface Row {
  kind: "request" | "state" | "gil" | "gc" | "vital" | "spans" | "events";
  label: string;
  note: string;
  height: number;
  top: number;
  thread: number;
  states?: States;
  spans?: number[];
  events?: number[];
  vital?: Line;
}
/** A counter as a line: a rate if it only counts up. */
export interface Line { name: string; unit: string; at: number[]; value: number[]; most: number }
export interface Model {
  request: number;
  detail: Detail;
  rows: Row[];
  height: number;
  begin: number;
  end: number;
  /** Thread -> index in `rows`. */
  rowOf: Map<number, number>;
}

const MOST_DEPTH = 8;
export const RULER = 26;
const GAP = 4;
/** Below threads, for the arrows between them. */
const WIDE_GAP = 14;

export function model(book: Book, request: number, everyThread = false): Model | null {
  const detail = book.detailOf.get(request);
  if (!detail) return null;
  const { requests } = book.data;
  const [begin, end] = [requests.begin[request], book.end(request)];
  const rows: Row[] = [];
  const add = (row: Partial<Row> & Pick<Row, "kind" | "label" | "height">) =>
    rows.push({ note: "", top: 0, thread: -1, ...row });
  add({ kind: "request", label: "time by cause", note: book.requestName(request), height: 26 });
  nested(book, request).forEach((spans, depth) =>
    add({ kind: "spans", label: depth === 0 ? "spans" : "", height: 18, spans }));
  const events = book.eventsOf.get(request);
  if (events) add({ kind: "events", label: "events", height: 18, events });
  detail.lanes.forEach((thread, i) => {
    const note = i === 0 ? "its own thread" : waitedFor(book, detail, thread);
    add({ kind: "state", label: book.thread(thread), note, height: 30, thread,
      states: book.statesOf.get(thread) });
  });
  for (const states of everyThread ? others(book, detail, begin, end) : []) {
    add({ kind: "state", label: book.thread(states.thread), height: 22, thread: states.thread, states });
  }
  const { gil, gcs } = book.data;
  const during = (from: number[], length: number[]) =>
    from.some((t, i) => t <= end && t + length[i] >= begin);
  if (during(gil.from, gil.length)) add({ kind: "gil", label: "GIL held by", note: "as waiters saw it", height: 26 });
  if (during(gcs.begin, gcs.length)) add({ kind: "gc", label: "collections", height: 20 });
  for (const vital of lines(book.data.vitals)) {
    if (!moves(vital, begin, end)) continue;
    add({ kind: "vital", label: vital.name, note: vital.unit, height: 26, vital });
  }
  let top = RULER;
  const rowOf = new Map<number, number>();
  rows.forEach((row, i) => {
    row.top = top;
    top += row.height + (row.kind === "state" && rows[i + 1]?.kind === "state" ? WIDE_GAP : GAP);
    if (row.kind === "state") rowOf.set(row.thread, i);
  });
  return { request, detail, rows, height: top + 2, begin, end, rowOf };
}

/** A counter is worth its row if it changed by this part of its largest value. */
const LEAST_CHANGE = 0.05;

function moves(line: Line, begin: number, end: number): boolean {
  const pad = (end - begin) / 10;
  const near = line.value.filter((_, i) => line.at[i] >= begin - pad && line.at[i] <= end + pad);
  return near.length > 1 && Math.max(...near) - Math.min(...near) > line.most * LEAST_CHANGE;
}

/** The threads that the request had nothing to do with, the busiest first. */
function others(book: Book, detail: Detail, begin: number, end: number): States[] {
  const ran = (s: States) => s.from.reduce((sum, from, i) => sum + (s.state[i] !== RUN ? 0
    : Math.max(0, Math.min(from + s.length[i], end) - Math.max(from, begin))), 0);
  const during = (s: States) => s.from.some((from, i) => from < end && from + s.length[i] > begin);
  return book.data.states.filter((s) => !detail.lanes.includes(s.thread) && during(s))
    .map((s) => [ran(s), s] as const).sort((a, b) => b[0] - a[0]).map(([, s]) => s);
}

function waitedFor(book: Book, detail: Detail, thread: number): string {
  const { slices } = detail;
  const worked = slices.thread.includes(thread);
  const blamed = slices.culprit.includes(thread + 1);
  if (blamed) return "in its way";
  if (worked) return "worked for it";
  const chained = detail.lanes.some((lane) => book.statesOf.get(lane)?.holder.includes(thread + 1));
  return chained ? "waited for" : "";
}

/** Spans of a request by depth; a span lies in the first depth where it overlaps none. */
function nested(book: Book, request: number): number[][] {
  const { begin, length } = book.data.spans;
  const depths: number[][] = [];
  const ends: number[] = [];
  const spans = [...(book.spansOf.get(request) ?? [])];
  spans.sort((a, b) => begin[a] - begin[b] || length[b] - length[a]);
  for (const span of spans) {
    let depth = ends.findIndex((end) => end <= begin[span]);
    if (depth < 0) depth = ends.length;
    // The deepest row also takes spans nested deeper still.
    depth = Math.min(depth, MOST_DEPTH - 1);
    (depths[depth] ??= []).push(span);
    ends[depth] = begin[span] + length[span];
  }
  return depths;
}

const SHOWN = ["process_cpu_ns", "psi_cpu_some_avg10_percent", "cgroup_throttled_ns", "major_faults", "rss_bytes", "threads"];
const COUNTERS = /^(process_cpu_ns|minor_faults|major_faults|cgroup_|.*_total_us|host_steal|.*_switches)/;

/** The counters worth a row: those whose values vary, and rates of those that only count up. */
export function lines(vitals: Vital[], shown: string[] = SHOWN): Line[] {
  const wanted = shown.map((name) => vitals.find((v) => v.name === name));
  return wanted.flatMap((vital) => {
    const line = vital && toLine(vital);
    return line && (line.most > 0 || vital.name === "process_cpu_ns") ? [line] : [];
  });
}

export function toLine(vital: Vital): Line | null {
  const [name, unit] = unitOf(vital.name);
  const rows = vital.at.map((t, i) => [t, vital.value[i]] as const)
    .filter((row): row is readonly [number, number] => row[1] !== null);
  if (rows.length < 2) return null;
  if (!COUNTERS.test(vital.name)) {
    const value = rows.map((row) => row[1]);
    return { name, unit, at: rows.map((row) => row[0]), value, most: Math.max(...value) };
  }
  const rate = rows.slice(1).map(([t, v], i) =>
    Math.max(0, v - rows[i][1]) / Math.max((t - rows[i][0]) / 1e9, 1e-3));
  // Nanoseconds per second are a share of one CPU.
  const value = unit === "ns" ? rate.map((v) => v / 1e7) : rate;
  const shown = unit === "ns" ? "% of a CPU" : `${unit} a second`.trim();
  return { name, unit: shown, at: rows.slice(1).map((row) => row[0]), value, most: Math.max(...value) };
}
