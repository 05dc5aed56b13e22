/**
 * The project's pages. A board that stands on a page of the site knows where the others are: there each is a link, which
 * opens around the board. Elsewhere a page is its path in a clone.
 */
import { h } from "./dom.ts";

/** The root of the site, which its pages say (`data-content_root`); null where the board is on none, or cannot know. */
export function siteRoot(): string | null {
  try {
    const { document, location } = window.parent;
    const root = window.parent === window ? undefined : document.documentElement.dataset.content_root;
    return root === undefined ? null : new URL(root, location.href).href;
  } catch {
    return null; // of another origin
  }
}

/** @returns where the site has a page, and its heading: "docs/accuracy.md#memory" */
export function addressOf(path: string, root: string): string {
  return new URL(path.replace(/^docs\/([^#]*)\.md/, "$1.html"), root).href;
}

/**
 * A page of the project.
 * @param path "docs/accuracy.md#memory"
 * @param title what it is called; as the path where there is none
 */
export function pageLink(path: string, title?: string): HTMLElement {
  const root = siteRoot();
  if (root) return h("a", { href: addressOf(path, root), target: "_parent" }, title ?? path);
  return h("span", {}, title ? `${title}: ` : "", h("code", {}, path));
}
