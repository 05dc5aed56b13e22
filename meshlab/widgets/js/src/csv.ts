/** Tables and lists of a panel as comma-separated values, one line a row, as they are read on the page. */

type Block = { name: string; rows: string[][] };

/** @returns what is read in it, in one line */
const textOf = (element: Element): string => (element as HTMLElement).innerText.replace(/\s+/g, " ").trim();

/** The cells of an item of a list: its parts, and theirs where a part only holds others. */
function cellsOf(element: Element): string[] {
  const children = [...element.children].filter(
    (each) => !each.matches("button, select, input, svg, ul, ol, [aria-hidden=true]"),
  );
  const holds = ![...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim());
  const inline = children.every((each) => getComputedStyle(each).display === "inline");
  const apart = getComputedStyle(element).display !== "inline" && (!inline || /flex|grid/.test(displayOf(element)));
  if (holds && children.length === 1 && element.children.length === 1) return cellsOf(children[0]);
  if (!holds || children.length < 2) return [textOf(element)];
  if (!apart) return [children.map(textOf).join(" ")];
  return children.flatMap(cellsOf);
}

const displayOf = (element: Element): string => getComputedStyle(element).display;

/** @returns what is in its rows; a cell over several columns is followed by empty ones */
function tableRows(table: HTMLTableElement): string[][] {
  return [...table.rows].map((row) =>
    [...row.cells].flatMap((cell) => [textOf(cell), ...Array(Math.max(0, cell.colSpan - 1)).fill("")]),
  );
}

/** @returns what it is called on the page: its label, its caption, or the heading above it */
function nameOf(element: Element): string {
  const caption = element.querySelector("caption");
  if (element.getAttribute("aria-label")) return String(element.getAttribute("aria-label"));
  if (caption) return textOf(caption);
  for (let each = element.previousElementSibling; each; each = each.previousElementSibling) {
    if (/^H[2-6]$/.test(each.tagName)) return textOf(each);
  }
  return "";
}

/** @returns its tables and lists that are seen */
export function blocksOf(panel: Element): Block[] {
  const all = [...panel.querySelectorAll("table, ul, ol")].filter(
    (each) => each.getClientRects().length && !each.parentElement?.closest("table, ul, ol"),
  );
  return all
    .map((each) => ({
      name: nameOf(each),
      rows: each instanceof HTMLTableElement ? tableRows(each) : [...each.children].map(cellsOf),
    }))
    .map(({ name, rows }) => ({ name, rows: rows.filter((cells) => cells.join("")) }))
    .filter((block) => block.rows.length);
}

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/** @returns RFC 4180; of several each has its name above it, and an empty line between them */
export function csvText(blocks: Block[]): string {
  const texts = blocks.map(({ name, rows }) => {
    const named = blocks.length > 1 && name ? [[name], ...rows] : rows;
    return named.map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
  });
  return texts.join("\r\n");
}
