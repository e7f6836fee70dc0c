// Numbers and times as the page writes them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const { clock, count, duration, offset, percent, step, tick, unitOf } = await source("format.ts");

test("a duration has the unit and the digits of its size", () => {
  // The cases of `numbers_for_people` in crates/analysis/src/readable.rs.
  const ms = [654.3, 1006.4, 999.6, 1200, 12_345, 1_204_000, 5.06, 0.0031, 0, 0.06];
  assert.deepEqual(ms.map((ms) => duration(ms * 1e6)),
    ["654 ms", "1.01 s", "1 s", "1.2 s", "12.3 s", "1,204 s", "5.1 ms", "3.1 µs", "0.0 ms", "0.1 ms"]);
  assert.deepEqual([duration(10e9), duration(100e9), duration(-2e9)], ["10 s", "100 s", "−2 s"]);
});

test("times on one axis differ to the millisecond", () => {
  const shown = [1_006_400_000, 1_007_000_000, 5_060_000, 250_000].map(offset);
  assert.deepEqual(shown, ["1,006 ms", "1,007 ms", "5.1 ms", "250 µs"]);
});

test("a count has its thousands apart", () => {
  assert.deepEqual([7, 4812, 1234567, 999.6].map(count), ["7", "4,812", "1,234,567", "1,000"]);
});

test("a time of day is UTC, and unknown where there is none", () => {
  const at = Date.UTC(2026, 10, 25, 10, 9, 12, 345);
  assert.deepEqual([clock(at), clock(at, 3), clock(NaN)], ["10:09:12", "10:09:12.345", "?"]);
});

test("a share below a tenth has a digit more", () => {
  assert.deepEqual([0, 0.034, 0.5, 0.98].map(percent), ["0 %", "3.4 %", "50 %", "98 %"]);
});

test("steps of an axis are 1, 2 or 5 times a power of ten, and not more than asked for", () => {
  for (const span of [0.003, 0.7, 1, 3, 42, 999, 1e9]) {
    for (const most of [1, 4, 10]) {
      const found = step(span, most);
      const factor = found / 10 ** Math.floor(Math.log10(found) + 1e-9);
      assert.ok([1, 2, 5].includes(Math.round(factor * 1e6) / 1e6), `${span} in ${most}: ${found}`);
      assert.ok(span / found <= most + 1e-9, `${span} in ${most}: ${found}`);
    }
  }
});

test("a counter's name ends in its unit, if it has one", () => {
  assert.deepEqual(unitOf("run_delay_ns"), ["run delay", "ns"]);
  assert.deepEqual(unitOf("context_switches"), ["context switches", ""]);
});

test("the ticks of an axis are in one unit, with the digits that distinguish them", () => {
  const axis = (gap, span) => [0, 1, 2, -1].map((i) => tick(i * gap, gap, span));
  assert.deepEqual(axis(2e9, 10e9), ["0", "2 s", "4 s", "−2 s"]);
  assert.deepEqual(axis(5e8, 3e9), ["0", "0.5 s", "1.0 s", "−0.5 s"]);
  assert.deepEqual(axis(5e7, 4e8), ["0", "50 ms", "100 ms", "−50 ms"]);
  assert.deepEqual(axis(2e5, 1.9e6), ["0", "200 µs", "400 µs", "−200 µs"]);
  assert.equal(tick(1_200_000e9, 1e9, 2e15), "1,200,000 s");
});
