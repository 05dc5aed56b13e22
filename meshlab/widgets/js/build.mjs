/**
 * Builds the page's code: `node build.mjs [folder]`, which is ../static unless named.
 *
 * Files of boards have this code packed, so terser goes over what esbuild has made: it saves a thirtieth once packed.
 */
import { writeFile } from "node:fs/promises";
import { argv } from "node:process";
import { build } from "esbuild";
import { minify } from "terser";

const made = await build({
  entryPoints: ["src/session.ts", "src/replay.ts"],
  bundle: true,
  format: "esm",
  minify: true,
  charset: "utf8",
  target: "es2022",
  outdir: argv[2] ?? "../static",
  write: false,
  logLevel: "warning",
});
for (const { path, text } of made.outputFiles) {
  const smaller = path.endsWith(".js")
    ? (await minify(text, { module: true, ecma: 2020, compress: { passes: 3, keep_fargs: false } })).code
    : text;
  await writeFile(path, smaller);
}
