// @ts-check
/**
 * plotly.js, once for a page: all boards on it share what the first one fetched from the wheel that is installed where
 * its kernel runs (meshlab/widgets/notebook/library.py). It is run as a module of its own, in which `module` is ours and
 * `define` is nothing, so that no loader of the page takes it; what it leaves behind on the window is taken away, since
 * the notebook may have a Plotly of its own there.
 */

/**
 * @typedef {HTMLElement & {
 *   layout: Record<string, any>, on(event: string, listener: (event: any) => void): void
 * }} Plot
 * @typedef {{
 *   react(plot: HTMLElement, data: any[], layout: object, config: object): Promise<unknown>,
 *   relayout(plot: HTMLElement, changes: object): Promise<unknown>,
 *   purge(plot: HTMLElement): void
 * }} Plotly
 */

const PAGE = Symbol.for("meshlab.plotly");
const BEFORE = `const module = { exports: {} }, exports = module.exports, define = undefined;
const before = new Set(Object.getOwnPropertyNames(globalThis)), theirs = globalThis.Plotly;
`;
const AFTER = `
;for (const name of Object.getOwnPropertyNames(globalThis)) if (!before.has(name)) Reflect.deleteProperty(globalThis, name);
if (theirs) globalThis.Plotly = theirs;
export default module.exports;
`;
// Without `requestIdleCallback`, milliseconds after which a page is taken to have drawn what it had to.
const SOON = 1500;

/**
 * Calls when the page has nothing else to do, or after a while.
 * @param {() => void} then
 * @param {number} timeout milliseconds
 */
export function whenIdle(then, timeout) {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(then, { timeout });
  else setTimeout(then, Math.min(timeout, SOON));
}

/**
 * Plotly of this page: what is there, or under way, or else what is fetched now. Where another board's fetch fails, its
 * kernel may be gone while this one's is not: this one then fetches for itself, once.
 * @param {() => Promise<ArrayBufferView>} fetch gives its source, compressed by gzip
 * @returns {Promise<Plotly>}
 */
export async function plotlyOf(fetch) {
  const page = /** @type {Record<symbol, Promise<Plotly> | undefined>} */ (/** @type {unknown} */ (globalThis));
  for (;;) {
    const mine = !page[PAGE];
    page[PAGE] ??= fetch()
      .then(run)
      .catch((error) => {
        page[PAGE] = undefined;
        throw error;
      });
    try {
      return await page[PAGE];
    } catch (error) {
      if (mine) throw error;
    }
  }
}

/**
 * @param {ArrayBufferView} compressed
 * @returns {Promise<Plotly>}
 */
async function run(compressed) {
  const bytes = new Blob([/** @type {BlobPart} */ (compressed)]).stream();
  const source = await new Response(bytes.pipeThrough(new DecompressionStream("gzip"))).blob();
  const url = URL.createObjectURL(new Blob([BEFORE, source, AFTER], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}
