// Screenshots to look at: node tests/shots.mjs PAGE.html FOLDER
import { mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { launch, open } from "./browser.mjs";

const [path, folder] = [resolve(process.argv[2]), process.argv[3]];
const name = basename(path, ".html");
mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const [theme, width, height] of [["light", 1280, 900], ["dark", 1280, 900], ["light", 390, 844]]) {
  const it = await open(browser, path, { colorScheme: theme, viewport: { width, height } });
  await it.page.waitForTimeout(300);
  await it.page.screenshot({ path: join(folder, `${name}-${theme}-${width}.png`), fullPage: true });
  console.log(theme, width, JSON.stringify(it.seen));
  await it.close();
}
await browser.close();
