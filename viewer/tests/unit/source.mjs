// A module of src/ as Node can load it: bundled by esbuild, as the page is.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const src = join(dirname(fileURLToPath(import.meta.url)), "../../src");

/** What a module exports. */
export async function source(name) {
  const folder = mkdtempSync(join(tmpdir(), "dashcam-viewer-"));
  try {
    const outfile = join(folder, "module.mjs");
    await build({ entryPoints: [join(src, name)], bundle: true, format: "esm", outfile, logLevel: "warning" });
    return await import(pathToFileURL(outfile));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
