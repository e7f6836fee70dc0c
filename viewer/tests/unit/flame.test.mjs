// The flame graph's tree: the sum of each weight, and the layout of its boxes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const { grow, lay, ofProgram } = await source("flame/tree.ts");
const { RUN } = await source("data.ts");
const WAIT = RUN + 1;

// Two requests: 0 is slow and waits 80 of its 100 ns below load(), 1 is normal and computes for 10.
// Functions are numbers; frame 2 is one of the interpreter's own.
function book() {
  const detail = (rows) => ({
    slices: {
      from: rows.map(() => 0), state: rows.map(([state]) => state), length: rows.map(([, ns]) => ns),
      stack: rows.map(([, , stack]) => stack), cause: rows.map(() => 3),
    },
  });
  const stacks = { 1: [1, 2, 0], 2: [1, 0], 0: [] };
  return {
    data: { frames: { owner: [0, 0, 2], function: [10, 11, 12], file: [0, 0, 1] } },
    detailOf: new Map([[0, detail([[RUN, 20, 2], [WAIT, 80, 1]])], [1, detail([[RUN, 10, 2]])]]),
    frames: (stack) => [...stacks[stack]],
    functionName: (frame) => ["main", "load", "eval"][frame],
    cause: () => "sleep",
    isSlow: (request) => request === 0,
  };
}

const values = (node) => Object.fromEntries([...node.children.values()].map((c) => [c.name, c.value]));
const down = (node, ...names) =>
  names.reduce((at, name) => [...at.children.values()].find((child) => child.name === name), node);

test("all time is on the CPU and off it", () => {
  const of = (mode) => grow(book(), [0, 1], mode, true).value;
  assert.deepEqual([of("wall"), of("cpu"), of("off")], [110, 30, 80]);
});

test("a wait is a leaf of its own below the function that waited", () => {
  const root = grow(book(), [0], "wall", true);
  assert.deepEqual(values(root), { main: 100 });
  assert.deepEqual(values(down(root, "main", "load")), { sleep: 100 });
});

test("the interpreter's own frames are there only when they are wanted", () => {
  assert.deepEqual(values(down(grow(book(), [0], "off", true), "main")), { load: 80 });
  assert.deepEqual(values(down(grow(book(), [0], "off", false), "main")), { eval: 80 });
});

test("the difference compares the mean of slow requests with that of normal ones", () => {
  const root = grow(book(), [0], "difference", true);
  assert.deepEqual([root.value, root.normal], [100, 10]);
});

test("a stack that was not seen says so", () => {
  const unseen = book();
  unseen.detailOf.get(1).slices.stack = [0];
  assert.deepEqual(values(grow(unseen, [1], "cpu", true)), { "stack not seen": 10 });
});

test("children lie inside of their parent, the widest first, and narrow ones are left out", () => {
  const child = (name, value) => [name, { name, value, normal: 0, children: new Map() }];
  const root = { name: "all", value: 10, normal: 0, children: new Map([child("a", 3), child("b", 6), child("c", 1)]) };
  const boxes = lay(root, "wall", 0.2).map(({ node, depth, left, right }) => [node.name, depth, left, right]);
  const near = boxes.map(([name, depth, left, right]) => [name, depth, +left.toFixed(3), +right.toFixed(3)]);
  assert.deepEqual(near, [["all", 0, 0, 1], ["b", 1, 0, 0.6], ["a", 1, 0.6, 0.9]]);
});

test("a handler is one box, whatever called it, and a launcher is none", () => {
  // Outermost first: main() of the program, the server, the framework, the handler, a library, a callback.
  const [own, library, interpreter, server] = [0, 1, 2, 4];
  const owner = [own, server, library, own, library, own, interpreter];
  assert.deepEqual(ofProgram([0, 1, 2, 3, 4, 5, 6], owner, false), [3, 4, 5]);
  assert.deepEqual(ofProgram([6, 1, 3], owner, false), [3], "called by another way");
  assert.deepEqual(ofProgram([6, 0, 4], owner, false), [0, 4], "without a server main() is the program");
  assert.deepEqual(ofProgram([0, 1, 2], owner, false), [2], "a framework that called nothing yet");
});

test("native code that the interpreter called is shown where it computes", () => {
  const owner = [0, 5];
  assert.deepEqual(ofProgram([0, 1], owner, true), [0, 1]);
  assert.deepEqual(ofProgram([0, 1], owner, false), [0]);
});
