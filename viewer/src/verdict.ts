// The verdict, in the words of `dashcam why`; each cause leads to the request that has most of it.
//
// The text is part of the page and visible before any script runs; here its lines are divided: the
// headline, a block for each cause, the rest. All of it is text that can be selected and copied.

import type { Cause, Place } from "./data.ts";
import { copyButton, h } from "./dom.ts";
import { count } from "./format.ts";
import type { Store } from "./store.ts";
import { causeColour, onTheme } from "./theme.ts";

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
  const shown = new Set<string>();
  const cards = parts.causes.map((lines, i) => card(store, data.verdict.causes[i], lines, shown));
  store.on("selection", () => {
    cards.forEach((one, i) => {
      const on = store.cause === data.verdict.causes[i].rank;
      one.classList.toggle("on", on);
      one.querySelector("button")?.setAttribute("aria-pressed", String(on));
    });
  });
  return h("section", { class: "verdict", "aria-label": "Verdict" },
    h("div", { class: "answer" }, h("h1", {}, parts.headline),
      h("div", { class: "row tools" },
        copyButton("Copy text", "The verdict as text", () => data.text),
        copyButton("Copy Markdown", "The verdict for a ticket", () => data.markdown))),
    h("ol", { class: "causes" }, ...cards),
    parts.rest.length > 0 && h("div", { class: "rest" }, ...parts.rest.map((l) => h("p", {}, l))));
}

function card(store: Store, cause: Cause, lines: string[], shown: Set<string>): HTMLElement {
  const [first, ...others] = lines;
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span"));
  (bar.firstChild as HTMLElement).style.width = `${Math.min(100, cause.share * 100)}%`;
  const numbers = cause.evidence.map((e) =>
    h("tr", {}, h("td", {}, e.what), h("td", { class: "number" }, figure(e.value)),
      h("td", {}, e.unit)));
  const sources = [source("Where", cause.where, shown), source("Because of", cause.culprit, shown)]
    .filter((one) => one !== null);
  const element = h("li", { class: "cause" },
    h("p", { class: "first" }, first), bar, ...others.map((line) => h("p", { class: "line" }, line)),
    sources.length > 0 && h("div", { class: "sources" }, ...sources),
    h("div", { class: "row tools" },
      h("button", {
        "aria-pressed": "false", title: `The request that has most of it (key ${cause.rank})`,
        onclick: () => store.selectCause(cause.rank),
      }, "Show its requests"),
      copyButton("Copy", "This cause as text", () => lines.join("\n"))),
    h("details", {}, h("summary", {}, "Evidence"),
      h("table", {}, h("tbody", {}, ...numbers)), ...places(cause)));
  const paint = () => element.style.setProperty("--cause", causeColour(cause.cause));
  onTheme(paint);
  paint();
  // Anywhere else in the card, if nothing is being selected as text.
  element.addEventListener("click", (event) => {
    if ((event.target as HTMLElement).closest("button, details, pre")) return;
    if (getSelection()?.isCollapsed !== false) store.selectCause(cause.rank);
  });
  return element;
}

/** The lines around a place, unless they are shown already; the line itself is marked. */
function source(word: string, place: Place | null, shown: Set<string>): HTMLElement | null {
  const key = place ? `${place.file}:${place.line}` : "";
  if (!place?.source || shown.has(key)) return null;
  shown.add(key);
  const { first, changed } = place.source;
  const lines = [...place.source.lines];
  while (lines.length > 0 && lines.at(-1)!.trim() === "" && first + lines.length - 1 > place.line) lines.pop();
  const indents = lines.filter((l) => l.trim() !== "").map((l) => /^\s*/.exec(l)![0].length);
  const indent = Math.min(...indents, 40);
  const rows = lines.map((line, i) => h("span", { class: first + i === place.line ? "line here" : "line" },
    h("span", { class: "at", "aria-hidden": "true" }, String(first + i)),
    `${visible(line.slice(indent))}\n`));
  return h("figure", { class: "source" },
    h("figcaption", {}, `${word}: `, h("strong", {}, `${place.function}()`), " ",
      h("code", { title: place.file }, `${place.file.split("/").pop()}:${place.line}`),
      changed && h("span", { class: "changed" }, " the file has changed since")),
    h("pre", {}, h("code", {}, ...rows)));
}

/** Control characters as symbols: they could reorder what is read. */
function visible(line: string): string {
  return line.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

function places(cause: Cause): HTMLElement[] {
  const named = [["Where", cause.where], ["Because of", cause.culprit]] as const;
  return named.flatMap(([word, place]) => place
    ? [h("p", {}, `${word}: ${place.qualified || place.function}, `,
      h("code", {}, `${place.file}:${place.line}`))]
    : []);
}

function figure(value: number): string {
  return Number.isInteger(value) ? count(value) : String(value);
}
