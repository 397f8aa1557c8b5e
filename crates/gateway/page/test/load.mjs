// Loads a module of the page with its imports into Node.

import { build } from "vite";

export async function load(name) {
  const entry = new URL(`../src/${name}.ts`, import.meta.url).pathname;
  const { output } = await build({
    configFile: false,
    logLevel: "error",
    build: { write: false, minify: false, lib: { entry, formats: ["es"] } },
  }).then((made) => (Array.isArray(made) ? made[0] : made));
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}
