// The keyboard, and the list of its keys.

import { h } from "./dom.ts";
import type { Store } from "./store.ts";
import { toggleTheme } from "./theme.ts";
import type { Timeline } from "./timeline/view.ts";

const KEYS: [string, string][] = [
  ["W S", "zoom in and out, around the pointer"],
  ["A D", "pan left and right"],
  ["F", "the whole request"],
  ["← →", "previous, next request of the selection"],
  [", .", "the stretch before, the next: its stack and times, as a click on its bar"],
  ["1 – 9", "the requests of a cause, and the one that has most of it"],
  ["0", "select all slow requests"],
  ["/", "search; Enter selects what was found"],
  ["T", "light or dark"],
  ["?", "this list"],
  ["Esc", "close, leave the search"],
  ["mouse", "wheel over the clicked timeline zooms (Ctrl + wheel always), drag pans, double click: whole request; drag in the chart selects"],
];

export function helpDialog(): HTMLDialogElement {
  const rows = KEYS.map(([key, text]) =>
    h("tr", {}, h("td", {}, ...key.split(" ").map((k) => h("kbd", {}, k))), h("td", {}, text)));
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("table", {}, h("tbody", {}, ...rows)),
    h("button", { onclick: () => dialog.close() }, "Close"));
  return dialog;
}

export function wireKeys(store: Store, timeline: Timeline, input: HTMLInputElement, help: HTMLDialogElement): void {
  const acts: Record<string, () => void> = {
    w: () => timeline.zoom(0.7), s: () => timeline.zoom(1 / 0.7),
    a: () => timeline.pan(-0.2), d: () => timeline.pan(0.2),
    f: () => timeline.fit(), t: toggleTheme,
    arrowleft: () => store.step(-1), arrowright: () => store.step(1),
    ",": () => timeline.stretch(-1), ".": () => timeline.stretch(1),
    "0": () => store.selectAll(),
    "/": () => input.focus(),
    "?": () => (help.open ? help.close() : help.showModal()),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (target.matches("input, textarea, select")) return;
    const key = event.key.toLowerCase();
    if (help.open && key !== "?") return;
    if (/^[1-9]$/.test(key)) {
      if (store.selectCause(Number(key))) event.preventDefault();
      return;
    }
    const act = acts[key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
