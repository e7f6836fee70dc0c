// What is known about one bar, as text: times, cause, target, holder, stacks.

import { STATE_NAMES, type Book, type Slices, type States } from "../data.ts";
import { h } from "../dom.ts";
import { handlerAt } from "../flame/tree.ts";
import { count, duration, offset } from "../format.ts";
import { stateText } from "./draw.ts";

export function inspectText(text: string): HTMLElement { return h("p", { class: "soft" }, text); }

/** A stack, innermost first; the program's own frames are highlighted. */
export function stackList(book: Book, stack: number): HTMLElement {
  const frames = book.frames(stack);
  if (frames.length === 0) return inspectText("No stack was seen.");
  const { owner, file, line } = book.data.frames;
  const item = (f: number) => h("li", { class: `owner${owner[f]}`, title: book.name(file[f]) + (line[f] === 0 ? "" : `:${line[f]}`) },
    h("span", {}, book.functionName(f)), " ", h("code", {}, book.place(f)),
    book.source(f) !== "" && h("code", { class: "here" }, book.source(f)));
  const inside = frames.length - handlerAt([...frames].reverse(), owner);
  const outer = frames.slice(inside);
  return h("div", {}, h("ol", { class: "stack" }, ...frames.slice(0, inside).map(item)),
    outer.length > 0 && h("details", {}, h("summary", {}, `called by ${count(outer.length)} frames`),
      h("ol", { class: "stack", start: inside + 1 }, ...outer.map(item))));
}

function facts(rows: [string, string][]): HTMLElement {
  return h("dl", {}, ...rows.filter((r) => r[1] !== "").flatMap(([k, v]) =>
    [h("dt", {}, k), h("dd", {}, v)]));
}

const how = (exact: number) => (exact ? "exact" : "estimate");

export function inspectState(book: Book, s: States, i: number): HTMLElement {
  const holder = s.holder[i] ? book.thread(s.holder[i] - 1) : "";
  return h("div", {}, h("h3", {}, stateText(book, s, i)),
    facts([
      ["Thread", book.thread(s.thread)],
      ["Time", `${duration(s.length[i])}, ${how(s.exact[i])}`],
      ["State", STATE_NAMES[s.state[i]] ?? "?"],
      ["Waited for", book.name(s.target[i])],
      ["Held by", holder],
    ]), stackList(book, s.stack[i]));
}

export function inspectSlice(book: Book, p: Slices, i: number): HTMLElement {
  if (p.from.length === 0) return inspectText("Nothing is known of its time.");
  // Segments are cut between samples; a reader means the whole stretch around this one.
  const begins = book.stretch(p);
  const all = begins.map((begin, at) => (begin === begins[i] ? at : -1)).filter((at) => at >= 0);
  const length = all.reduce((sum, at) => sum + p.length[at], 0);
  // Its longest segment has the stack that was seen most.
  i = all.reduce((a, b) => (p.length[b] > p.length[a] && p.stack[b] > 0 ? b : a), all[0]);
  const culprit = p.culprit[i] ? book.thread(p.culprit[i] - 1) : "";
  const known = p.measured[i] ? "" : " (inferred)";
  return h("div", {}, h("h3", {}, book.cause(p.cause[i])),
    facts([
      ["Time", `${duration(length)}, ${how(p.exact[i])}`],
      ["State", STATE_NAMES[p.state[i]] ?? "?"],
      ["Thread", book.thread(p.thread[i])],
      ["Waited for", book.name(p.target[i])],
      ["In its way", culprit && culprit + known],
    ]), stackList(book, p.stack[i]),
    p.culprit_stack[i] > 0 && h("h4", {}, "What was in its way did this"),
    p.culprit_stack[i] > 0 && stackList(book, p.culprit_stack[i]));
}

/** `begin`: of the event's request. */
export function inspectEvent(book: Book, event: number, begin: number): HTMLElement {
  const e = book.data.events;
  return h("div", {}, h("h3", {}, book.name(e.name[event])), facts([
    ["When", `${offset(e.at[event] - begin)} after the request began`],
    ["Thread", book.thread(e.thread[event])],
    ["Attributes", book.name(e.attributes[event])],
  ]));
}

export function inspectSpan(book: Book, span: number, show: () => void): HTMLElement {
  const s = book.data.spans;
  return h("div", {}, h("h3", {}, book.name(s.name[span])),
    facts([
      ["Time", duration(s.length[span])],
      ["Thread", book.thread(s.thread[span])],
      ["Attributes", book.name(s.attributes[span])],
      ["Ended", s.error[span] ? "by an error" : ""],
    ]), h("button", { onclick: show }, "Zoom to it"));
}
