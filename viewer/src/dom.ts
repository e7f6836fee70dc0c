// Elements, made without parsing markup: text from a capture is never anything but text.

type Child = Node | string | null | undefined | false;
type Props = Record<string, string | number | boolean | ((event: any) => void) | undefined>;

/** An element: attributes, `onclick` and the like as functions, children as nodes or text. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, props: Props = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Replaces an element's content. */
export function fill(element: HTMLElement, ...children: Child[]): void {
  element.replaceChildren(...children.filter((c): c is Node | string => Boolean(c)));
}

/** A canvas of the size of its box, sharp on every screen; `draw` gets CSS pixels. */
export class Sheet {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  width = 0;
  private asked = false;

  constructor(label: string, readonly draw: () => void, readonly height: () => number) {
    this.canvas = h("canvas", { role: "img", "aria-label": label, tabindex: 0 });
    this.context = this.canvas.getContext("2d", { alpha: false })!;
    new ResizeObserver(() => this.ask()).observe(this.canvas);
    // Printing waits for no frame.
    window.addEventListener("beforeprint", () => this.now());
  }

  /** Draws at the next frame, once for any number of calls. */
  ask(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.now();
    });
  }

  private now(): void {
    const [width, height] = [this.canvas.clientWidth, this.height()];
    if (width === 0) return;
    const scale = window.devicePixelRatio || 1;
    const [w, hgt] = [Math.round(width * scale), Math.round(height * scale)];
    this.canvas.style.height = `${height}px`;
    if (this.canvas.width !== w || this.canvas.height !== hgt) {
      this.canvas.width = w;
      this.canvas.height = hgt;
    }
    this.width = width;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.draw();
  }
}

const widths = new Map<string, Map<string, number>>();

/** Width of a character in the context's font; measured once. */
function charWidth(context: CanvasRenderingContext2D, char: string): number {
  let known = widths.get(context.font);
  if (!known) widths.set(context.font, (known = new Map()));
  let width = known.get(char);
  if (width === undefined) known.set(char, (width = context.measureText(char).width));
  return width;
}

/** `text`, cut with an ellipsis to `width`; "" if not even two letters fit. */
export function cut(context: CanvasRenderingContext2D, text: string, width: number): string {
  const room = width - charWidth(context, "…");
  let [used, kept, fits] = [0, 0, 0];
  for (const char of text) {
    used += charWidth(context, char);
    if (used <= room) {
      kept += char.length;
      fits += 1;
    }
    if (used > width) return fits < 2 ? "" : `${text.slice(0, kept).trimEnd()}…`;
  }
  return text;
}

/** Puts a text into the clipboard; the page is a file, where not every browser has the interface for it. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { "aria-hidden": "true", class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** A button that copies, and says so for a moment. */
export function copyButton(label: string, title: string, text: () => string): HTMLButtonElement {
  const button = h("button", { class: "copy", title, onclick: () => {
    void copy(text()).then(() => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; }, 1200);
    });
  } }, label);
  return button;
}
