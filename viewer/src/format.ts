// Numbers and times in the form that people read.

/** `1,006 ms` of nanoseconds; one digit below 10 ms, µs below 1 ms. */
export function duration(ns: number): string {
  const ms = ns / 1e6;
  if (ms === 0) return "0 ms";
  if (Math.abs(ms) < 0.1) return `${(ns / 1e3).toFixed(1)} µs`;
  if (Math.abs(ms) < 10) return `${ms.toFixed(ms < 1 ? 2 : 1)} ms`;
  if (Math.abs(ms) < 100_000) return `${count(Math.round(ms))} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
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
