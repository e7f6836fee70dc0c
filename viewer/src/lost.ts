// Losses and sources that were off: the capture's own report, and what the page omits of the
// capture.

import type { Book } from "./data.ts";
import { h } from "./dom.ts";
import { count, duration } from "./format.ts";

export function lostView(book: Book): HTMLElement {
  const { data } = book;
  const { capture } = data.verdict;
  const off = Object.entries(capture.sources).filter(([, state]) => state !== "on");
  const on = Object.entries(capture.sources).filter(([, state]) => state === "on");
  const losses = capture.losses.map((l) => `${l.what}: ${count(l.count)}`);
  if (data.about.torn_blocks > 0) losses.push(`blocks overwritten while copied: ${count(data.about.torn_blocks)}`);
  const list = (items: string[], none: string) =>
    items.length > 0 ? h("ul", {}, ...items.map((t) => h("li", {}, t))) : h("p", {}, none);
  const whole = data.about.to - data.about.from;
  const complete = Math.min(data.about.to - data.about.horizon, whole);
  return h("section", { class: "lost", "aria-label": "What was lost or off" },
    h("h2", {}, "What was lost or off"),
    h("p", {}, `The capture covers ${duration(whole)}; ` + (complete > 0
      ? `all threads are complete for the last ${duration(complete)}.`
      : "there is no time for which all threads are complete.")),
    h("div", { class: "columns" },
      h("div", {}, h("h3", {}, "Sources"),
        list(off.map(([name, state]) => `${name}: ${state}`), "No source was off."),
        h("p", { class: "soft" }, `On: ${on.map(([name]) => name).join(", ") || "none"}.`)),
      h("div", {}, h("h3", {}, "Losses"), list(losses, "None counted.")),
      h("div", {}, h("h3", {}, "Not in this page"), list(data.left_out, "Nothing."))),
    threads(book));
}

function threads(book: Book): HTMLElement {
  const c = book.data.coverage;
  const rows = c.thread.map((thread, i) => h("tr", {}, h("td", {}, book.thread(thread)),
    ...[c.read[i], c.before[i], c.between[i], c.after[i], c.dropped[i]].map((n) =>
      h("td", { class: "number" }, count(n)))));
  const head = ["Thread", "Records here", "Older ones", "Missing between", "Missing after", "Given up"];
  const left = c.left > 0 ? `, and ${count(c.left)} more` : "";
  return h("details", {}, h("summary", {}, `Records of ${count(c.thread.length)} threads${left}`),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ...head.map((t, i) =>
      h("th", { scope: "col", class: i > 0 ? "number" : "" }, t)))), h("tbody", {}, ...rows))));
}
