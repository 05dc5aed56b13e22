/**
 * plotly.js, once for a page: all boards on it share what the first one fetched from the wheel that is installed where
 * its kernel runs (meshlab/widgets/notebook/library.py). It is run as a module of its own, in which `module` is ours and
 * `define` is nothing, so that no loader of the page takes it; what it leaves behind on the window is taken away, since
 * the notebook may have a Plotly of its own there.
 */

export type Plot = HTMLElement & {
  layout: Record<string, any>;
  on(event: string, listener: (event: any) => void): void;
};
export type Plotly = {
  react(plot: HTMLElement, data: any[], layout: object, config: object): Promise<unknown>;
  relayout(plot: HTMLElement, changes: object): Promise<unknown>;
  purge(plot: HTMLElement): void;
};

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
 * @param timeout milliseconds
 */
export function whenIdle(then: () => void, timeout: number) {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(then, { timeout });
  else setTimeout(then, Math.min(timeout, SOON));
}

/**
 * Plotly of this page: what is there, or under way, or else what is fetched now. Where another board's fetch fails, its
 * kernel may be gone while this one's is not: this one then fetches for itself, once.
 * @param fetch gives its source, compressed by gzip
 */
export async function plotlyOf(fetch: () => Promise<ArrayBufferView>): Promise<Plotly> {
  const page = globalThis as unknown as Record<symbol, Promise<Plotly> | undefined>;
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

async function run(compressed: ArrayBufferView): Promise<Plotly> {
  const bytes = new Blob([compressed as BlobPart]).stream();
  const source = await new Response(bytes.pipeThrough(new DecompressionStream("gzip"))).blob();
  const url = URL.createObjectURL(new Blob([BEFORE, source, AFTER], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}
