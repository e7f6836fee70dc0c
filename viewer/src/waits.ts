// Where the selected requests spent their time, as a table: cause, place, resource, and the same
// for normal requests. A row opens to show its stacks.

import { RUN, type Book } from "./data.ts";
import { fill, h } from "./dom.ts";
import { count, duration, percent } from "./format.ts";
import type { Store } from "./store.ts";
import { stackList } from "./timeline/inspect.ts";

interface Row {
  cause: number; frame: number; target: number; culprit: number; total: number; slices: number;
  longest: number; at: { request: number; from: number; to: number };
  stack: number; culpritStack: number; requests: Set<number>; exact: number; run: boolean;
}

const MOST_ROWS = 40;

/** Time by cause, own place and target; the largest first. */
export function rows(book: Book, requests: number[]): Row[] {
  const found = new Map<string, Row>();
  for (const request of requests) {
    const p = book.detailOf.get(request)?.slices;
    if (!p) continue;
    let last = { key: "", begin: 0, end: -1 };
    for (let i = 0; i < p.from.length; i++) {
      const frame = book.ownFrame(p.stack[i]);
      const place = frame < 0 ? "" : `${book.functionName(frame)} ${book.data.frames.file[frame]}`;
      const key = `${p.cause[i]}|${place}|${p.target[i]}`;
      let row = found.get(key);
      if (!row) {
        row = {
          cause: p.cause[i], frame, target: p.target[i], culprit: 0, total: 0, slices: 0, longest: -1,
          at: { request, from: 0, to: 0 }, stack: 0, culpritStack: 0, requests: new Set(), exact: 0,
          run: p.state[i] === RUN,
        };
        found.set(key, row);
      }
      row.total += p.length[i];
      row.slices += 1;
      row.exact += p.exact[i] ? p.length[i] : 0;
      row.requests.add(request);
      const end = p.from[i] + p.length[i];
      // Touching segments are one interval: they were only cut between samples.
      const touches = last.key === key && last.end === p.from[i];
      last = { key, begin: touches ? last.begin : p.from[i], end };
      if (end - last.begin <= row.longest) continue;
      row.longest = end - last.begin;
      row.at = { request, from: last.begin, to: end };
      row.stack = p.stack[i] || row.stack;
      row.frame = frame >= 0 ? frame : row.frame;
      if (p.culprit[i]) [row.culprit, row.culpritStack] = [p.culprit[i], p.culprit_stack[i]];
    }
  }
  return [...found.values()].sort((a, b) => b.total - a.total);
}

export function waitsView(store: Store): HTMLElement {
  const { book } = store;
  const body = h("tbody");
  const report = h("p", { class: "report" });
  const normal = [...book.detailOf.keys()].filter((r) => !book.isSlow(r));
  const usual = new Map(rows(book, normal).map((r) => [`${r.cause}|${r.frame}`, r.total / normal.length]));

  function show(): void {
    const shown = store.shown();
    const all = rows(book, shown);
    const whole = all.reduce((sum, r) => sum + r.total, 0);
    report.textContent = shown.length === 0
      ? "None of the selected requests has a timeline in this page."
      : `${duration(whole)} in ${count(shown.length)} requests` +
        (all.length > MOST_ROWS ? `; the ${MOST_ROWS} largest of ${count(all.length)} places.` : ".");
    fill(body, ...all.slice(0, MOST_ROWS).flatMap((row) => lines(row, whole, shown.length)));
  }

  function lines(row: Row, whole: number, requests: number): HTMLElement[] {
    const more = h("tr", { class: "more", hidden: true }, h("td", { colspan: 8 }));
    const place = row.frame < 0 ? "not seen"
      : `${book.functionName(row.frame)}() ${book.place(row.frame)}`;
    const target = [book.name(row.target), row.culprit ? `in its way: ${book.thread(row.culprit - 1)}` : ""]
      .filter((t) => t !== "").join(", ");
    const button = h("button", { class: "link", "aria-expanded": "false", onclick: toggle }, book.cause(row.cause));
    function toggle(): void {
      more.hidden = !more.hidden;
      button.setAttribute("aria-expanded", String(!more.hidden));
      if (!more.hidden) fill(more.firstChild as HTMLElement, stacks(row));
    }
    const number = (text: string) => h("td", { class: "number" }, text);
    const mean = usual.get(`${row.cause}|${row.frame}`);
    return [h("tr", {}, h("td", {}, button), h("td", {}, place), h("td", {}, target),
      number(percent(row.total / Math.max(whole, 1))), number(duration(row.total / requests)),
      number(mean === undefined ? "–" : duration(mean)),
      number(`${row.requests.size} / ${requests}`),
      h("td", { class: "number" }, h("button", {
        class: "link", title: "Show it in the timeline",
        onclick: () => store.show(row.at.request, row.at.from, row.at.to),
      }, duration(row.longest)))), more];
  }

  function stacks(row: Row): HTMLElement {
    const exact = row.exact / Math.max(row.total, 1);
    return h("div", { class: "stacks" },
      h("div", {}, h("h4", {}, "Where (its longest)"), stackList(book, row.stack)),
      row.culpritStack > 0 && h("div", {}, h("h4", {}, "What was in its way did this"), stackList(book, row.culpritStack)),
      h("p", { class: "soft" }, `${count(row.slices)} intervals; ${percent(exact)} of the time by switch records, the rest estimated.`));
  }

  store.on("selection", show);
  const head = ["Cause", "Where", "Waited for", "Share", "Mean", "Mean if normal", "Requests", "Longest"];
  return h("section", { "aria-label": "Where the time went" }, h("h2", {}, "Where the time went"), report,
    h("div", { class: "scroll" }, h("table", { class: "waits" },
      h("thead", {}, h("tr", {}, ...head.map((t, i) => h("th", { scope: "col", class: i > 2 ? "number" : "" }, t)))), body)));
}
