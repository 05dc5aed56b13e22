/** Files that Python has made, given to the browser to save. */

import { h } from "./dom.ts";
import type { SavedFile } from "./types.ts";

export const SILENT = "Python does not answer.";

export function blobOf({ text, base64, type }: SavedFile): Blob {
  const content = base64 ? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)) : text;
  return new Blob([content], { type });
}

export function download(name: string, blob: Blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
