// "/": requests by name, spans, events, functions, files; Enter selects the results.

import { h } from "./dom.ts";
import { count } from "./format.ts";
import type { Store } from "./store.ts";
import { matches } from "./timeline/draw.ts";

/** Requests whose name, attributes, spans, events or stacks contain the text. */
export function find(store: Store, text: string): number[] {
  const { book } = store;
  const { spans, requests } = book.data;
  const has = (name: number) => book.name(name).toLowerCase().includes(text);
  const out = new Set<number>();
  requests.name.forEach((name, i) => { if (has(name)) out.add(i); });
  spans.request.forEach((request, i) => {
    if (request >= 0 && (has(spans.name[i]) || has(spans.attributes[i]))) out.add(request);
  });
  const { events } = book.data;
  events.request.forEach((request, i) => {
    if (request >= 0 && (has(events.name[i]) || has(events.attributes[i]))) out.add(request);
  });
  const stacks = new Map<number, boolean>();
  for (const [request, detail] of book.detailOf) {
    if (out.has(request)) continue;
    const found = has(detail.attributes) || detail.slices.stack.some((stack) => {
      let known = stacks.get(stack);
      if (known === undefined) stacks.set(stack, (known = matches(book, stack, text)));
      return known;
    });
    if (found) out.add(request);
  }
  return [...out];
}

export function searchBox(store: Store): { element: HTMLElement; input: HTMLInputElement } {
  const report = h("span", { class: "found", role: "status" });
  const input = h("input", {
    type: "search", placeholder: "Search /", "aria-label": "Search requests, spans, functions",
  });
  let found: number[] = [];
  input.addEventListener("input", () => {
    store.find(input.value);
    found = store.search === "" ? [] : find(store, store.search);
    report.textContent = store.search === "" ? "" : `${count(found.length)} requests; Enter selects`;
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && found.length > 0) {
      store.select(found, `found by “${input.value}”`);
      input.blur();
    }
    if (event.key === "Escape") {
      input.value = "";
      store.find("");
      report.textContent = "";
      input.blur();
    }
    event.stopPropagation();
  });
  return { element: h("span", { class: "search" }, input, report), input };
}
