// Draws a model between two times. Only the visible part of rows is drawn, and for items narrower
// than a pixel one mark for each pixel, so that the cost follows the width of the screen.
//
// Readable without colour: on CPU is a full bar, ready a bar of two thirds, a wait a third with its
// kind written in it, not seen a dotted line. Estimates are hatched.

import { READY, RUN, UNKNOWN, WAIT, type Book, type States } from "../data.ts";
import { cut } from "../dom.ts";
import { clock, duration, step, tick } from "../format.ts";
import { causeColour, colours, hatch, hue } from "../theme.ts";
import { first } from "../scatter.ts";
import { RULER, type Line, type Model, type Row } from "./model.ts";

type Pen = CanvasRenderingContext2D;
export interface View { from: number; to: number; left: number; width: number }

export const FONT = "11px system-ui, sans-serif";

export function x(view: View, t: number): number {
  return view.left + ((t - view.from) / (view.to - view.from)) * view.width;
}

/** Height of a state's bar, as a part of its row. */
const HEIGHTS = [1, 0.66, 0.44, 0.1];

export function drawModel(pen: Pen, book: Book, model: Model, view: View, search: string): void {
  const ink = colours();
  pen.font = FONT;
  pen.textBaseline = "middle";
  ruler(pen, book, model, view);
  shade(pen, model, view);
  pen.save();
  pen.beginPath();
  pen.rect(view.left, RULER, view.width, model.height);
  pen.clip();
  for (const row of model.rows) drawRow(pen, book, model, row, view, search);
  edges(pen, book, model, view);
  pen.restore();
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
}

function ruler(pen: Pen, book: Book, model: Model, view: View): void {
  const ink = colours();
  const gap = step(view.to - view.from, view.width / 90);
  pen.fillStyle = ink.soft;
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  pen.textAlign = "left";
  // Counted from the request's begin.
  const start = Math.ceil((view.from - model.begin) / gap);
  const right = view.left + view.width;
  let free = view.left;
  for (let i = start; i * gap + model.begin <= view.to; i++) {
    const t = i * gap;
    const at = Math.round(x(view, t + model.begin)) + 0.5;
    pen.beginPath();
    pen.moveTo(at, RULER - 6);
    pen.lineTo(at, model.height);
    pen.stroke();
    // Beside its line; the last one on the other side, where it would be cut.
    const label = tick(t, gap, view.to - view.from);
    const width = pen.measureText(label).width;
    const begin = at + 3 + width <= right ? at + 3 : at - 3 - width;
    if (begin < free) continue;
    pen.fillText(label, begin, 9);
    free = begin + width + 10;
  }
  pen.textAlign = "right";
  const from = clock(book.data.about.zero_epoch_ms + view.from / 1e6, 3);
  pen.fillText(view.left > 120 ? `from ${from}` : from, view.left - 8, 9);
  pen.textAlign = "left";
}

/** The time before and after the request is darker. */
function shade(pen: Pen, model: Model, view: View): void {
  const ink = colours();
  const [begin, end] = [x(view, model.begin), x(view, model.end)];
  const right = view.left + view.width;
  pen.globalAlpha = 0.5;
  pen.fillStyle = ink.line;
  if (begin > view.left) pen.fillRect(view.left, RULER, Math.min(begin, right) - view.left, model.height);
  if (end < right) pen.fillRect(Math.max(end, view.left), RULER, right - Math.max(end, view.left), model.height);
  pen.globalAlpha = 1;
}

function drawRow(pen: Pen, book: Book, model: Model, row: Row, view: View, search: string): void {
  if (row.kind === "request") slices(pen, book, model, row, view);
  else if (row.kind === "spans") spans(pen, book, row, view, search);
  else if (row.kind === "events") events(pen, book, row, view, search);
  else if (row.kind === "state") states(pen, book, row, view, search);
  else if (row.kind === "gil") holders(pen, book, row, view);
  else if (row.kind === "gc") collections(pen, book, row, view);
  else vital(pen, row, view);
}

/** A bar with text in it. */
function bar(
  pen: Pen, left: number, right: number, top: number, height: number, fill: string, text: string,
  estimated: boolean, view: View,
): void {
  const ink = colours();
  const [a, b] = [Math.max(left, view.left - 2), Math.min(right, view.left + view.width + 2)];
  const width = Math.max(b - a, 1);
  pen.fillStyle = fill;
  pen.fillRect(a, top, width, height);
  if (estimated) {
    pen.fillStyle = hatch(pen, ink.mark);
    pen.fillRect(a, top, width, height);
  }
  if (width < 18 || height < 11) return;
  pen.strokeStyle = ink.mark;
  pen.lineWidth = 1;
  pen.setLineDash(estimated ? [3, 3] : []);
  pen.strokeRect(a + 0.5, top + 0.5, width - 1, height - 1);
  pen.setLineDash([]);
  const label = cut(pen, text, width - 8);
  if (label === "") return;
  if (estimated) {
    pen.fillStyle = fill;
    pen.fillRect(a + 2, top + 2, pen.measureText(label).width + 5, height - 4);
  }
  pen.fillStyle = ink.ink;
  pen.fillText(label, a + 4, top + height / 2 + 0.5);
}

function slices(pen: Pen, book: Book, model: Model, row: Row, view: View): void {
  const p = model.detail.slices;
  const begins = book.stretch(p);
  let i = 0;
  while (i < p.from.length) {
    let [end, length] = [i + 1, p.length[i]];
    while (end < p.from.length && begins[end] === i) length += p.length[end++];
    const [left, right] = [x(view, p.from[i]), x(view, p.from[end - 1] + p.length[end - 1])];
    if (right >= view.left && left <= view.left + view.width) {
      const cause = book.cause(p.cause[i]);
      const frame = book.ownFrame(p.stack[i]);
      const where = frame < 0 ? "" : ` ${book.functionName(frame)}()`;
      bar(pen, left, right, row.top, row.height, causeColour(cause),
        `${cause}${where} ${duration(length)}`, p.exact[i] === 0, view);
    }
    i = end;
  }
}

function spans(pen: Pen, book: Book, row: Row, view: View, search: string): void {
  const ink = colours();
  const { begin, length, name, error } = book.data.spans;
  let drawn = -1;
  for (const span of row.spans ?? []) {
    const [left, right] = [x(view, begin[span]), x(view, begin[span] + length[span])];
    if (right < view.left || left > view.left + view.width) continue;
    if (right - left < 1 && Math.floor(right) === drawn) continue;
    drawn = Math.floor(right);
    const text = book.name(name[span]) + (error[span] ? " ✕ error" : "");
    const found = search !== "" && text.toLowerCase().includes(search);
    bar(pen, left, right, row.top, row.height, found ? ink.hot : ink.span,
      `${text} ${duration(length[span])}`, false, view);
  }
}

/** Diamonds; the name beside a diamond if there is room. */
function events(pen: Pen, book: Book, row: Row, view: View, search: string): void {
  const ink = colours();
  const { at, name } = book.data.events;
  let [drawn, labelled] = [-9, -9];
  for (const event of row.events ?? []) {
    const middle = x(view, at[event]);
    if (middle < view.left || middle > view.left + view.width || middle - drawn < 2) continue;
    drawn = middle;
    const text = book.name(name[event]);
    const found = search !== "" && text.toLowerCase().includes(search);
    const y = row.top + row.height / 2;
    pen.fillStyle = found ? ink.hot : ink.accent;
    pen.beginPath();
    pen.moveTo(middle, y - 5);
    pen.lineTo(middle + 4, y);
    pen.lineTo(middle, y + 5);
    pen.lineTo(middle - 4, y);
    pen.fill();
    if (middle < labelled) continue;
    pen.fillStyle = ink.ink;
    const label = cut(pen, text, 160);
    pen.fillText(label, middle + 7, y + 0.5);
    labelled = middle + 14 + pen.measureText(label).width;
  }
}

/** Time that is not in the page is drawn like time that was not seen. */
function gaps(pen: Pen, states: States | undefined, row: Row, view: View): void {
  const ink = colours();
  pen.strokeStyle = ink.unknown;
  pen.lineWidth = 1;
  pen.setLineDash([1, 5]);
  pen.beginPath();
  const line = (from: number, to: number) => {
    const [a, b] = [Math.max(x(view, from), view.left), Math.min(x(view, to), view.left + view.width)];
    if (b <= a) return;
    pen.moveTo(a, row.top + row.height / 2);
    pen.lineTo(b, row.top + row.height / 2);
  };
  let at = view.from;
  const covered = states?.covered ?? [];
  for (let i = 0; i < covered.length; i += 2) {
    if (covered[i] > at) line(at, Math.min(covered[i], view.to));
    at = Math.max(at, covered[i + 1]);
  }
  if (at < view.to) line(at, view.to);
  pen.stroke();
  pen.setLineDash([]);
}

function states(pen: Pen, book: Book, row: Row, view: View, search: string): void {
  const s = row.states;
  gaps(pen, s, row, view);
  if (!s) return;
  const right = view.left + view.width;
  let [pixel, spent] = [-1, [0, 0, 0, 0]];
  const flush = () => {
    if (pixel < 0) return;
    const most = spent.indexOf(Math.max(...spent));
    block(pen, most, pixel, pixel + 1, row, "", false, view);
    pixel = -1;
    spent = [0, 0, 0, 0];
  };
  for (let i = Math.max(0, first(s.from, view.from) - 1); i < s.from.length; i++) {
    const [a, b] = [x(view, s.from[i]), x(view, s.from[i] + s.length[i])];
    if (a > right) break;
    if (b < view.left) continue;
    if (b - a < 1) {
      if (Math.floor(a) !== pixel) flush();
      pixel = Math.floor(a);
      spent[s.state[i]] += s.length[i];
      continue;
    }
    flush();
    const text = stateText(book, s, i);
    block(pen, s.state[i], a, b, row, text, s.exact[i] === 0, view);
    if (search !== "" && matches(book, s.stack[i], search)) underline(pen, a, b, row, view);
  }
  flush();
}

export function matches(book: Book, stack: number, search: string): boolean {
  return book.frames(stack).some((f) => book.functionName(f).toLowerCase().includes(search) ||
    book.place(f).toLowerCase().includes(search));
}

function underline(pen: Pen, a: number, b: number, row: Row, view: View): void {
  pen.fillStyle = colours().hot;
  const left = Math.max(a, view.left);
  pen.fillRect(left, row.top + row.height - 3, Math.min(b, view.left + view.width) - left, 3);
}

export function stateText(book: Book, s: States, i: number): string {
  const frame = book.ownFrame(s.stack[i]);
  const where = frame < 0 ? "" : ` in ${book.functionName(frame)}()`;
  if (s.state[i] === WAIT) return `${book.data.wait_names[s.wait[i]] ?? "wait"}${where}`;
  if (s.state[i] === RUN) return `on CPU${where}`;
  return s.state[i] === READY ? `ready, no CPU${where}` : "not seen";
}

function block(
  pen: Pen, state: number, a: number, b: number, row: Row, text: string, estimated: boolean,
  view: View,
): void {
  const ink = colours();
  const fill = [ink.run, ink.ready, ink.wait, ink.unknown][state];
  const height = Math.max(2, Math.round(row.height * HEIGHTS[state]));
  const top = state === UNKNOWN ? row.top + row.height / 2 : row.top + row.height - height;
  bar(pen, a, b, top, height, fill, text, estimated && state !== UNKNOWN, view);
}

function holders(pen: Pen, book: Book, row: Row, view: View): void {
  const { from, length, thread } = book.data.gil;
  let drawn = -1;
  for (let i = 0; i < from.length; i++) {
    const [a, b] = [x(view, from[i]), x(view, from[i] + length[i])];
    if (b < view.left || a > view.left + view.width) continue;
    if (b - a < 1 && Math.floor(a) === drawn) continue;
    drawn = Math.floor(a);
    const name = book.thread(thread[i]);
    // Samples: always an estimate.
    bar(pen, a, b, row.top, row.height, hue(name), name, true, view);
  }
}

function collections(pen: Pen, book: Book, row: Row, view: View): void {
  const { begin, length, generation, thread } = book.data.gcs;
  let drawn = -1;
  for (let i = 0; i < begin.length; i++) {
    const [a, b] = [x(view, begin[i]), x(view, begin[i] + length[i])];
    if (b < view.left || a > view.left + view.width) continue;
    if (b - a < 1 && Math.floor(a) === drawn) continue;
    drawn = Math.floor(a);
    const text = `gen ${generation[i]} on ${book.thread(thread[i])} ${duration(length[i])}`;
    bar(pen, a, b, row.top, row.height, colours().gc, text, false, view);
  }
}

function vital(pen: Pen, row: Row, view: View): void {
  const line = row.vital;
  if (!line) return;
  const ink = colours();
  const most = line.most || 1;
  const y = (value: number) => row.top + row.height - 2 - (value / most) * (row.height - 6);
  pen.strokeStyle = ink.accent;
  pen.lineWidth = 1.4;
  pen.beginPath();
  const from = Math.max(0, first(line.at, view.from) - 1);
  let begun = false;
  for (let i = from; i < line.at.length; i++) {
    // A value covers the time since the previous one.
    const [a, b] = [x(view, line.at[i - 1] ?? line.at[i]), x(view, line.at[i])];
    if (begun) pen.lineTo(a, y(line.value[i])); else pen.moveTo(a, y(line.value[i]));
    begun = true;
    pen.lineTo(b, y(line.value[i]));
    if (line.at[i] > view.to) break;
  }
  pen.stroke();
}

/** Its value at the middle of the visible part. */
export function vitalText(line: Line, view: View): string {
  const middle = first(line.at, (view.from + view.to) / 2);
  return amount(line.value[Math.min(middle, line.value.length - 1)], line.unit);
}

export function amount(value: number, unit: string): string {
  if (unit === "bytes") return `${(value / (1 << 20)).toFixed(1)} MiB`;
  const text = value < 10 && !Number.isInteger(value) ? value.toFixed(1) : value.toFixed(0);
  return `${text} ${unit}`.trim();
}

/** At most this many edges, the widest, are drawn; more would cover the rows. */
const MOST_EDGES = 20;

interface Edge { from: number; to: number; up: number; down: number; measured: boolean }

/** From each wait to the holder of its resource: full where the holder was read, dashed where it
 * was inferred. */
function edges(pen: Pen, book: Book, model: Model, view: View): void {
  const least = ((view.to - view.from) / view.width) * 6;
  const seen = joined(collect(book, model, view), least).filter((e) => e.to - e.from >= least);
  // The request's own waits first, then the blocking chain behind them; the longest first.
  const own = model.rowOf.get(model.detail.lanes[0]);
  seen.sort((a, b) => Number(b.up === own) - Number(a.up === own) || (b.to - b.from) - (a.to - a.from));
  const used: number[] = [];
  for (const edge of seen.slice(0, MOST_EDGES)) {
    // Waits of one chain have the same middle: side by side they are distinct.
    let at = Math.round(x(view, (Math.max(edge.from, view.from) + Math.min(edge.to, view.to)) / 2)) + 0.5;
    while (used.some((other) => Math.abs(other - at) < 12)) at += 12;
    used.push(at);
    arrow(pen, model, at, edge);
  }
}

function collect(book: Book, model: Model, view: View): Edge[] {
  const found: Edge[] = [];
  const add = (thread: number, holder: number, from: number, to: number, measured: boolean) => {
    const [up, down] = [model.rowOf.get(thread), model.rowOf.get(holder)];
    if (up === undefined || down === undefined || up === down) return;
    if (to >= view.from && from <= view.to) found.push({ from, to, up, down, measured });
  };
  for (const row of model.rows) {
    const s = row.states;
    if (!s) continue;
    for (let i = Math.max(0, first(s.from, view.from) - 1); i < s.from.length && s.from[i] < view.to; i++) {
      if (s.holder[i]) add(row.thread, s.holder[i] - 1, s.from[i], s.from[i] + s.length[i], s.measured[i] === 1);
    }
  }
  const p = model.detail.slices;
  for (let i = 0; i < p.from.length; i++) {
    if (p.culprit[i]) add(p.thread[i], p.culprit[i] - 1, p.from[i], p.from[i] + p.length[i], p.measured[i] === 1);
  }
  const tasks = book.data.tasks;
  for (let i = 0; i < tasks.request.length; i++) {
    if (tasks.request[i] !== model.request) continue;
    add(model.detail.lanes[0], tasks.thread[i], tasks.queued[i], tasks.end[i], true);
  }
  return found;
}

/** Touching edges between the same threads are one; it is measured if any part of it is. */
function joined(edges: Edge[], slack: number): Edge[] {
  edges.sort((a, b) => a.up - b.up || a.down - b.down || a.from - b.from);
  const out: Edge[] = [];
  for (const edge of edges) {
    const last = out.at(-1);
    if (last && last.up === edge.up && last.down === edge.down && edge.from <= last.to + slack) {
      last.to = Math.max(last.to, edge.to);
      last.measured ||= edge.measured;
    } else out.push({ ...edge });
  }
  return out;
}

function arrow(pen: Pen, model: Model, at: number, edge: Edge): void {
  const ink = colours();
  const [up, down] = [model.rows[edge.up], model.rows[edge.down]];
  const downwards = down.top > up.top;
  const y0 = downwards ? up.top + up.height : up.top + up.height * 0.56;
  const y1 = downwards ? down.top + down.height * 0.4 : down.top + down.height;
  const tip = downwards ? -7 : 7;
  pen.strokeStyle = pen.fillStyle = ink.slow;
  pen.lineWidth = 2;
  pen.setLineDash(edge.measured ? [] : [4, 3]);
  pen.beginPath();
  pen.moveTo(at, y0);
  pen.lineTo(at, y1 + tip);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.arc(at, y0, 3, 0, 7);
  pen.moveTo(at, y1);
  pen.lineTo(at - 5, y1 + tip);
  pen.lineTo(at + 5, y1 + tip);
  pen.fill();
}
