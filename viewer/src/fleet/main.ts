// The page of a fleet: causes ranked with their trends, versions side by side, hosts by hours. A click
// on a cause chooses it; a click into the heat map shows the worst capture there.
import { cut, fill, h, Sheet } from "../dom";
import { count, duration, percent } from "../format";
import { colours, onTheme, toggleTheme } from "../theme";
import {
  byVersion, columnBegins, columns, heat, shade, trends,
  type Cause, type Fleet, type Heat,
} from "./model";

const ROW = 14;
const NAMES = 190;
/** Columns that a trend and the heat map have room for at least: one hour is not as wide as the page. */
const ROOM = 24;
const SVG = "http://www.w3.org/2000/svg";

const fleet = JSON.parse(document.getElementById("data")!.textContent!) as Fleet;
const page = document.getElementById("page")!;
const chart = h("section", { class: "heat" });
const detail = h("section", { class: "detail", "aria-live": "polite" });
const list = h("ol", { class: "causes" });
const allTrends = trends(fleet);
let chosen: number | null = null;

function time(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16).replace("T", " ");
}

function named(cause: Cause): string {
  return [cause.service, cause.cause, cause.place].filter(Boolean).join(" · ");
}

/** `2 of 3 hosts`, `1 of 1 host`. */
function counted(all: number, what: string, some: string): string {
  return `${some}${count(all)} ${what}${all === 1 ? "" : "s"}`;
}

/** The width of a column of the heat map. */
function cellWidth(): number {
  return (sheet.width - NAMES) / Math.max(columns(fleet), ROOM);
}

/** A trend as bars; each has its time and amount as its title. */
function sparkline(values: Float64Array): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${Math.max(values.length, ROOM)} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "trend");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Excess by time");
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  values.forEach((value, at) => {
    if (value <= 0) return;
    const bar = document.createElementNS(SVG, "rect");
    const height = Math.max(1, value / most * 20);
    for (const [name, number] of [["x", at], ["y", 20 - height], ["width", 1], ["height", height]] as const) {
      bar.setAttribute(name, String(number));
    }
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${time(columnBegins(fleet, at))} UTC: ${duration(value)}`;
    bar.append(title);
    svg.append(bar);
  });
  return svg;
}

/** A share from 0 to 1 with its interval as a line. */
function interval(cause: Cause): HTMLElement {
  const bar = h("span", { class: "bar" }, h("span", {}));
  (bar.firstChild as HTMLElement).style.width = `${cause.share * 100}%`;
  if (cause.share_95) {
    const [low, high] = cause.share_95;
    const reach = h("i", { class: "reach" });
    reach.style.left = `${low * 100}%`;
    reach.style.width = `${(high - low) * 100}%`;
    bar.append(reach);
  }
  return bar;
}

function row(cause: Cause, at: number): HTMLElement {
  const reach = cause.share_95 ? ` [${cause.share_95.map((s) => Math.round(s * 100)).join("-")}]` : "";
  const rate = cause.slow_per_million === null ? "" : `${count(cause.slow_per_million)} in a million requests; `;
  const button = h("button", { "aria-pressed": "false", onclick: () => choose(chosen === at ? null : at) },
    h("strong", {}, `${at + 1}. ${named(cause)}: ${percent(cause.share)}${reach} of the excess (${duration(cause.excess_ns)})`),
    h("span", {}, cause.summary),
    h("span", {}, `${cause.requests.join(", ")}; ${rate}${counted(cause.hosts_of_service, "host", `${count(cause.hosts)} of `)}; `
      + `confirmed in ${counted(cause.captures, "capture", `${count(cause.confirmed)} of `)}`));
  button.append(sparkline(allTrends[at]), interval(cause));
  return h("li", { class: "cause" }, button);
}

function versions(at: number): HTMLElement {
  const rows = byVersion(fleet, at);
  const most = Math.max(...rows.map((one) => one.per_million_ns ?? one.excess_ns), 1);
  return h("table", { class: "versions" },
    h("thead", {}, h("tr", {}, ...["version", "requests", "captures", "excess", "of a million requests", ""].map((t) => h("th", {}, t)))),
    h("tbody", {}, ...rows.map(({ version, excess_ns, per_million_ns }) => {
      const bar = h("span", { class: "bar" }, h("span", {}));
      (bar.firstChild as HTMLElement).style.width = `${(per_million_ns ?? excess_ns) / most * 100}%`;
      return h("tr", {},
        h("td", {}, version.version ?? "(no label)"),
        h("td", {}, version.requests === null ? "not counted" : count(version.requests)),
        h("td", {}, count(version.captures)), h("td", {}, duration(excess_ns)),
        h("td", {}, per_million_ns === null ? "-" : duration(per_million_ns)), h("td", {}, bar));
    })));
}

function capture(at: number, what: string): HTMLElement {
  if (at < 0) return h("p", { class: "report" }, "No capture of it is in this page.");
  const command = `dashcam view ${fleet.captures[at]}`;
  const copy = h("button", { onclick: () => navigator.clipboard?.writeText(command) }, "Copy");
  return h("p", { class: "report worst" }, `${what}: `, h("code", {}, command), " ", copy);
}

function choose(at: number | null): void {
  chosen = at;
  [...list.querySelectorAll("button")].forEach((button, i) => button.setAttribute("aria-pressed", String(i === at)));
  if (at === null) fill(detail, h("p", { class: "report" }, "Choose a cause for its versions and its worst capture, or a field of the map below."));
  else {
    const cause = fleet.causes[at];
    const rest = cause.rest_ns > 0 ? `${duration(cause.rest_ns)} of it are beyond this page's cells.` : "";
    fill(detail, h("h2", {}, named(cause), h("span", { class: "title" }, cause.fingerprint)),
      h("p", { class: "report" }, cause.advice, " ", rest), versions(at), capture(cause.worst, "Worst capture"));
  }
  map();
}

let shown: Heat;
const sheet = new Sheet("Excess by host and time", draw, () => shown.hosts.length * ROW + 20);

function map(): void {
  shown = heat(fleet, chosen);
  const of = chosen === null ? "all causes" : named(fleet.causes[chosen]);
  const more = shown.more > 0 ? `; ${count(shown.more)} more hosts have less` : "";
  fill(chart, h("h2", {}, "Hosts by time", h("span", { class: "legend" }, `${of}; darker is more, at most ${duration(shown.most_ns)}${more}`)), sheet.canvas);
  sheet.ask();
}

function draw(): void {
  const { context, width } = sheet;
  const palette = colours();
  const cell = cellWidth();
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, width, shown.hosts.length * ROW + 20);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  shown.hosts.forEach((host, at) => {
    context.globalAlpha = 1;
    context.fillStyle = palette.ink;
    context.fillText(cut(context, fleet.hosts[host], NAMES - 8), 0, at * ROW + ROW / 2);
    context.fillStyle = palette.panel;
    context.fillRect(NAMES, at * ROW, width - NAMES, ROW - 1);
    context.fillStyle = palette.slow;
    shown.excess_ns[at].forEach((ns, column) => {
      if (ns <= 0) return;
      context.globalAlpha = shade(ns, shown.most_ns);
      context.fillRect(NAMES + column * cell, at * ROW, Math.max(1, cell - 0.5), ROW - 1);
    });
  });
  context.globalAlpha = 1;
  context.fillStyle = palette.soft;
  const [first, last] = [time(columnBegins(fleet, 0)), time(columnBegins(fleet, columns(fleet)))];
  context.fillText(`${first} UTC`, NAMES, shown.hosts.length * ROW + 10);
  const ends = Math.max(NAMES + columns(fleet) * cell, NAMES + context.measureText(`${first} UTC   ${last}`).width);
  context.fillText(last, ends - context.measureText(last).width, shown.hosts.length * ROW + 10);
}

sheet.canvas.addEventListener("click", (event) => {
  const cell = cellWidth();
  const [at, column] = [Math.floor(event.offsetY / ROW), Math.floor((event.offsetX - NAMES) / cell)];
  const ns = shown.excess_ns[at]?.[column] ?? 0;
  if (ns <= 0) return;
  const where = `${fleet.hosts[shown.hosts[at]]}, ${time(columnBegins(fleet, column))} UTC, ${duration(ns)}; its worst capture`;
  detail.querySelector(".of-field")?.remove();
  detail.append(h("div", { class: "of-field" }, capture(shown.worst[at][column], where)));
});
onTheme(() => sheet.ask());

fill(list, ...fleet.causes.map(row));
fill(page, h("header", {}, h("h1", {}, fleet.title), h("button", { onclick: toggleTheme }, "Light or dark")),
  h("pre", { class: "summary" }, fleet.text), list, detail, chart);
choose(null);
document.documentElement.dataset.ready = "yes";
