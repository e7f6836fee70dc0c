// Builds dist/page.html: template, style and script in one file.
//
// The page's policy allows the style and the script by their hashes and nothing else: no network,
// no other script, whatever a capture's names say. Same sources, same versions: same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist/page.html");

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
const script = await bundle("src/main.ts", { format: "iife", target: "es2022" });
const style = await bundle("src/style.css", { target: ["chrome111", "firefox113", "safari16.4"] });
const policy =
  `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
  "img-src data:; base-uri 'none'; form-action 'none'";
const parts = { POLICY: policy, STYLE: style, SCRIPT: script };
const template = readFileSync(join(here, "src/page.html"), "utf8");
const page = template.replaceAll(/\{\{([A-Z]+)\}\}/g, (_, name) => parts[name]);
mkdirSync(dirname(out), { recursive: true });
writeFileSync(out, page);
console.log(`${out}: ${page.length} characters`);
