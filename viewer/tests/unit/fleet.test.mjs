// The sums of a fleet's page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const { byVersion, columnBegins, columns, heat, perColumn, shade, trends, HOSTS } = await source("fleet/model.ts");

/** Cells as rows: cause, host, version, hour, excess, capture. */
function fleet(rows, hours = 10) {
  const column = (at) => rows.map((row) => row[at]);
  const version = (name, requests) => ({ service: "billy", version: name, requests, captures: 1 });
  return {
    from_hour: 1000, hours, hosts: Array.from({ length: 300 }, (_, i) => `h${i}`), captures: ["a", "b", "c"],
    causes: [{ service: "billy" }, { service: "billy" }],
    versions: [version("1", 1e6), version("2", null), { ...version("9", 5), service: "shop" }],
    cells: { cause: column(0), host: column(1), version: column(2), hour: column(3).map((h) => 1000 + h), excess_ns: column(4), worst: column(5) },
  };
}
const small = fleet([[0, 0, 0, 0, 5, 0], [0, 1, 0, 0, 7, 1], [0, 1, 1, 9, 2, 2], [1, 0, 0, 3, 100, 0]]);

test("a trend has the excess of each column", () => {
  const [first, second] = trends(small);
  assert.deepEqual([...first], [12, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
  assert.equal(second[3], 100);
});

test("long spans have columns of several hours, and none is lost", () => {
  const long = fleet([[0, 0, 0, 0, 1, 0], [0, 0, 0, 999, 2, 0]], 1000);
  assert.deepEqual([perColumn(1000), perColumn(168), perColumn(169), columns(long)], [6, 1, 2, 167]);
  const [line] = trends(long);
  assert.deepEqual([line.length, line[0], line[166]], [167, 1, 2]);
  assert.equal(columnBegins(long, 1), 1006 * 3_600_000);
});

test("the map ranks hosts by excess and knows the worst capture of each field", () => {
  const all = heat(small, null);
  assert.deepEqual([all.hosts, all.most_ns, all.more], [[0, 1], 100, 0]);
  const one = heat(small, 0);
  assert.deepEqual(one.hosts, [1, 0]);
  assert.deepEqual([one.excess_ns[0][0], one.worst[0][0], one.worst[0][1]], [7, 1, -1]);
});

test("the map is bounded, and says how many hosts it leaves out", () => {
  const many = heat(fleet(Array.from({ length: 300 }, (_, i) => [0, i, 0, 0, i + 1, 0])), null);
  assert.deepEqual([many.hosts.length, many.hosts[0], many.more], [HOSTS, 299, 300 - HOSTS]);
});

test("versions of the service are side by side, by a million requests where they were counted", () => {
  const rows = byVersion(small, 0);
  assert.deepEqual(rows.map((one) => [one.version.version, one.excess_ns, one.per_million_ns]), [["1", 12, 12], ["2", 2, null]]);
});

test("shades are from 0 to 1, and small ones are seen", () => {
  assert.deepEqual([shade(0, 5), shade(5, 5), shade(5, 0)], [0, 1, 0]);
  assert.ok(shade(1, 1e9) >= 0.15 && shade(1, 10) < shade(5, 10));
});

test("ten thousand cells are summed at once", () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => [i % 2, i % 300, 0, i % 168, 1, 0]);
  const large = fleet(rows, 168);
  assert.equal(trends(large).flatMap((line) => [...line]).reduce((a, b) => a + b), 10_000);
  assert.equal(heat(large, 0).hosts.length, HOSTS);
});
