// The flame graph on a canvas of its own.
//
// Why not a library: the maintained ones (d3-flame-graph, speedscope's) draw an SVG element or a
// WebGL scene for each frame and have more code than the rest of the page. A difference beside
// wall, CPU and off-CPU time, hatching and the page's search would need changes to them. This file
// only lays out and draws the visible part.

import { INTERPRETER } from "../data.ts";
import { cut, fill, h, Sheet } from "../dom.ts";
import { duration, percent } from "../format.ts";
import type { Store } from "../store.ts";
import { causeColour, colours, hue, isDark, onTheme } from "../theme.ts";
import { grow, lay, width, type Box, type Mode, type Node } from "./tree.ts";

const ROW = 19;
const MODES: [Mode, string, string][] = [
  ["wall", "all time", "All time of the selected requests"],
  ["cpu", "on CPU", "Time on a CPU"],
  ["off", "off CPU", "Time waiting or without a CPU"],
  ["difference", "slow minus normal", "Mean of a slow request beside the mean of a normal one"],
];

export function flameView(store: Store): HTMLElement {
  let mode: Mode = "wall";
  let short = true;
  let tree: Node = grow(store.book, [], mode, true);
  let zoomed: Node[] = [];
  let boxes: Box[] = [];
  let depth = 1;
  const report = h("p", { class: "report", role: "status" });
  const sheet = new Sheet("Flame graph of the selected requests", draw, () => (depth + 1) * ROW + 4);
  const buttons = MODES.map(([one, label, title]) => h("button", {
    title, "data-mode": one, "aria-pressed": String(one === mode),
    onclick: () => { mode = one; zoomed = []; rebuild(); },
  }, label));
  const whole = h("input", { type: "checkbox", onchange: () => { short = !whole.checked; rebuild(); } });
  const up = h("button", { onclick: () => { zoomed.pop(); layout(); }, hidden: true }, "zoom out");

  function rebuild(): void {
    tree = grow(store.book, store.selection, mode, short);
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.mode === mode)));
    zoomed = [];
    layout();
  }

  function layout(): void {
    const root = zoomed.at(-1) ?? tree;
    boxes = lay(root, mode, 0.0008);
    depth = boxes.reduce((most, box) => Math.max(most, box.depth), 0);
    up.hidden = zoomed.length === 0;
    showSum(root);
    sheet.ask();
  }

  function showSum(root: Node): void {
    report.textContent = boxes.length === 0
      ? "Nothing of this kind in the selected requests."
      : describe(root) + (mode === "difference" ? ". Slow ones beside normal ones, means." : "");
  }

  function describe(node: Node): string {
    const name = node.name + (node.frame >= 0 ? ` (${store.book.place(node.frame).split(":")[0]})` : "");
    if (mode === "difference") {
      const more = node.value - node.normal;
      return `${name}: ${duration(node.value)} slow, ${duration(node.normal)} normal: ` +
        `${more < 0 ? "−" : "+"}${duration(Math.abs(more))}`;
    }
    return `${name}: ${duration(node.value)}, ${percent(node.value / Math.max(tree.value, 1))}`;
  }

  function colour(node: Node): string {
    const ink = colours();
    if (mode === "difference") {
      const part = (node.value - node.normal) / Math.max(width(tree, mode), 1);
      const strength = Math.min(1, Math.abs(part) * 1.6 + 0.08);
      const light = isDark() ? 24 + 18 * strength : 95 - 26 * strength;
      return `hsl(${part >= 0 ? 12 : 215} ${Math.round(70 * strength)}% ${light}%)`;
    }
    if (node.frame === -2) return causeColour(node.name);
    if (node.frame < 0) return ink.line;
    const owner = store.book.data.frames.owner[node.frame];
    return owner >= INTERPRETER ? ink.unknown : hue(node.key.split(" ")[1] ?? node.name);
  }

  function draw(): void {
    const pen = sheet.context;
    const ink = colours();
    pen.fillStyle = ink.paper;
    pen.fillRect(0, 0, sheet.width, sheet.height());
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const box of boxes) {
      const [left, right] = [box.left * sheet.width, box.right * sheet.width];
      if (right - left < 0.7) continue;
      const [top, wide] = [box.depth * ROW, Math.max(right - left - 1, 0.7)];
      const found = store.search !== "" && box.node.name.toLowerCase().includes(store.search);
      pen.fillStyle = found ? ink.hot : colour(box.node);
      pen.fillRect(left, top, wide, ROW - 1);
      if (box.node.frame === -2 && wide > 4) {
        pen.strokeStyle = ink.mark;
        pen.strokeRect(left + 0.5, top + 0.5, wide - 1, ROW - 2);
      }
      pen.fillStyle = ink.ink;
      const more = mode === "difference" && wide > 120
        ? ` ${box.node.value >= box.node.normal ? "+" : "−"}${duration(Math.abs(box.node.value - box.node.normal))}` : "";
      const text = cut(pen, box.node.name + more, wide - 6);
      if (text) pen.fillText(text, left + 3, top + ROW / 2);
    }
  }

  function under(event: MouseEvent): Box | undefined {
    const [x, row] = [event.offsetX / Math.max(sheet.width, 1), Math.floor(event.offsetY / ROW)];
    return boxes.find((b) => b.depth === row && x >= b.left && x < b.right);
  }

  sheet.canvas.addEventListener("mousemove", (event) => {
    const box = under(event);
    const text = box ? describe(box.node) : "";
    sheet.canvas.title = text;
    if (text) report.textContent = text;
  });
  sheet.canvas.addEventListener("mouseleave", () => showSum(zoomed.at(-1) ?? tree));
  sheet.canvas.addEventListener("click", (event) => {
    const box = under(event);
    if (!box || box.depth === 0) return;
    zoomed.push(box.node);
    layout();
  });
  store.on("selection", rebuild);
  store.on("search", () => sheet.ask());
  onTheme(() => sheet.ask());
  const box = h("div", { class: "sheet" });
  fill(box, sheet.canvas);
  return h("section", { "aria-label": "Flame graph" }, h("h2", {}, "Flame graph"),
    h("div", { class: "row tools" }, ...buttons, h("label", {}, whole, " frames of server, framework and interpreter too"), up), report, box);
}
