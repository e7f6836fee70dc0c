// Builds dist/page.html, the page of a capture, and the page of a fleet: template, style and script in
// one file each.
//
// The page's policy allows the style and the script by their hashes and nothing else: no network,
// no other script, whatever a capture's names say. Same sources, same versions: same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
async function bundle(entry, more = {}) {
  const made = await build({
    entryPoints: [join(here, entry)],
    absWorkingDir: here,
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    legalComments: "inline",
    logLevel: "warning",
    ...more,
  });
  // The end tag of an element inside of its content would end it.
  return made.outputFiles[0].text.trim().replaceAll(/<\/(script|style)/gi, "<\\/$1");
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

async function page(folder, out) {
  const script = await bundle(`${folder}/main.ts`, { format: "iife", target: "es2022" });
  const style = await bundle(`${folder}/style.css`, { target: ["chrome111", "firefox113", "safari16.4"] });
  const policy =
    `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
    "img-src data:; base-uri 'none'; form-action 'none'";
  const parts = { POLICY: policy, STYLE: style, SCRIPT: script };
  const template = readFileSync(join(here, folder, "page.html"), "utf8");
  const whole = template.replaceAll(/\{\{([A-Z]+)\}\}/g, (_, name) => parts[name]);
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, whole);
  console.log(`${out}: ${whole.length} characters`);
}

// Where `cargo` and the Python package find them; a test builds them elsewhere.
const [, , capture = join(here, "dist/page.html"), fleet = join(here, "../python/dashcam/_fleet/page.html")] = process.argv;
await page("src", capture);
await page("src/fleet", fleet);
