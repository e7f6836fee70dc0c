// Numbers and times in the form that people read.

// A verdict's sentences have the same rule: crates/analysis/src/readable.rs, with the same cases in
// its test.

/** `1.01 s`, `654 ms` of nanoseconds; one digit below 10 ms; `3.1 µs` of what that would round to nothing. */
export function duration(ns: number): string {
  if (ns < 0) return `−${duration(-ns)}`;
  const ms = ns / 1e6;
  if (ms > 0 && ms < 0.05) {
    const us = ms * 1000;
    return `${us.toFixed(us < 9.95 ? 1 : 0)} µs`;
  }
  return Math.round(ms) < 1000 ? whole(ms) : `${seconds(Math.round(ms) / 1000)} s`;
}

/** A time since a begin, `1,006 ms`: to the millisecond, since two of them are compared; finer below 1 ms. */
export function offset(ns: number): string {
  const ms = Math.abs(ns) / 1e6;
  return ms > 0 && ms < 1 ? `${(ns / 1e3).toFixed(ms < 0.1 ? 1 : 0)} µs` : whole(ns / 1e6);
}

/** A tick of an axis of time: all in the unit that suits `span`, with the digits that `gap` needs. */
export function tick(ns: number, gap: number, span: number): string {
  const [unit, name] = span >= 2e9 ? [1e9, "s"] : span >= 2e6 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.max(0, Math.ceil(-Math.log10(gap / unit) - 1e-9));
  const text = Math.abs(ns / unit).toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
  return ns === 0 ? "0" : `${ns < 0 ? "−" : ""}${text} ${name}`;
}

function whole(ms: number): string {
  return `${Math.abs(ms) < 10 ? ms.toFixed(1) : count(ms)} ms`;
}

/** Three significant digits: `1.01`, `1.2`, `12.3`, `1,204`. */
function seconds(s: number): string {
  if (s >= 99.95) return count(s);
  return s.toFixed(s < 9.995 ? 2 : 1).replace(/\.?0+$/, "");
}

/** `4,812`. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** `10:09:12` UTC of a Unix epoch time; with ms if the step needs it. */
export function clock(epochMs: number, digits = 0): string {
  const date = new Date(epochMs);
  if (Number.isNaN(date.getTime())) return "?";
  const text = date.toISOString();
  return text.slice(11, digits > 0 ? 20 + digits : 19);
}

/** `98 %`. */
export function percent(part: number): string {
  return `${(part * 100).toFixed(part < 0.1 && part > 0 ? 1 : 0)} %`;
}

/** Steps of an axis: 1, 2 or 5 times a power of ten, about `most` of them in `span`. */
export function step(span: number, most: number): number {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((f) => f * power >= rough) ?? 10;
  return factor * power;
}

/** A counter's name without its unit, and the unit. */
export function unitOf(name: string): [string, string] {
  const found = /^(.*)_(ns|us|ms|bytes|percent|ticks)$/.exec(name);
  return found ? [found[1].replaceAll("_", " "), found[2]] : [name.replaceAll("_", " "), ""];
}
