// The selection, the chosen request and the search; views subscribe to changes.

import type { Book } from "./data.ts";

export type Change = "selection" | "chosen" | "search" | "theme" | "focus";

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
  /** An interval that the timeline should show, ns. */
  focus: [number, number] | null = null;
  private readonly listeners = new Map<Change, (() => void)[]>();

  constructor(readonly book: Book) {}

  on(change: Change, listener: () => void): void {
    const known = this.listeners.get(change);
    if (known) known.push(listener); else this.listeners.set(change, [listener]);
  }

  tell(change: Change): void {
    for (const listener of this.listeners.get(change) ?? []) listener();
  }

  select(requests: number[], by: string, cause = 0): void {
    this.selection = [...requests].sort((a, b) => a - b);
    this.selectedBy = by;
    this.cause = cause;
    this.tell("selection");
    const shown = this.shown();
    if (shown.length > 0 && !shown.includes(this.chosen)) {
      const length = this.book.data.requests.length;
      this.choose(shown.reduce((a, b) => (length[b] > length[a] ? b : a)));
    }
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
    this.tell("chosen");
  }

  show(request: number, from: number, to: number): void {
    if (this.chosen !== request) this.choose(request);
    this.focus = [from, to];
    this.tell("focus");
  }

  find(text: string): void {
    this.search = text.toLowerCase();
    this.tell("search");
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
