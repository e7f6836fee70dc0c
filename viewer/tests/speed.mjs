// The time to open a page and the cost of a frame: node tests/speed.mjs PAGE.html Prints figures
// without a judgement, since they depend on the machine.
import { resolve } from "node:path";
import { launch, open } from "./browser.mjs";

const browser = await launch();
const begin = performance.now();
const it = await open(browser, resolve(process.argv[2]));
console.log(`opened after ${Math.round(performance.now() - begin)} ms`);
const frames = (key) => it.page.evaluate(async (key) => {
  const times = [];
  let last = performance.now();
  for (let i = 0; i < 60; i++) {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: i % 2 ? key[0] : key[1], bubbles: true }));
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push((now - last) / 2);
    last = now;
  }
  times.sort((a, b) => a - b);
  return `median ${times[30].toFixed(1)} ms, worst ${times[59].toFixed(1)} ms a frame`;
}, key);
console.log(`pan: ${await frames(["a", "d"])}`);
console.log(`zoom: ${await frames(["s", "w"])}`);
console.log(`requests: ${await frames(["ArrowLeft", "ArrowRight"])}`);
console.log(JSON.stringify(it.seen));
await browser.close();
