// What the views ask of the data: stretches of a request, the request that has most of a cause, the
// waterfall of its spans and log lines.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const { Book, RUN, WAIT } = await source("data.ts");
const { Store } = await source("store.ts");
const { items } = await source("timeline/waterfall.ts");

/** Slices of `[cause, state, stack, ns]`, one after the other. */
function slices(rows) {
  let at = 0;
  const from = rows.map((row) => { at += row[3]; return at - row[3]; });
  const column = (i) => rows.map((row) => row[i]);
  const zero = rows.map(() => 0);
  return {
    from, cause: column(0), state: column(1), stack: column(2), length: column(3), exact: rows.map(() => 1),
    thread: zero, target: zero, culprit: zero, culprit_stack: zero, measured: zero,
  };
}

// Frames: 0 view() line 3, 1 view() line 9, 2 native code, 3 other(). Stacks: 1 is view():3, 2 native
// code in view():3, 3 is view():9, 4 is other().
const data = (details, more = {}) => ({
  names: ["", "view", "/srv/app.py", "lock", "/lib/c.so", "read", "log", "text=well", "other"],
  frames: { function: [1, 1, 5, 8], file: [2, 2, 4, 2], line: [3, 9, 0, 20], owner: [0, 0, 1, 0] },
  stacks: { parent: [0, 0, 1, 0, 0], frame: [0, 0, 2, 1, 3] },
  cause_names: ["lock-wait", "cpu"],
  details: details.map((p, i) => ({ request: i, id: String(70 + i), slices: p, lanes: [], attributes: 0 })),
  states: [], members: [details.map((_, i) => i)],
  requests: { length: details.map((p) => p.length.reduce((a, b) => a + b, 0)), begin: [], flags: [] },
  spans: { request: [] }, events: { request: [] },
  verdict: { causes: [{
    rank: 1, cause: "lock-wait", culprit: null,
    where: { file: "/srv/app.py", line: 3, source: { first: 2, lines: ["def view():", "    lock.acquire()"] } },
  }] },
  ...more,
});

test("native frames do not split a wait; another line does", () => {
  const wait = slices([[0, WAIT, 1, 10], [0, WAIT, 1, 10], [0, WAIT, 3, 5]]);
  // The library's frame is inside of the program's: the same place waits.
  const native = slices([[0, WAIT, 1, 10], [0, WAIT, 2, 10], [0, WAIT, 1, 5]]);
  const book = new Book(data([wait, native]));
  assert.deepEqual(book.stretch(wait), [0, 0, 2]);
  assert.deepEqual(book.stretch(native), [0, 0, 0]);
});

test("a computation is one stretch on all its lines, and not across a wait", () => {
  const run = slices([[1, RUN, 1, 10], [1, RUN, 3, 10], [0, WAIT, 3, 5], [1, RUN, 3, 5]]);
  assert.deepEqual(new Book(data([run])).stretch(run), [0, 0, 2, 3]);
});

test("a cause leads to the request that has most of it at its place, and to its longest stretch", () => {
  const slowest = slices([[0, WAIT, 1, 10], [1, RUN, 4, 900]]);
  const most = slices([[1, RUN, 4, 5], [0, WAIT, 1, 20], [1, RUN, 4, 5], [0, WAIT, 1, 60]]);
  const elsewhere = slices([[0, WAIT, 4, 500]]);
  const store = new Store(new Book(data([slowest, most, elsewhere])));
  const seen = [];
  store.on("chosen", () => seen.push(store.chosen));
  assert.ok(store.selectCause(1));
  assert.deepEqual([store.chosen, store.at, store.cause, store.selection.length], [1, 3, 1, 3]);
  assert.deepEqual(seen, [1], "it is loaded once");
  assert.ok(!store.selectCause(2));
});

test("a frame has the line of source that came with the verdict", () => {
  const book = new Book(data([]));
  assert.equal(book.source(0), "lock.acquire()");
  assert.equal(book.source(1), "");
});

test("spans and events are in order, below the spans that contain them", () => {
  const spans = { request: [0, 0, 0], name: [5, 3, 5], begin: [10, 20, 70], length: [50, 10, 5], error: [0, 1, 0], attributes: [0, 0, 0] };
  const events = { request: [0], name: [6], at: [25], attributes: [7] };
  const book = new Book(data([slices([])], { spans, events }));
  const shown = items(book, 0).map((i) => `${i.depth} ${i.name} ${i.begin}+${i.length}${i.error ? " error" : ""}${i.more && ` ${i.more}`}`);
  assert.deepEqual(shown, ["0 read 10+50", "1 lock 20+10 error", "2 log 25+0 text=well", "0 read 70+5"]);
});

test("a place of native code without a line is its file", () => {
  const book = new Book(data([]));
  assert.deepEqual([book.place(0), book.place(2)], ["app.py:3", "c.so"]);
});
