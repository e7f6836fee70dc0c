// The verdict, in the words of `dashcam why`; each cause is a button that selects its requests.
//
// The text is part of the page and visible before any script runs; here its lines are divided: the
// headline, a block for each cause, the rest.

import type { Cause } from "./data.ts";
import { h } from "./dom.ts";
import { count } from "./format.ts";
import type { Store } from "./store.ts";

interface Blocks { headline: string; causes: string[][]; rest: string[] }

/** Cuts the text where the causes' own lines begin. */
export function blocks(text: string, causes: Cause[]): Blocks {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const out: Blocks = { headline: lines[0] ?? "", causes: [], rest: [] };
  for (const line of lines.slice(1)) {
    const next = causes[out.causes.length];
    const begins = next !== undefined && line.startsWith(`${next.rank}. ${next.cause}: `);
    const last = out.causes.at(-1);
    if (begins) out.causes.push([line]);
    else if (last && out.rest.length === 0 && line.startsWith("   ")) last.push(line.trim());
    else out.rest.push(line);
  }
  return out;
}

export function verdictView(store: Store): HTMLElement {
  const { data } = store.book;
  const parts = blocks(data.text, data.verdict.causes);
  const cards = parts.causes.map((lines, i) => card(store, data.verdict.causes[i], lines));
  store.on("selection", () => {
    cards.forEach((one, i) => {
      const on = store.cause === data.verdict.causes[i].rank;
      one.classList.toggle("on", on);
      one.querySelector("button")?.setAttribute("aria-pressed", String(on));
    });
  });
  return h("section", { class: "verdict", "aria-label": "Verdict" },
    h("h1", {}, parts.headline),
    h("ol", { class: "causes" }, ...cards),
    parts.rest.length > 0 && h("div", { class: "rest" }, ...parts.rest.map((l) => h("p", {}, l))));
}

/** Selects the requests of a cause, by rank; false if there is none. */
export function selectCause(store: Store, rank: number): boolean {
  const at = store.book.data.verdict.causes.findIndex((c) => c.rank === rank);
  if (at < 0) return false;
  const cause = store.book.data.verdict.causes[at];
  store.select(store.book.data.members[at], `cause ${rank}, ${cause.cause}`, rank);
  return true;
}

function card(store: Store, cause: Cause, lines: string[]): HTMLElement {
  const [first, ...others] = lines;
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span"));
  (bar.firstChild as HTMLElement).style.width = `${Math.min(100, cause.share * 100)}%`;
  const numbers = cause.evidence.map((e) =>
    h("tr", {}, h("td", {}, e.what), h("td", { class: "number" }, figure(e.value)),
      h("td", {}, e.unit)));
  return h("li", { class: "cause" },
    h("button", {
      "aria-pressed": "false", title: `Select its requests (key ${cause.rank})`,
      onclick: () => selectCause(store, cause.rank),
    }, bar, h("strong", {}, first), ...others.map((line) => h("span", {}, line))),
    h("details", {}, h("summary", {}, "Evidence"),
      h("table", {}, h("tbody", {}, ...numbers)), ...places(cause)));
}

function places(cause: Cause): HTMLElement[] {
  const told = [["Where", cause.where], ["Culprit", cause.culprit]] as const;
  return told.flatMap(([word, place]) => place
    ? [h("p", {}, `${word}: ${place.qualified || place.function}, `,
      h("code", {}, `${place.file}:${place.line}`))]
    : []);
}

function figure(value: number): string {
  return Number.isInteger(value) ? count(value) : String(value);
}
