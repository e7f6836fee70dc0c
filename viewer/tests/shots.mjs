// Screenshots for a person: node tests/shots.mjs PAGE.html FOLDER
import { mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { launch, open } from "./browser.mjs";

const [path, folder] = [resolve(process.argv[2]), process.argv[3]];
const name = basename(path, ".html");
mkdirSync(folder, { recursive: true });
const browser = await launch();
const looks = [["light", 1280, 900], ["dark", 1280, 900], ["light", 390, 844], ["dark", 1280, 900, "active"]];
for (const [theme, width, height, forcedColors] of looks) {
  const it = await open(browser, path, { colorScheme: theme, forcedColors, viewport: { width, height } });
  await it.page.waitForTimeout(300);
  const look = `${theme}-${width}${forcedColors ? "-forced" : ""}`;
  await it.page.screenshot({ path: join(folder, `${name}-${look}.png`), fullPage: true });
  const wider = await it.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  console.log(look, wider > 0 ? `${wider} px wider than the screen` : "fits", JSON.stringify(it.seen));
  await it.close();
}
await browser.close();
