// The chosen request as a timeline: the visible part, and mouse and keyboard control.

import type { Book, Slices } from "../data.ts";
import { copyButton, cut, fill, h, Sheet } from "../dom.ts";
import { count, duration } from "../format.ts";
import { first } from "../scatter.ts";
import type { Store } from "../store.ts";
import { colours, onTheme } from "../theme.ts";
import { drawModel, FONT, stateText, vitalText, type View } from "./draw.ts";
import { inspectEvent, inspectSlice, inspectSpan, inspectState, inspectText } from "./inspect.ts";
import { model, RULER, type Model, type Row } from "./model.ts";
import { waterfall } from "./waterfall.ts";

const LEAST_SPAN_NS = 2_000;

export class Timeline {
  readonly element: HTMLElement;
  private readonly title = h("span", { class: "title" });
  private readonly note = h("p", { class: "report" });
  private readonly inspector = h("div", { class: "inspector", role: "status" });
  private readonly everyThread = h("input", { type: "checkbox", onchange: () => this.reload() });
  private readonly sheet: Sheet;
  private model: Model | null = null;
  private from = 0;
  private to = 1;
  /** Where the pointer is, pixels from the left of the canvas. */
  private pointer = -1;
  /** The segment of the request that the inspector shows, -1 none. */
  private explained = -1;

  constructor(private readonly store: Store) {
    this.sheet = new Sheet("Timeline of the chosen request", () => this.draw(),
      () => this.model?.height ?? 60);
    const button = (text: string, title: string, act: () => void) =>
      h("button", { title, onclick: act }, text);
    this.element = h("section", { class: "timeline", "aria-label": "Timeline" },
      h("h2", {}, "Timeline", this.title),
      h("div", { class: "row tools" },
        button("◀ previous", "Left arrow", () => store.step(-1)),
        button("next ▶", "Right arrow", () => store.step(1)),
        button("zoom in", "W", () => this.zoom(0.5)),
        button("zoom out", "S", () => this.zoom(2)),
        button("whole request", "F", () => this.fit()),
        h("label", { title: "Also those that the request had nothing to do with" }, this.everyThread, " every thread"),
        copyButton("Copy link", "A link to this request in this file", () => linkTo(this.model?.detail.id ?? ""))),
      h("p", { class: "key" }, stateKey()),
      h("div", { class: "split" },
        h("div", {}, h("div", { class: "sheet" }, this.sheet.canvas), this.note, waterfall(store)), this.inspector));
    store.on("chosen", () => this.load());
    store.on("focus", () => this.focus());
    store.on("slice", () => this.explain(store.at));
    store.on("search", () => this.sheet.ask());
    onTheme(() => this.sheet.ask());
    this.hands();
  }

  private get book(): Book { return this.store.book; }

  private labels(): number { return this.sheet.width < 620 ? 92 : 190; }

  private view(): View {
    const left = this.labels();
    return { from: this.from, to: this.to, left, width: Math.max(1, this.sheet.width - left - 6) };
  }

  private load(): void {
    const { book, store } = this;
    this.model = model(book, store.chosen, this.everyThread.checked);
    this.explained = -1;
    this.link();
    fill(this.inspector, inspectText("Click a bar for its stack and times."));
    if (!this.model) {
      const none = store.chosen >= 0;
      this.title.textContent = none ? book.requestName(store.chosen) : "";
      this.note.textContent = none
        ? "No timeline of this request is in the page; see “What was lost or off”."
        : "Choose a request above.";
      this.sheet.ask();
      return;
    }
    const length = book.data.requests.length[store.chosen];
    this.title.textContent = `${book.requestName(store.chosen)}, ${duration(length)}` +
      `${book.isSlow(store.chosen) ? ", slow" : ", normal"}`;
    const { detail } = this.model;
    const left = detail.lanes_left;
    this.note.textContent = [
      detail.attributes ? `Attributes: ${book.name(detail.attributes)}.` : "",
      left ? `${count(left)} more threads it waited for are not shown.` : "",
      this.everyThread.checked && !detail.has_all_threads
        ? "The page has every thread of the slowest requests only." : "",
    ].join(" ").trim();
    this.note.hidden = this.note.textContent === "";
    this.explain(longest(book, detail.slices));
    this.fit();
  }

  /** The same request at the same place, with other rows. */
  private reload(): void {
    const [from, to, at] = [this.from, this.to, this.explained];
    this.load();
    if (!this.model) return;
    if (at >= 0) this.explain(at);
    this.set(from, to);
  }

  /** Shows one stretch of the request in the inspector. */
  private explain(slice: number): void {
    if (!this.model) return;
    this.explained = slice;
    fill(this.inspector, inspectSlice(this.book, this.model.detail.slices, slice),
      inspectText("Click a bar for another, or press . for the next."));
    this.sheet.ask();
  }

  /** The address names the chosen request, so that it can be passed on. */
  private link(): void {
    const id = this.model?.detail.id;
    try {
      history.replaceState(null, "", id === undefined ? location.pathname : `#request=${id}`);
    } catch { /* an embedded page has no address */ }
  }

  private focus(): void {
    if (!this.model || !this.store.focus) return;
    const [from, to] = this.store.focus;
    const pad = Math.max((to - from) * 0.25, LEAST_SPAN_NS);
    this.set(from - pad, to + pad);
    this.element.scrollIntoView({ block: "nearest" });
  }

  fit(): void {
    if (!this.model) return;
    const pad = Math.max((this.model.end - this.model.begin) * 0.04, LEAST_SPAN_NS);
    this.set(this.model.begin - pad, this.model.end + pad);
  }

  private set(from: number, to: number): void {
    const { about } = this.book.data;
    const limit = Math.max(about.to - Math.min(0, about.from), 1e9) * 1.2;
    const span = Math.min(Math.max(to - from, LEAST_SPAN_NS), limit);
    this.from = from + (to - from - span) / 2;
    this.to = this.from + span;
    this.sheet.canvas.dataset.from = String(Math.round(this.from));
    this.sheet.canvas.dataset.to = String(Math.round(this.to));
    this.sheet.ask();
  }

  /** Below 1 zooms in, above 1 zooms out; around the pointer if it is over the canvas. */
  zoom(factor: number, at = this.pointer): void {
    const view = this.view();
    const inside = at >= view.left && at <= view.left + view.width;
    const part = inside ? (at - view.left) / view.width : 0.5;
    const middle = this.from + (this.to - this.from) * part;
    const span = (this.to - this.from) * factor;
    this.set(middle - span * part, middle + span * (1 - part));
  }

  /** The next or the previous of the request's intervals of one cause and stack: shows by key
   * what a click on its bar shows. */
  stretch(by: number): void {
    const p = this.model?.detail.slices;
    if (!p || p.from.length === 0) return;
    const begins = this.book.stretch(p).filter((begin, i) => begin === i);
    const at = begins.filter((i) => i <= this.explained).length - 1;
    this.explain(begins[(Math.max(at, 0) + by + begins.length) % begins.length]);
  }

  /** By a part of the visible range. */
  pan(part: number): void {
    const by = (this.to - this.from) * part;
    this.set(this.from + by, this.to + by);
  }

  private draw(): void {
    const pen = this.sheet.context;
    const ink = colours();
    pen.fillStyle = ink.paper;
    pen.fillRect(0, 0, this.sheet.width, this.sheet.height());
    if (!this.model) return;
    const view = this.view();
    drawModel(pen, this.book, this.model, view, this.store.search);
    this.drawLabels(pen, this.model, view);
    if (this.pointer >= view.left) {
      pen.strokeStyle = ink.soft;
      pen.beginPath();
      pen.moveTo(this.pointer + 0.5, RULER);
      pen.lineTo(this.pointer + 0.5, this.model.height);
      pen.stroke();
    }
  }

  private drawLabels(pen: CanvasRenderingContext2D, model: Model, view: View): void {
    const ink = colours();
    pen.font = FONT;
    pen.textAlign = "left";
    for (const row of model.rows) {
      pen.fillStyle = ink.line;
      pen.fillRect(0, row.top + row.height + 1.5, view.left + view.width, 0.5);
      const twoLines = (row.note !== "" || row.vital !== undefined) && row.height >= 24;
      pen.fillStyle = ink.ink;
      pen.fillText(cut(pen, row.label, view.left - 12), 4, row.top + (twoLines ? 8 : row.height / 2));
      pen.fillStyle = ink.soft;
      const note = row.vital ? vitalText(row.vital, view) : row.note;
      if (twoLines) pen.fillText(cut(pen, note, view.left - 12), 4, row.top + 21);
    }
  }

  private hands(): void {
    const canvas = this.sheet.canvas;
    let last: { x: number; y: number } | null = null;
    let moved = 0;
    canvas.addEventListener("wheel", (e) => {
      // Sideways pans; up and down zooms while the canvas has the focus or Ctrl is held, so that
      // the page itself can still be scrolled past it.
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX / 1000);
      else if (e.ctrlKey || e.shiftKey || document.activeElement === canvas) {
        this.zoom(Math.exp(Math.sign(e.deltaY || e.deltaX) * 0.22));
      } else return;
      e.preventDefault();
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      last = { x: e.clientX, y: e.clientY };
      moved = 0;
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      this.pointer = e.offsetX;
      if (last && this.model) {
        const dx = e.clientX - last.x;
        moved += Math.abs(dx) + Math.abs(e.clientY - last.y);
        if (moved > 4) this.pan(-dx / this.view().width);
        last = { x: e.clientX, y: e.clientY };
      }
      canvas.title = this.hint(e.offsetX, e.offsetY);
      this.sheet.ask();
    });
    canvas.addEventListener("pointerup", (e) => {
      if (last && moved <= 4) this.click(e.offsetX, e.offsetY);
      last = null;
    });
    canvas.addEventListener("pointerleave", () => { this.pointer = -1; this.sheet.ask(); });
    canvas.addEventListener("dblclick", () => this.fit());
  }

  private at(left: number, top: number): { row: Row; t: number } | null {
    const row = this.model?.rows.find((r) => top >= r.top && top <= r.top + r.height);
    const view = this.view();
    if (!row || left < view.left) return null;
    return { row, t: this.from + ((left - view.left) / view.width) * (this.to - this.from) };
  }

  /** The index of the interval, in a sorted list, that holds `t`, -1 none. */
  private within(from: number[], length: number[], t: number): number {
    const i = first(from, t + 0.5) - 1;
    const slack = ((this.to - this.from) / this.view().width) * 2;
    return i >= 0 && t <= from[i] + length[i] + slack ? i : -1;
  }

  private hint(left: number, top: number): string {
    const found = this.at(left, top);
    const s = found?.row.states;
    if (!found || !s) return "";
    const i = this.within(s.from, s.length, found.t);
    return i < 0 ? "" : `${stateText(this.book, s, i)}, ${duration(s.length[i])}` +
      (s.exact[i] ? "" : " (estimate)");
  }

  private click(left: number, top: number): void {
    const found = this.at(left, top);
    if (!found || !this.model) return;
    const { row, t } = found;
    const { book, store } = this;
    if (row.states) {
      const i = this.within(row.states.from, row.states.length, t);
      if (i >= 0) fill(this.inspector, inspectState(book, row.states, i));
    } else if (row.kind === "request") {
      const p = this.model.detail.slices;
      const i = this.within(p.from, p.length, t);
      if (i >= 0) this.explain(i);
    } else if (row.events) {
      const slack = ((this.to - this.from) / this.view().width) * 8;
      const at = book.data.events.at;
      const near = row.events.filter((e) => Math.abs(at[e] - t) < slack)
        .sort((a, b) => Math.abs(at[a] - t) - Math.abs(at[b] - t));
      if (near.length > 0) fill(this.inspector, inspectEvent(book, near[0], this.model.begin));
    } else if (row.spans) {
      const { begin, length } = book.data.spans;
      const slack = ((this.to - this.from) / this.view().width) * 2;
      const span = row.spans.find((s) => t >= begin[s] - slack && t <= begin[s] + length[s] + slack);
      if (span !== undefined) {
        fill(this.inspector, inspectSpan(book, span, () => store.show(store.chosen, begin[span], begin[span] + length[span])));
      }
    }
  }
}

/** The longest stretch of the cause that took most. */
function longest(book: Book, p: Slices): number {
  const sums: number[] = [];
  p.cause.forEach((cause, i) => { sums[cause] = (sums[cause] ?? 0) + p.length[i]; });
  const main = p.cause.reduce((a, b) => (sums[b] > sums[a] ? b : a), p.cause[0]);
  const begins = book.stretch(p);
  const lengths = new Map<number, number>();
  begins.forEach((begin, i) => {
    if (p.cause[i] === main) lengths.set(begin, (lengths.get(begin) ?? 0) + p.length[i]);
  });
  return [...lengths].reduce((a, b) => (b[1] > a[1] ? b : a), [0, -1])[0];
}

/** The page's address with a request. */
function linkTo(id: string): string {
  return `${location.href.split("#")[0]}#request=${id}`;
}

function stateKey(): HTMLElement {
  const one = (name: string, text: string) =>
    h("span", { class: "state" }, h("i", { class: `swatch ${name}`, "aria-hidden": "true" }), text);
  return h("span", {}, one("run", "on CPU: full height"), one("ready", "ready, no CPU: two thirds"),
    one("wait", "waiting: low"), one("unknown", "not seen: dotted"), one("estimate", "estimate: hatched"),
    one("edge", "waited for: arrow, dashed if inferred"));
}
