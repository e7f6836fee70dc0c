// Assembles the page: data, store, views. Everything is in the file; nothing is loaded.

import { Book, unpack } from "./data.ts";
import { fill, h } from "./dom.ts";
import { flameView } from "./flame/view.ts";
import { clock } from "./format.ts";
import { helpDialog, wireKeys } from "./keys.ts";
import { lostView } from "./lost.ts";
import { scatterView } from "./scatter.ts";
import { searchBox } from "./search.ts";
import { Store } from "./store.ts";
import { printInLight, toggleTheme } from "./theme.ts";
import { Timeline } from "./timeline/view.ts";
import { verdictView } from "./verdict.ts";
import { vitalsView } from "./vitals.ts";
import { waitsView } from "./waits.ts";

function header(store: Store, search: HTMLElement, help: HTMLDialogElement): HTMLElement {
  const { data } = store.book;
  const { capture } = data.verdict;
  const at = clock(data.about.zero_epoch_ms + data.about.to / 1e6);
  const day = new Date(data.about.zero_epoch_ms).toISOString().slice(0, 10);
  return h("header", {},
    h("div", {}, h("strong", {}, capture.service || "unnamed service"),
      h("span", { class: "soft" }, ` on ${capture.host}, process ${capture.pid}, ` +
        `${data.about.runtime}, until ${day} ${at} UTC. Saved for: ${capture.reason || "not known"}`)),
    h("div", { class: "row" }, search,
      h("button", { title: "T", onclick: toggleTheme }, "Light / dark"),
      h("button", { title: "?", onclick: () => help.showModal() }, "Keys ?")));
}

async function start(): Promise<void> {
  const page = document.getElementById("page")!;
  const source = document.getElementById("data")!;
  const book = new Book(await unpack(source.textContent ?? ""));
  source.remove();
  const store = new Store(book);
  const search = searchBox(store);
  const help = helpDialog();
  const timeline = new Timeline(store);
  // Without a request there is nothing to plot: empty charts would only be in the way.
  const charts = book.data.requests.begin.length === 0 ? []
    : [scatterView(store), timeline.element, flameView(store), waitsView(store)];
  fill(page, header(store, search.element, help), verdictView(store), ...charts,
    vitalsView(book), lostView(book), help);
  wireKeys(store, timeline, search.input, help);
  printInLight();
  const linked = requestOf(location.hash);
  if (!store.selectCause(1)) store.selectAll();
  const choose = (id: string | undefined) => {
    const request = id === undefined ? undefined : book.requestOf.get(id);
    if (request !== undefined && request !== store.chosen) store.choose(request);
  };
  choose(linked);
  window.addEventListener("hashchange", () => choose(requestOf(location.hash)));
  document.documentElement.dataset.ready = "yes";
}

/** The id in `#request=ID`. */
function requestOf(hash: string): string | undefined {
  return /^#request=(\d+)$/.exec(hash)?.[1];
}

start().catch((error: unknown) => {
  // The page shows the verdict's text already; say why there is no more.
  document.getElementById("page")!.append(
    h("p", { class: "broken" }, `The charts could not be drawn: ${String(error)}. ` +
      "Wanted a browser of 2023 or later (DecompressionStream)."));
  document.documentElement.dataset.ready = "failed";
  console.error(error);
});
