// The selection, the chosen request and the search; views subscribe to changes.

import type { Book, Cause } from "./data.ts";

export type Change = "selection" | "chosen" | "search" | "focus" | "slice";

export class Store {
  /** Selected requests, by begin. Flame graph and waits are about these. */
  selection: number[] = [];
  /** The reason for the selection, in words. */
  selectedBy = "";
  /** Rank of the cause they were selected by, 0 none. */
  cause = 0;
  /** The request in the timeline, -1 none. */
  chosen = -1;
  /** Lower case; "" none. */
  search = "";
  /** The slice of the chosen request that the timeline should explain. */
  at = -1;
  /** An interval that the timeline should show, ns. */
  focus: [number, number] | null = null;
  private readonly listeners = new Map<Change, (() => void)[]>();

  constructor(readonly book: Book) {}

  on(change: Change, listener: () => void): void {
    const known = this.listeners.get(change);
    if (known) known.push(listener); else this.listeners.set(change, [listener]);
  }

  changed(change: Change): void {
    for (const listener of this.listeners.get(change) ?? []) listener();
  }

  select(requests: number[], by: string, cause = 0): void {
    this.selection = [...requests].sort((a, b) => a - b);
    this.selectedBy = by;
    this.cause = cause;
    this.changed("selection");
    const shown = this.shown();
    if (shown.length > 0 && !shown.includes(this.chosen)) {
      const length = this.book.data.requests.length;
      this.choose(shown.reduce((a, b) => (length[b] > length[a] ? b : a)));
    }
  }

  /** The requests of a cause; the one that has most of it is chosen, where it has most of it. */
  selectCause(rank: number): boolean {
    const { causes } = this.book.data.verdict;
    const at = causes.findIndex((c) => c.rank === rank);
    if (at < 0) return false;
    const cause = causes[at];
    const found = this.mostOf(cause, this.book.data.members[at]);
    if (found) [this.chosen, this.focus] = [found.request, null];
    this.select(this.book.data.members[at], `cause ${rank}, ${cause.cause}`, rank);
    if (!found) return true;
    this.choose(found.request);
    this.at = found.slice;
    this.changed("slice");
    return true;
  }

  /** The request with the most time of a cause, at its place if it was seen there, and the first slice of its
   * longest stretch of it. */
  private mostOf(cause: Cause, members: number[]): { request: number; slice: number } | null {
    const { book } = this;
    const { frames } = book.data;
    const isPlace = (stack: number) => cause.where !== null && book.frames(stack).some((f) =>
      frames.line[f] === cause.where!.line && book.name(frames.file[f]) === cause.where!.file);
    let best: { request: number; slice: number; weight: number } | null = null;
    for (const request of members) {
      const slices = book.detailOf.get(request)?.slices;
      if (!slices) continue;
      const begins = book.stretch(slices);
      const times = new Map<number, number>();
      let all = 0;
      const known = new Map<number, boolean>();
      for (let i = 0; i < slices.from.length; i++) {
        if (book.cause(slices.cause[i]) !== cause.cause) continue;
        let here = known.get(slices.stack[i]);
        if (here === undefined) known.set(slices.stack[i], (here = isPlace(slices.stack[i])));
        // Elsewhere counts, but less than anything at the place.
        const weight = slices.length[i] * (here ? 1 : 1e-3);
        all += weight;
        times.set(begins[i], (times.get(begins[i]) ?? 0) + weight);
      }
      if (all === 0 || (best && all <= best.weight)) continue;
      const slice = [...times].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
      best = { request, slice, weight: all };
    }
    return best;
  }

  /** All slow requests, or all requests if none was slow. */
  selectAll(): void {
    const all = this.book.data.requests.begin.map((_, i) => i);
    const slow = all.filter((i) => this.book.isSlow(i));
    if (slow.length > 0) this.select(slow, "all slow requests");
    else this.select(all, "all requests");
  }

  choose(request: number): void {
    this.chosen = request;
    this.focus = null;
    this.changed("chosen");
  }

  show(request: number, from: number, to: number): void {
    if (this.chosen !== request) this.choose(request);
    this.focus = [from, to];
    this.changed("focus");
  }

  find(text: string): void {
    this.search = text.toLowerCase();
    this.changed("search");
  }

  /** Selected requests that have a timeline. */
  shown(): number[] {
    return this.selection.filter((i) => this.book.detailOf.has(i));
  }

  /** The next or previous request with a timeline: of the selection, else of all. */
  step(by: number): void {
    let list = this.shown();
    if (list.length < 2) list = [...this.book.detailOf.keys()].sort((a, b) => a - b);
    if (list.length === 0) return;
    const at = list.indexOf(this.chosen);
    const next = at < 0 ? 0 : (at + by + list.length) % list.length;
    this.choose(list[next]);
  }
}
