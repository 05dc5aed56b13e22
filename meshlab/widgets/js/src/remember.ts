/**
 * What the browser remembers of a board: the last document of each program, mesh and page, so that a cell that runs again,
 * after a restart too, opens where it was. Python reads it as any document: a wrong one is refused, and nothing of it runs.
 * And how a reader has set the page, for all boards.
 */

/** @param opened the document that the Explorer was opened with */
function keyOf(opened: string): string {
  return `meshlab:${location.pathname}:${opened}`;
}

/** Remembers the present document. */
export function remember(document: string, opened: string) {
  try {
    if (document === opened) localStorage.removeItem(keyOf(opened));
    else localStorage.setItem(keyOf(opened), document);
  } catch {
    // A page without storage forgets.
  }
}

/** @returns the document that was on the board when it was last seen; null where it is there already */
export function remembered(document: string, opened: string): string | null {
  try {
    const last = localStorage.getItem(keyOf(opened));
    return last === document ? null : last;
  } catch {
    return null;
  }
}

/** Remembers how this reader has set something of the page; null forgets it. */
export function keep(name: string, value: string | null) {
  try {
    if (value === null) localStorage.removeItem(`meshlab:${name}`);
    else localStorage.setItem(`meshlab:${name}`, value);
  } catch {
    // As above.
  }
}

/** @returns how something of the page was set; null where it was not */
export function kept(name: string): string | null {
  try {
    return localStorage.getItem(`meshlab:${name}`);
  } catch {
    return null;
  }
}

/**
 * Hides the picture that stands below the live board, in whatever notebook it is.
 * @returns shows it again
 */
export function hidePicture(picture: string): () => void {
  if (!/^[0-9a-f]+$/.test(picture)) return () => {};
  const mark = `[data-mlb-picture="${picture}"]`;
  const style = document.createElement("style");
  style.textContent = `.jp-OutputArea-child:has(${mark}), ${mark} { display: none; }`;
  document.head.append(style);
  return () => style.remove();
}
