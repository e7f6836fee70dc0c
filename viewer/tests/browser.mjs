// The system's Chromium, headless. Its errors on the console and its requests to anywhere are
// collected, and every test ends by checking that there are none.
import assert from "node:assert/strict";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

/** The browser's program; DASHCAM_CHROMIUM wins. */
export function program() {
  if (process.env.DASHCAM_CHROMIUM) return process.env.DASHCAM_CHROMIUM;
  for (const name of ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch { /* the next one */ }
    }
  }
  throw new Error("no Chromium on PATH: apt-get install chromium, or set DASHCAM_CHROMIUM");
}

export async function launch() {
  // As root there is no sandbox; the pages are our own.
  return chromium.launch({ executablePath: program(), args: ["--no-sandbox", "--disable-gpu"], timeout: 90_000 });
}

/** Opens a file; `seen` collects everything that must not happen. */
export async function open(browser, path, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 }, offline: true, ...options,
  });
  const page = await context.newPage();
  const seen = { console: [], requests: [], dialogs: [] };
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) seen.console.push(m.text()); });
  page.on("pageerror", (e) => seen.console.push(String(e)));
  page.on("dialog", (d) => { seen.dialogs.push(d.message()); d.dismiss(); });
  const url = pathToFileURL(path).href;
  page.on("request", (r) => { if (r.url() !== url && !r.url().startsWith("data:")) seen.requests.push(r.url()); });
  await page.goto(url);
  await page.waitForSelector("html[data-ready]");
  return { page, seen, close: () => context.close() };
}

/** Nothing on the console, no request, no dialog; and the page was assembled. */
export async function quiet({ page, seen }) {
  assert.equal(await page.getAttribute("html", "data-ready"), "yes");
  assert.deepEqual(seen, { console: [], requests: [], dialogs: [] });
}
