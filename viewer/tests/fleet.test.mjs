// The page of a fleet in a real browser: it reacts to mouse and keyboard, and is quiet.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, open, quiet } from "./browser.mjs";

const folder = mkdtempSync(join(tmpdir(), "dashcam-fleet-"));
const template = readFileSync(fileURLToPath(new URL("../../python/dashcam/_fleet/page.html", import.meta.url)), "utf8");
const HOSTILE = "<img src=x onerror=alert(1)>";
const CELLS = 10_000, CAUSES = 100, HOSTS = 300, HOURS = 168;

/** A page with as many cells as one may have. */
function write(name) {
  const each = (of) => Array.from({ length: CELLS }, (_, i) => of(i));
  const cause = (i) => ({
    service: "billy", fingerprint: `f${i}`, cause: "sleep", place: i ? `app.py f${i}()` : HOSTILE, culprit: "", summary: "It slept.",
    advice: "Wait less.", excess_ns: 1e9 * (CAUSES - i), share: 0.01, share_95: i ? null : [0.005, 0.03], slow_per_million: 12, hosts: 3,
    hosts_of_service: 300, captures: 7, confirmed: 7, first_utc: null, last_utc: null, requests: ["GET /"], rest_ns: i ? 0 : 2e9, worst: i % 2,
  });
  const data = {
    title: "Fleet x", text: "1 service", from_hour: 490_000, hours: HOURS, causes: Array.from({ length: CAUSES }, (_, i) => cause(i)),
    versions: [{ service: "billy", version: "4.1", requests: 1e6, captures: 1 }, { service: "billy", version: null, requests: null, captures: 2 }],
    hosts: Array.from({ length: HOSTS }, (_, i) => `host-${i}`), captures: ["captures/a.dashcam", "captures/b.dashcam"],
    cells: {
      cause: each((i) => i % CAUSES), host: each((i) => i % HOSTS), version: each((i) => i % 2), hour: each((i) => 490_000 + i % HOURS),
      excess_ns: each((i) => 1e6 * (CELLS - i)), worst: each((i) => i % 2),
    },
  };
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  const path = join(folder, name);
  writeFileSync(path, template.replace("<!--dashcam:title-->", "Fleet x").replace("<!--dashcam:text-->", "1 service")
    .replace("<!--dashcam:data-->", () => json));
  return path;
}

let browser, path;
before(async () => { path = write("fleet.html"); browser = await launch(); });
after(async () => { await browser?.close(); rmSync(folder, { recursive: true, force: true }); });

test("causes are ranked, with trends; a click shows versions and the worst capture", async () => {
  const opened = await open(browser, path);
  const { page } = opened;
  assert.equal(await page.locator(".cause").count(), CAUSES);
  assert.equal(await page.locator(".cause .trend rect").count() > CAUSES, true);
  assert.match(await page.locator(".cause strong").first().textContent(), /^1\. billy {2}sleep {2}<img .*\[1-3\] of the excess/);
  await page.locator(".cause button").nth(1).click();
  assert.match(await page.locator(".detail").textContent(), /app\.py f1\(\).*4\.1.*not counted.*dashcam view captures\/b\.dashcam/s);
  assert.equal(await page.locator('.cause button[aria-pressed="true"]').count(), 1);
  await page.locator(".cause button").first().press("Enter");
  assert.match(await page.locator(".detail").textContent(), /2 s of it are beyond/);
  await quiet(opened);
  await opened.close();
});

test("a click into the map shows the worst capture of that host and hour", async () => {
  const opened = await open(browser, path);
  const { page } = opened;
  const box = await page.locator(".heat canvas").boundingBox();
  // Host 0 is the first; its first cell is in the first hour.
  const column = (box.width - 190) / HOURS;
  await page.locator(".heat canvas").click({ position: { x: 190 + column / 2, y: 7 } });
  assert.match(await page.locator(".of-field").textContent(), /^host-0, .* UTC, .*its worst capture: dashcam view captures\/a\.dashcam/);
  await quiet(opened);
  await opened.close();
});

test("in the dark, and on a phone, nothing is wider than the page", async () => {
  const opened = await open(browser, path, { viewport: { width: 390, height: 800 }, colorScheme: "dark" });
  const { page } = opened;
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), true);
  await quiet(opened);
  await opened.close();
});
