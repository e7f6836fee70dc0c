// Spans, events and log lines of the chosen request as a list: text that can be selected, each beside
// its part of the request's time.

import type { Book } from "../data.ts";
import { fill, h } from "../dom.ts";
import { count, duration, offset } from "../format.ts";
import type { Store } from "../store.ts";

const ROWS_MAX = 200;
/** Rows that are indented further are not: their names would be cut. */
const DEPTH_MAX = 8;

interface Item { begin: number; length: number; depth: number; name: string; more: string; error: boolean; isEvent: boolean }

/** In order of their begins; a span is one deeper than the spans that contain it. */
export function items(book: Book, request: number): Item[] {
  const { spans, events } = book.data;
  const out: Item[] = [
    ...(book.spansOf.get(request) ?? []).map((i) => ({
      begin: spans.begin[i], length: spans.length[i], depth: 0, name: book.name(spans.name[i]),
      more: book.name(spans.attributes[i]), error: spans.error[i] === 1, isEvent: false,
    })),
    ...(book.eventsOf.get(request) ?? []).map((i) => ({
      begin: events.at[i], length: 0, depth: 0, name: book.name(events.name[i]),
      more: book.name(events.attributes[i]), error: false, isEvent: true,
    })),
  ];
  out.sort((a, b) => a.begin - b.begin || b.length - a.length);
  const open: number[] = [];
  for (const item of out) {
    while (open.length > 0 && open.at(-1)! < item.begin + item.length) open.pop();
    item.depth = Math.min(open.length, DEPTH_MAX);
    if (!item.isEvent) open.push(item.begin + item.length);
  }
  return out;
}

export function waterfall(store: Store): HTMLElement {
  const { book } = store;
  const box = h("div", { class: "waterfall", hidden: true });

  function row(item: Item, begin: number, whole: number): HTMLElement {
    const bar = h("i", { class: item.isEvent ? "mark" : item.error ? "bar error" : "bar" });
    bar.style.left = `${Math.min(100, Math.max(0, ((item.begin - begin) / whole) * 100))}%`;
    if (!item.isEvent) bar.style.width = `${Math.min(100, (item.length / whole) * 100)}%`;
    const name = h("span", { class: "name" }, item.name, item.more !== "" && h("span", { class: "soft" }, ` ${item.more}`));
    name.style.paddingLeft = `${item.depth * 12}px`;
    return h("li", {}, h("span", { class: "number" }, `+${offset(item.begin - begin)}`), name,
      h("span", { class: "track", "aria-hidden": "true" }, bar),
      h("span", { class: "number" }, item.isEvent ? "" : duration(item.length) + (item.error ? " ✕" : "")));
  }

  store.on("chosen", () => {
    const all = items(book, store.chosen);
    box.hidden = all.length === 0;
    const begin = book.data.requests.begin[store.chosen] ?? 0;
    const whole = Math.max(1, book.data.requests.length[store.chosen] ?? 1);
    const spans = all.filter((item) => !item.isEvent).length;
    const left = all.length - ROWS_MAX;
    fill(box, h("h3", {}, `Spans (${count(spans)}), events and log lines (${count(all.length - spans)})`),
      h("ol", {}, ...all.slice(0, ROWS_MAX).map((item) => row(item, begin, whole))),
      left > 0 && h("p", { class: "soft" }, `and ${count(left)} more`));
  });
  return box;
}
