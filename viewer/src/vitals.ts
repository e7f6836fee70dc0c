// Counters of the process and its host over the whole capture, as small charts.

import uPlot from "uplot";
import type { Book } from "./data.ts";
import { h } from "./dom.ts";
import { clock } from "./format.ts";
import { colours, onTheme } from "./theme.ts";
import { amount } from "./timeline/draw.ts";
import { toLine, type Line } from "./timeline/model.ts";

export function vitalsView(book: Book): HTMLElement {
  const all = book.data.vitals.map(toLine).filter((line): line is Line => line !== null);
  // A line without change shows nothing; its counter is named below the charts.
  const moving = all.filter((line) => line.value.some((v) => v !== line.value[0]));
  const still = all.filter((line) => !moving.includes(line));
  const boxes = h("div", { class: "vitals" });
  const details = h("details", {}, h("summary", {}, `Counters (${all.length})`), boxes,
    still.length > 0 && h("p", { class: "soft" },
      `Did not change: ${still.map((l) => `${l.name} ${amount(l.value[0], l.unit)}`).join("; ")}.`));
  let plots: uPlot[] = [];
  const draw = () => {
    plots.forEach((p) => p.destroy());
    boxes.replaceChildren();
    plots = details.open ? moving.map((line) => chart(book, line, boxes)) : [];
  };
  details.addEventListener("toggle", draw);
  onTheme(draw);
  return h("section", { "aria-label": "Counters" }, h("h2", {}, "Vitals"),
    all.length > 0 ? details : h("p", {}, "No counters are in the capture."));
}

function chart(book: Book, line: Line, into: HTMLElement): uPlot {
  const ink = colours();
  const box = h("div", { class: "vital" }, h("h3", {}, line.name));
  into.append(box);
  const zero = book.data.about.zero_epoch_ms;
  const axis = { stroke: ink.soft, grid: { stroke: ink.line, width: 1 }, ticks: { stroke: ink.line } };
  return new uPlot({
    width: Math.max(box.clientWidth, 220), height: 120, padding: [6, 8, 0, 0],
    legend: { show: false }, cursor: { show: false },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low), high > low ? high * 1.1 : low + 1] } },
    axes: [
      { ...axis, space: 80, values: (_, at) => at.map((s) => clock(s * 1000)) },
      { ...axis, size: 92, space: 26, values: (_, at) => at.map((v) => amount(v, line.unit)) },
    ],
    series: [{}, { stroke: ink.accent, width: 1.6 }],
  }, [line.at.map((t) => (zero + t / 1e6) / 1000), line.value], box);
}
