// Latency over time: a dot for each request. uPlot has the axes, the scales and the brush. The dots
// are drawn here, since a slow request must be visible by its shape: a filled triangle among small
// rings. A cross is an error, a hollow triangle a request that had not ended.

import uPlot from "uplot";
import { ERROR, OPEN, SLOW } from "./data.ts";
import { h } from "./dom.ts";
import { clock, count, duration } from "./format.ts";
import type { Store } from "./store.ts";
import { colours, onTheme } from "./theme.ts";

const HEIGHT = 230;
/** Steps of the time axis, s. */
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 3600];
/** Height of a label, pixels. */
const LABEL = 15;
/** The largest distance of a click from its dot, pixels. */
const REACH = 14;

export function scatterView(store: Store): HTMLElement {
  const { book } = store;
  const { requests, about, verdict } = book.data;
  const report = h("p", { class: "report", role: "status" });
  const box = h("div", { class: "chart", "data-chart": "scatter" });
  const seconds = (ns: number) => (about.zero_epoch_ms + ns / 1e6) / 1000;
  const xs = requests.begin.map(seconds);
  const ys = requests.length.map((ns) => Math.max(ns / 1e6, 0.001));
  const selected = new Uint8Array(xs.length);

  function draw(plot: uPlot): void {
    const pen = plot.ctx;
    const scale = devicePixelRatio || 1;
    const { left, top, width, height } = plot.bbox;
    pen.save();
    limit(plot, pen, scale);
    pen.beginPath();
    pen.rect(left - 8, top - 8, width + 16, height + 16);
    pen.clip();
    const everything = store.selection.length === 0;
    const at = (i: number) => [plot.valToPos(xs[i], "x", true), plot.valToPos(ys[i], "y", true)] as const;
    const plain = (i: number) => (requests.flags[i] & (SLOW | ERROR)) === 0;
    // The many normal dots in one stroke: a path for each would be the largest cost.
    for (const on of [0, 1]) {
      pen.globalAlpha = everything || on ? 1 : 0.38;
      pen.strokeStyle = colours().normal;
      pen.lineWidth = 1.4 * scale;
      pen.beginPath();
      for (let i = 0; i < xs.length; i++) {
        if (!plain(i) || selected[i] !== on) continue;
        const [x, y] = at(i);
        pen.moveTo(x + 2.4 * scale, y);
        pen.arc(x, y, 2.4 * scale, 0, 7);
      }
      pen.stroke();
    }
    for (let i = 0; i < xs.length; i++) {
      if (plain(i)) continue;
      pen.globalAlpha = everything || selected[i] ? 1 : 0.38;
      dot(pen, ...at(i), requests.flags[i], scale, book.detailOf.has(i));
    }
    pen.globalAlpha = 1;
    pen.restore();
    ring();
  }

  function limit(plot: uPlot, pen: CanvasRenderingContext2D, scale: number): void {
    if (verdict.requests.threshold_ms === null) return;
    const y = plot.valToPos(verdict.requests.threshold_ms, "y", true);
    pen.strokeStyle = pen.fillStyle = colours().slow;
    pen.setLineDash([6 * scale, 4 * scale]);
    pen.beginPath();
    pen.moveTo(plot.bbox.left, y);
    pen.lineTo(plot.bbox.left + plot.bbox.width, y);
    pen.stroke();
    pen.setLineDash([]);
    // Among the labels of the axis, where no dot is.
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.font = `600 ${12 * scale}px system-ui, sans-serif`;
    pen.fillText(duration(verdict.requests.threshold_ms * 1e6), plot.bbox.left - 15 * scale, y);
  }

  /** The powers of ten whose labels keep clear of the limit's. */
  function labelled(plot: uPlot, at: number[]): (number | null)[] {
    const limit = verdict.requests.threshold_ms;
    if (limit === null) return at;
    const y = plot.valToPos(limit, "y");
    return at.map((ms) => (Math.abs(plot.valToPos(ms, "y") - y) < LABEL ? null : ms));
  }

  /** Around the chosen dot; an element of its own, so that choosing redraws nothing. */
  const mark = h("div", { class: "chosen", hidden: true });
  function ring(): void {
    mark.hidden = store.chosen < 0 || !plot;
    if (mark.hidden) return;
    mark.style.left = `${plot!.valToPos(xs[store.chosen], "x")}px`;
    mark.style.top = `${plot!.valToPos(ys[store.chosen], "y")}px`;
  }

  /** The dot nearest to a place in the chart, -1 if none is near. */
  function nearest(plot: uPlot, left: number, top: number): number {
    let [best, found] = [REACH * REACH, -1];
    const from = plot.posToVal(left - REACH, "x");
    const to = plot.posToVal(left + REACH, "x");
    for (let i = first(xs, from); i < xs.length && xs[i] <= to; i++) {
      const dx = plot.valToPos(xs[i], "x") - left;
      const dy = plot.valToPos(ys[i], "y") - top;
      // Of two at the same distance, the one with a timeline.
      const away = dx * dx + dy * dy - (book.detailOf.has(i) ? 9 : 0);
      if (away < best) [best, found] = [away, i];
    }
    return found;
  }

  function brushed(plot: uPlot): void {
    const { left, top, width, height } = plot.select;
    if (width < 4 && height < 4) return;
    const [x0, x1] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    const [y0, y1] = [plot.posToVal(top + height, "y"), plot.posToVal(top, "y")];
    const inside = requests.begin.map((_, i) => i)
      .filter((i) => xs[i] >= x0 && xs[i] <= x1 && ys[i] >= y0 && ys[i] <= y1);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (inside.length > 0) store.select(inside, "brushed in the chart");
  }

  const hover = h("div", { class: "hover", hidden: true });
  let plot: uPlot | null = null;
  let pressed = { x: 0, y: 0 };

  function make(): void {
    plot?.destroy();
    const ink = colours();
    const axis = { stroke: ink.soft, grid: { stroke: ink.line, width: 1 }, ticks: { stroke: ink.line } };
    const spread = (xs.at(-1) ?? 0) - (xs[0] ?? 0);
    plot = new uPlot({
      width: Math.max(box.clientWidth, 200), height: HEIGHT,
      padding: [12, 40, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 24, setScale: false }, points: { show: false } },
      scales: {
        x: { time: true, range: () => pad(xs[0] ?? 0, xs.at(-1) ?? 1, Math.max(spread * 0.02, 0.05)) },
        y: { distr: 3, log: 10, range: () => logRange(ys, verdict.requests.threshold_ms) },
      },
      axes: [
        { ...axis, values: (_, at, _a, _s, step) => at.map((s) => clock(s * 1000, digits(step))), space: 84, incrs: STEPS },
        { ...axis, size: 82, splits: (_u, _i, low, high) => powers(low, high), filter: labelled, values: (_, at) => at.map((ms) => (ms === null ? "" : duration(ms * 1e6))) },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [draw], setSelect: [brushed] },
    }, [xs, ys], box);
    wire(plot);
  }

  function wire(plot: uPlot): void {
    plot.over.append(hover, mark);
    plot.over.addEventListener("mousedown", (e) => { pressed = { x: e.clientX, y: e.clientY }; });
    plot.over.addEventListener("click", (e) => {
      if (Math.hypot(e.clientX - pressed.x, e.clientY - pressed.y) > 4) return;
      const rect = plot.over.getBoundingClientRect();
      const found = nearest(plot, e.clientX - rect.left, e.clientY - rect.top);
      if (found >= 0) store.choose(found);
    });
    plot.over.addEventListener("mousemove", (e) => {
      const rect = plot.over.getBoundingClientRect();
      const [x, y] = [e.clientX - rect.left, e.clientY - rect.top];
      const found = nearest(plot, x, y);
      hover.hidden = found < 0;
      if (found < 0) return;
      hover.textContent = describe(found);
      hover.style.left = `${Math.min(x + 12, rect.width - hover.offsetWidth - 4)}px`;
      hover.style.top = `${y > rect.height / 2 ? y - 44 : y + 14}px`;
    });
    plot.over.addEventListener("mouseleave", () => { hover.hidden = true; });
  }

  function describe(i: number): string {
    const kept = book.detailOf.has(i) ? "" : "; no timeline of it in this page";
    const at = clock(about.zero_epoch_ms + requests.begin[i] / 1e6, 3);
    return `${book.requestName(i)}: ${duration(requests.length[i])} at ${at} UTC${kept}`;
  }

  function showSelection(): void {
    const slow = store.selection.filter((i) => book.isSlow(i)).length;
    const normal = store.selection.length - slow;
    report.textContent = `Selected: ${store.selectedBy}: ${count(slow)} slow, ${count(normal)} normal; ` +
      `${count(store.shown().length)} with a timeline.`;
    selected.fill(0);
    for (const i of store.selection) selected[i] = 1;
    plot?.redraw(false);
  }

  store.on("selection", showSelection);
  store.on("chosen", ring);
  onTheme(make);
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width || box.clientWidth === 0) return;
    width = box.clientWidth;
    if (plot) plot.setSize({ width, height: HEIGHT }); else make();
  }).observe(box);
  return h("section", { "aria-label": "Requests over time" },
    h("h2", {}, "Requests", h("span", { class: "title" }, "duration over time of day, UTC")),
    h("p", { class: "key" }, legend(verdict.requests.threshold_ms !== null)), box,
    h("div", { class: "row" }, report,
      h("button", { onclick: () => store.selectAll() }, "Select all slow")));
}

function legend(hasLimit: boolean): HTMLElement {
  const one = (mark: string, text: string, kind = "") =>
    h("span", { class: "state" }, h("b", { class: kind, "aria-hidden": "true" }, mark), ` ${text}`);
  return h("span", {}, one("▲", "slow", "slow"), one("○", "normal", "normal"), one("△", "still running", "slow"),
    one("✕", "error"), hasLimit && one("┄", "limit", "slow"),
    h("span", { class: "soft" }, "drag selects, a click shows one"));
}

/** Decimals of a second that a step needs. */
function digits(step: number): number { return Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)); }

function pad(a: number, b: number, by: number): [number, number] { return [a - by, b + by]; }

/** The powers of ten between two values. */
function powers(low: number, high: number): number[] {
  const out: number[] = [];
  for (let p = Math.ceil(Math.log10(low) - 1e-9); 10 ** p <= high; p++) out.push(10 ** p);
  return out;
}

/** From a power of ten below all dots and the limit to a little above them. */
function logRange(ys: number[], limit: number | null): [number, number] {
  let [low, high] = [limit ?? 1, limit ?? 1];
  for (const y of ys) {
    if (y < low) low = y;
    if (y > high) high = y;
  }
  return [10 ** Math.floor(Math.log10(low)), high * 2.5];
}

/** The first index in a sorted list whose value is not below `value`. */
export function first(sorted: number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

function dot(
  pen: CanvasRenderingContext2D, x: number, y: number, flags: number, scale: number, kept: boolean,
): void {
  const ink = colours();
  const slow = (flags & SLOW) !== 0;
  pen.lineWidth = 1.4 * scale;
  pen.strokeStyle = pen.fillStyle = slow ? ink.slow : ink.normal;
  pen.beginPath();
  if (slow) {
    const r = 6 * scale;
    pen.moveTo(x, y - r);
    pen.lineTo(x + r * 0.9, y + r * 0.7);
    pen.lineTo(x - r * 0.9, y + r * 0.7);
    pen.closePath();
    if (flags & OPEN || !kept) pen.stroke(); else pen.fill();
  } else {
    pen.arc(x, y, 2.4 * scale, 0, 7);
    pen.stroke();
  }
  if (flags & ERROR) {
    const r = 4 * scale;
    pen.strokeStyle = ink.ink;
    pen.beginPath();
    pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r);
    pen.moveTo(x + r, y - r); pen.lineTo(x - r, y + r);
    pen.stroke();
  }
}
