// The page of real captures in a real browser: what it shows, how it reacts to mouse and keyboard,
// and that it is quiet: no errors on the console, no request to anywhere, no script from a
// capture's names.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, open, quiet } from "./browser.mjs";

// Set by viewer/tests/run: the command, and folders with captures of service.py.
const { DASHCAM, CAPTURES, CAPTURES_ESTIMATED, CAPTURES_EMPTY } = process.env;
const folder = mkdtempSync(join(tmpdir(), "dashcam-viewer-"));
let browser;

/** The largest capture of a folder as a page. */
function view(captures, name, ...more) {
  const files = readdirSync(captures).filter((f) => f.endsWith(".dashcam")).map((f) => join(captures, f));
  const largest = files.sort((a, b) => statSync(b).size - statSync(a).size)[0];
  const page = join(folder, name);
  execFileSync(DASHCAM, ["view", largest, "-o", page, ...more], { timeout: 60_000 });
  return { page, text: why(largest) };
}

/** The verdict as text; the command exits 1 if there is nothing to blame. */
function why(capture) {
  return spawnSync(DASHCAM, ["why", capture], { encoding: "utf8", timeout: 60_000 }).stdout;
}

let exact, estimated, nothingSlow, empty;
before(async () => {
  exact = view(CAPTURES, "exact.html");
  estimated = view(CAPTURES_ESTIMATED, "estimated.html");
  nothingSlow = view(CAPTURES, "nothing-slow.html", "--slow", "10s");
  empty = view(CAPTURES_EMPTY, "empty.html");
  browser = await launch();
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A test on a page of its own; the page must be quiet at its end, whatever was done. */
function on(name, options, act) {
  test(name, async () => {
    const it = await open(browser, options.page?.() ?? exact.page, options.context);
    try {
      await act(it.page);
      await quiet(it);
    } finally {
      await it.close();
    }
  });
}

const words = (text) => text.replaceAll(/\s+/g, " ").trim();
const timeline = "section[aria-label=Timeline]";
const sight = async (page) => {
  const canvas = page.locator(`${timeline} canvas`);
  return [Number(await canvas.getAttribute("data-from")), Number(await canvas.getAttribute("data-to"))];
};
const selected = (page) => page.locator("section[aria-label='Requests over time'] .report").textContent();
/** Number of colours among the pixels of an element: an empty canvas has one. */
async function colours(page, selector) {
  return page.locator(selector).first().evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let i = 0; i < data.length; i += 4) found.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return found.size;
  });
}

on("the verdict is word for word that of `dashcam why`", {}, async (page) => {
  const shown = await page.locator("section.verdict").evaluate((section) => {
    const parts = [section.querySelector("h1"), ...section.querySelectorAll(".cause > .first, .cause > .line, .rest p")];
    return parts.map((p) => p.textContent).join(" ");
  });
  assert.equal(words(shown), words(exact.text));
});

test("without scripts the verdict is there", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false, offline: true });
  const page = await context.newPage();
  await page.goto(pathToFileURL(exact.page).href);
  assert.equal(words(await page.locator("#verdict-text").textContent()), words(exact.text));
  await context.close();
});

test("the policy stops a script that got in, and the network", async () => {
  const it = await open(browser, exact.page);
  const stopped = await it.page.evaluate(async () => {
    const kinds = [];
    document.addEventListener("securitypolicyviolation", (e) => kinds.push(e.effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "window.broken = true";
    document.body.append(script);
    const image = document.createElement("img");
    image.src = "https://example.org/x.png";
    document.body.append(image);
    await fetch("https://example.org/").catch(() => {});
    await new Promise((done) => setTimeout(done, 50));
    return { kinds: kinds.sort(), broken: window.broken === true };
  });
  await it.close();
  assert.deepEqual(stopped, { kinds: ["connect-src", "img-src", "script-src-elem"], broken: false });
});

on("a cause selects its requests and the slowest of them is in the timeline", {}, async (page) => {
  await page.keyboard.press("0");
  assert.match(await selected(page), /all slow requests: 6 slow/);
  await page.locator(".cause button").first().click();
  assert.match(await selected(page), /cause 1, lock-wait: 6 slow, 0 normal; 6 with a timeline/);
  assert.equal(await page.locator(".cause button").first().getAttribute("aria-pressed"), "true");
  assert.match(await page.locator(`${timeline} .title`).textContent(), /GET \/items, \d\d\d ms, slow/);
  const inspector = await page.locator(".inspector").textContent();
  assert.match(inspector, /lock-wait/);
  assert.match(inspector, /In its waykeeper & co/);
  assert.match(inspector, /linger/);
});

/** What the page would put into the clipboard. */
async function copied(page, button) {
  await page.evaluate(() => {
    const clipboard = { writeText: async (text) => { window.copied = text; } };
    Object.defineProperty(navigator, "clipboard", { value: clipboard, configurable: true });
  });
  await button.click();
  return page.evaluate(() => window.copied);
}

on("the verdict can be selected, and copied as text, as Markdown, and each cause", {}, async (page) => {
  await page.locator(".cause .first").first().click({ clickCount: 3 });
  const marked = await page.evaluate(() => getSelection().toString());
  assert.match(marked, /^1\. lock-wait: /);
  const button = (name) => page.getByRole("button", { name, exact: true }).first();
  assert.equal(await copied(page, button("Copy text")), exact.text);
  assert.match(await copied(page, button("Copy Markdown")), /^\*\*6 of 187 requests.*\n\n### 1\. lock-wait: /);
  assert.match(await copied(page, button("Copy")), /^1\. lock-wait: .*\n6 of 6 slow requests/);
});

on("a link leads to its request", {}, async (page) => {
  const link = () => copied(page, page.getByRole("button", { name: "Copy link" }));
  const first = await link();
  assert.match(first, /exact\.html#request=\d+$/);
  await page.keyboard.press("ArrowRight");
  const second = await link();
  assert.notEqual(second, first);
  const shown = await sight(page);
  const it = await browser.newContext({ viewport: { width: 1280, height: 900 }, offline: true });
  const other = await it.newPage();
  await other.goto(second);
  await other.waitForSelector("html[data-ready=yes]");
  assert.deepEqual(await sight(other), shown);
  await it.close();
});

on("every thread of a slow request is there on demand", {}, async (page) => {
  const height = () => page.locator(`${timeline} canvas`).evaluate((canvas) => canvas.clientHeight);
  const few = await height();
  await page.getByLabel("every thread").check();
  await page.waitForFunction((few) => document.querySelector(".timeline canvas").clientHeight > few, few);
  const shown = await sight(page);
  await page.getByLabel("every thread").uncheck();
  await page.waitForFunction((few) => document.querySelector(".timeline canvas").clientHeight === few, few);
  assert.deepEqual(await sight(page), shown, "the same place");
});

on("spans and events are a list of text", {}, async (page) => {
  const rows = await page.locator(".waterfall li").allTextContents();
  assert.equal(rows.length, 3, rows.join("; "));
  assert.match(rows[0], /^\+.* [mµ]sread rows=3, query=<script>alert\(1\)<\/script>/);
  assert.match(rows[2], /cache\.miss key='"><b>/);
});

on("on paper all is light, and no button is there", { context: { colorScheme: "dark" } }, async (page) => {
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print" });
  const [ink] = (await page.evaluate(() => getComputedStyle(document.body).color)).match(/\d+/g).map(Number);
  assert.ok(ink < 80, `${ink}`);
  assert.equal(await page.locator("button:not(.link):visible").count(), 0);
  await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), undefined);
});

on("charts are drawn", {}, async (page) => {
  for (const selector of [`${timeline} canvas`, "section[aria-label='Flame graph'] canvas", ".chart canvas"]) {
    assert.ok((await colours(page, selector)) > 8, `${selector} is empty`);
  }
});

on("WASD and F move the timeline", {}, async (page) => {
  const whole = await sight(page);
  await page.keyboard.press("w");
  const near = await sight(page);
  assert.ok(near[1] - near[0] < (whole[1] - whole[0]) * 0.8);
  await page.keyboard.press("d");
  assert.ok((await sight(page))[0] > near[0]);
  await page.keyboard.press("a");
  assert.ok(Math.abs((await sight(page))[0] - near[0]) < 10);
  await page.keyboard.press("s");
  await page.keyboard.press("f");
  assert.deepEqual(await sight(page), whole);
});

on("wheel zooms where the pointer is, drag pans, double click shows all", {}, async (page) => {
  const whole = await sight(page);
  const canvas = page.locator(`${timeline} canvas`);
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  const [x, y] = [box.x + box.width * 0.6, box.y + 60];
  await page.mouse.click(x, y);
  await page.mouse.wheel(0, -300);
  await page.waitForFunction(([from]) => Number(document.querySelector(".timeline canvas").dataset.from) > from, whole);
  const near = await sight(page);
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x - 100, y, { steps: 4 });
  await page.mouse.up();
  assert.ok((await sight(page))[0] > near[0]);
  await page.mouse.dblclick(x, y);
  assert.deepEqual(await sight(page), whole);
});

on("a click on a thread's bar shows its state and stack", {}, async (page) => {
  const canvas = page.locator(`${timeline} canvas`);
  const box = await canvas.boundingBox();
  let found = "";
  // Down the middle of the request: one of the rows is the holder's.
  for (let y = 40; y < box.height && !found.includes("sleep in linger()"); y += 8) {
    await canvas.click({ position: { x: box.width * 0.6, y } });
    found = await page.locator(".inspector").textContent();
  }
  assert.match(found, /sleep in linger\(\)/);
  assert.match(found, /Threadkeeper & co/);
});

on("arrows go from request to request", {}, async (page) => {
  const seen = new Set();
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press("ArrowRight");
    seen.add((await sight(page)).join());
  }
  assert.equal(seen.size, 6);
  const last = await sight(page);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowRight");
  assert.deepEqual(await sight(page), last);
});

on("a brush selects what is in it", {}, async (page) => {
  const box = await page.locator(".chart .u-over").boundingBox();
  await page.mouse.move(box.x + 2, box.y + box.height - 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 2, box.y + 1, { steps: 5 });
  await page.mouse.up();
  assert.match(await selected(page), /brushed in the chart: 6 slow, 181 normal/);
});

on("search finds spans and functions; Enter selects, Escape leaves", {}, async (page) => {
  await page.keyboard.press("/");
  await page.keyboard.type("linger");
  assert.match(await page.locator(".found").textContent(), /^0 requests/, "the keeper is no request");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("HANDLE");
  assert.match(await page.locator(".found").textContent(), /^[1-9]\d* requests/);
  await page.keyboard.press("Enter");
  assert.match(await selected(page), /found by “HANDLE”/);
  await page.keyboard.press("w");
  assert.equal(await page.locator("input[type=search]").inputValue(), "HANDLE", "keys act again");
});

on("the flame graph has four modes, and a click zooms", {}, async (page) => {
  const section = page.locator("section[aria-label='Flame graph']");
  const words = {};
  for (const mode of ["wall", "cpu", "off", "difference"]) {
    await section.locator(`[data-mode=${mode}]`).click();
    words[mode] = await section.locator(".report").textContent();
  }
  assert.match(words.wall, /^all: [2-5](\.\d\d?)? s, 100 %/);
  assert.match(words.off, /^all: [2-5](\.\d\d?)? s/);
  assert.match(words.difference, /[3-9]\d\d ms slow, \d.* normal: \+[3-9]\d\d ms/);
  await section.locator("[data-mode=wall]").click();
  await section.locator("canvas").click({ position: { x: 200, y: 28 } });
  assert.match(await section.locator(".report").textContent(), /handle/);
  await section.getByRole("button", { name: "zoom out" }).click();
  assert.match(await section.locator(".report").textContent(), /^all/);
});

on("the table of waits names place and blocker, opens to stacks, leads to the timeline", {}, async (page) => {
  const rows = page.locator("table.waits tbody tr:not(.more)");
  const first = await rows.first().textContent();
  assert.match(first, /lock-wait.*handle\(\) service\.py:\d+.*keeper & co/);
  await rows.first().locator("button").first().click();
  assert.match(await page.locator("tr.more:not([hidden])").textContent(), /linger/);
  const whole = await sight(page);
  await rows.first().locator("button").last().click();
  assert.notDeepEqual(await sight(page), whole);
});

on("hostile names are text", {}, async (page) => {
  const pageText = await page.locator(timeline).textContent();
  assert.ok(pageText.includes("</script><img src=x onerror=alert(2)>"), pageText);
  assert.equal(await page.locator("img").count(), 0);
  await page.keyboard.press("/");
  await page.keyboard.type("<script>alert(1)");
  assert.match(await page.locator(".found").textContent(), /^[1-9]\d* requests/);
  await page.keyboard.press("Enter");
  assert.match(await selected(page), /<script>alert\(1\)/);
});

on("help and theme", {}, async (page) => {
  await page.keyboard.press("?");
  assert.ok(await page.locator("dialog").isVisible());
  await page.keyboard.press("Escape");
  assert.ok(!(await page.locator("dialog").isVisible()));
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.keyboard.press("t");
  assert.notEqual(await paper(), light);
});

on("counters and threads open", {}, async (page) => {
  await page.locator("section[aria-label=Counters] summary").click();
  await page.waitForSelector(".vital canvas");
  await page.locator(".lost summary").click();
  assert.match(await page.locator(".lost table").textContent(), /worker 0/);
});

on("collections, events, spans and their attributes are shown", {}, async (page) => {
  const canvas = page.locator(`${timeline} canvas`);
  const box = await canvas.boundingBox();
  // In a normal request of less than a millisecond the spans fill the visible range.
  await page.keyboard.press("/");
  await page.keyboard.type("cache.miss");
  await page.keyboard.press("Enter");
  for (let i = 0; i < 20; i++) {
    if ((await page.locator(`${timeline} .title`).textContent()).includes("normal")) break;
    await page.keyboard.press("ArrowLeft");
  }
  const found = new Set();
  for (let y = 30; y < 130; y += 6) {
    for (let x = 200; x < box.width; x += 12) {
      await canvas.click({ position: { x, y } });
      const text = await page.locator(".inspector").textContent();
      for (const word of ["cache.miss", "query=<script>alert(1)</script>", "rows=3"]) if (text.includes(word)) found.add(word);
    }
    if (found.size === 3) break;
  }
  assert.deepEqual([...found].sort(), ["cache.miss", "query=<script>alert(1)</script>", "rows=3"]);
});

on("dark follows the system", { context: { colorScheme: "dark" } }, async (page) => {
  const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const parts = colour.match(/\d+/g).map(Number);
  assert.ok(Math.max(...parts) < 80, colour);
});

on("on a phone nothing is wider than the screen and the verdict comes first",
  { context: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } }, async (page) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${wide} pixels`);
    const box = await page.locator(".cause").first().locator(".line").last().boundingBox();
    assert.ok(box.y + box.height < 844, "the first cause and its advice are on the first screen");
  });

on("estimates are named and drawn as such", { page: () => estimated.page }, async (page) => {
  assert.match(await page.locator(".inspector").textContent(), /Time\d\d\d ms, estimate/);
  assert.match(await page.locator(".lost").textContent(), /switches: off/);
});

on("intervals of a request can be inspected without a pointer", {}, async (page) => {
  const inspector = page.locator(".inspector");
  const longest = await inspector.textContent();
  const seen = new Set();
  for (let i = 0; i < 40 && seen.size < 2; i++) {
    await page.keyboard.press(".");
    seen.add(await inspector.textContent());
  }
  assert.ok(seen.size === 2 && !seen.has(longest), "each stretch has its own");
  const there = await inspector.textContent();
  await page.keyboard.press(".");
  await page.keyboard.press(",");
  assert.equal(await inspector.textContent(), there, "back again");
});

on("with forced colours the key to the bars and the shares keep theirs",
  { context: { forcedColors: "active", colorScheme: "dark" } }, async (page) => {
    const colour = (selector) => page.locator(selector).first()
      .evaluate((element) => getComputedStyle(element).backgroundColor);
    const all = [await colour(".swatch.run"), await colour(".swatch.ready"), await colour(".swatch.wait"),
      await colour("body"), await colour(".cause .bar span")];
    assert.equal(new Set(all).size, 5, all.join(" "));
  });

on("with nothing slow all requests are selected", { page: () => nothingSlow.page }, async (page) => {
  assert.match(await page.locator("h1").textContent(), /Nothing to blame: none of 187 requests/);
  assert.match(await selected(page), /all requests: 0 slow, 187 normal/);
  await page.locator("[data-mode=difference]").click();
  await page.keyboard.press("1");
});

on("a capture without requests is a page without charts", { page: () => empty.page }, async (page) => {
  assert.match(await page.locator("h1").textContent(), /No requests in this capture/);
  assert.equal(await page.locator("canvas").count(), 0);
  for (const key of ["w", "ArrowRight", "0", "1", "f"]) await page.keyboard.press(key);
  assert.match(await page.locator(".lost").textContent(), /The capture covers/);
});

test("the page's policy forbids the network and any other script", () => {
  const html = readFileSync(exact.page, "utf8");
  const policy = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(html)[1];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  assert.doesNotMatch(html, /<script[^>]+src=|<link[^>]+href="http/);
});
