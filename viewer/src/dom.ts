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

/** `text`, cut with an ellipsis to `width`; "" if not even a few letters fit. */
export function cut(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (width < 14) return "";
  // About six pixels a letter: measuring long texts letter by letter would be the largest cost.
  const room = Math.floor(width / 6.2);
  if (text.length <= room) return text;
  if (context.measureText(text).width <= width) return text;
  return room < 3 ? "" : `${text.slice(0, room - 1)}…`;
}
