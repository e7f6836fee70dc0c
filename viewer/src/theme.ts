// Light and dark: the system's choice, or the button's. Canvases read their colours here.
//
// The colours are those of style.css (its custom properties), so that there is one list. States
// differ by height and label as well, estimates by hatching: nothing depends on colour alone.

const NAMES = [
  "paper", "panel", "ink", "soft", "line", "accent", "slow", "normal", "run", "ready", "wait",
  "unknown", "gc", "gil", "span", "hot", "cold", "mark",
] as const;
export type Colour = (typeof NAMES)[number];
export type Palette = Record<Colour, string>;

let palette: Palette | null = null;
const listeners: (() => void)[] = [];
const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", changed);

/** The active colours. */
export function colours(): Palette {
  if (palette) return palette;
  const style = getComputedStyle(document.documentElement);
  const read = NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
  palette = Object.fromEntries(read) as Palette;
  return palette;
}

export function onTheme(listener: () => void): void { listeners.push(listener); }

export function isDark(): boolean {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : dark.matches;
}

export function toggleTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  changed();
}

/** Paper is white: the canvases are drawn anew for it, before the page is printed. */
export function printInLight(): void {
  let before: string | undefined;
  window.addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    changed();
  }, { capture: true });
  window.addEventListener("afterprint", () => {
    if (before === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = before;
    changed();
  });
}

function changed(): void {
  palette = null;
  hatches.clear();
  for (const listener of listeners) listener();
}

const hatches = new Map<string, CanvasPattern>();

/** Diagonal lines: the mark of an estimate. */
export function hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern {
  const known = hatches.get(colour);
  if (known) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 7;
  const pen = tile.getContext("2d")!;
  pen.strokeStyle = colour;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const x of [-7, 0, 7]) { pen.moveTo(x, 7); pen.lineTo(x + 7, 0); }
  pen.stroke();
  const made = context.createPattern(tile, "repeat")!;
  hatches.set(colour, made);
  return made;
}

/** A colour for a name: always the same for a name, distinct in both themes. */
export function hue(text: string): string {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) | 0;
  const angle = ((hash >>> 0) * 137) % 360;
  return isDark() ? `hsl(${angle} 34% 36%)` : `hsl(${angle} 55% 80%)`;
}

const CAUSES: Record<string, number> = {
  sleep: 265, "lock-wait": 10, "gil-wait": 32, "gc-pause": 320, cpu: 140, "cpu-starved": 48,
  "cpu-throttled": 55, "event-loop-blocked": 350, "pool-wait": 200, "downstream-wait": 220,
  connect: 235, dns: 245, "disk-io": 180, "pipe-write": 170, "subprocess-wait": 290, import: 95,
  "page-fault": 75, stopped: 0, fork: 110, "deadlock-timeout": 25, recorder: 155,
};

/** A cause's colour; grey for unknown. */
export function causeColour(cause: string): string {
  const angle = CAUSES[cause];
  if (angle === undefined) return isDark() ? "hsl(0 0% 38%)" : "hsl(0 0% 80%)";
  return isDark() ? `hsl(${angle} 42% 38%)` : `hsl(${angle} 68% 78%)`;
}
