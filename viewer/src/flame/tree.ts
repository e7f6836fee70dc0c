// Flame graph of claimed segments: a tree of frames, weighed by time.
//
// Four weights: all time, on CPU, off CPU, and the difference: the excess of a slow request over a
// normal one, on average. Frames are distinguished by function and file, not by line.

import { INTERPRETER, NATIVE, OWN, RUN, SERVER, type Book } from "../data.ts";

export type Mode = "wall" | "cpu" | "off" | "difference";

export interface Node {
  key: string;
  name: string;
  frame: number;
  /** Time in the selection, ns; in `difference` the mean of a slow request. */
  value: number;
  /** `difference` only: the mean of a normal request. */
  normal: number;
  children: Map<string, Node>;
}

function node(key: string, name: string, frame: number): Node {
  return { key, name, frame, value: 0, normal: 0, children: new Map() };
}

/**
 * `short`: without the frames of interpreter, recorder and server, and without the framework's between
 * server and program, so that a handler is one box, whatever called it.
 */
export function grow(book: Book, requests: number[], mode: Mode, short: boolean): Node {
  const root = node("", "all", -1);
  const known = requests.filter((r) => book.detailOf.has(r));
  if (mode !== "difference") {
    for (const request of known) add(book, root, request, mode, short, 1, 0);
    return root;
  }
  const slow = known.filter((r) => book.isSlow(r));
  // If only slow requests are selected, all normal ones are compared with them.
  let normal = known.filter((r) => !book.isSlow(r));
  if (normal.length === 0) normal = [...book.detailOf.keys()].filter((r) => !book.isSlow(r));
  for (const request of slow) add(book, root, request, mode, short, 1 / slow.length, 0);
  for (const request of normal) add(book, root, request, mode, short, 0, 1 / normal.length);
  return root;
}

function add(
  book: Book, root: Node, request: number, mode: Mode, short: boolean, value: number, normal: number,
): void {
  const slices = book.detailOf.get(request)!.slices;
  const frames = book.data.frames;
  for (let i = 0; i < slices.from.length; i++) {
    const run = slices.state[i] === RUN;
    if ((mode === "cpu" && !run) || (mode === "off" && run)) continue;
    const ns = slices.length[i];
    const whole = book.frames(slices.stack[i]).reverse();
    const stack = short ? ofProgram(whole, frames.owner, run) : whole;
    let at = root;
    at.value += ns * value;
    at.normal += ns * normal;
    const step = (key: string, name: string, frame: number) => {
      let next = at.children.get(key);
      if (!next) at.children.set(key, (next = node(key, name, frame)));
      next.value += ns * value;
      next.normal += ns * normal;
      at = next;
    };
    if (whole.length === 0) step("?", "stack not seen", -1);
    for (const f of stack) step(`${frames.function[f]} ${frames.file[f]}`, book.functionName(f), f);
    // The leaf names its state, so that a wait differs from work in the same function.
    if (mode !== "cpu") step(`= ${slices.cause[i]}`, book.cause(slices.cause[i]), -2);
  }
}

/**
 * Of a stack, outermost first: from the program's first frame inside of the server on. Native code counts
 * where it computes; in a wait it is how the interpreter waits, and not in every sample.
 */
export function ofProgram(stack: number[], owner: number[], run: boolean): number[] {
  const isShown = (f: number) => owner[f] < INTERPRETER || (run && owner[f] === NATIVE);
  return stack.slice(handlerAt(stack, owner)).filter(isShown);
}

/** Where in a stack, outermost first, the program's code begins inside of the outermost server; without code
 * of the program, where the server's is. */
export function handlerAt(stack: number[], owner: number[]): number {
  const inside = stack.findIndex((f) => owner[f] === SERVER) + 1;
  const first = stack.findIndex((f, i) => i >= inside && owner[f] === OWN);
  return first < 0 ? inside : first;
}

/** A box of the graph, `left` and `right` from 0 to 1. */
export interface Box { node: Node; depth: number; left: number; right: number }

/** Width of a node: in `difference` the larger of both, so that decreases are visible too. */
export function width(node: Node, mode: Mode): number {
  return mode === "difference" ? Math.max(node.value, node.normal) : node.value;
}

/** Boxes under `root`, by depth; boxes narrower than `least` (0 to 1) are left out, with their
 * children. */
export function lay(root: Node, mode: Mode, least: number): Box[] {
  const out: Box[] = [];
  const place = (node: Node, depth: number, left: number, right: number) => {
    out.push({ node, depth, left, right });
    const children = [...node.children.values()].sort((a, b) => width(b, mode) - width(a, mode));
    const sum = children.reduce((all, child) => all + width(child, mode), 0);
    const whole = Math.max(width(node, mode), sum);
    let at = left;
    for (const child of children) {
      const part = whole > 0 ? (width(child, mode) / whole) * (right - left) : 0;
      if (part < least) break;
      place(child, depth + 1, at, at + part);
      at += part;
    }
  };
  if (width(root, mode) > 0) place(root, 0, 0, 1);
  return out;
}
