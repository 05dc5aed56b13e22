/** The program as a table, for a file: every row that the filter leaves, folded or not, in sight or not. */
import type { Tree } from "./program_tree.ts";

const HEAD = [
  "level",
  "kind",
  "name",
  "value",
  "on a device",
  "source",
  "times",
  "mesh axes",
  "payload, bytes each time",
  "wire, bytes each time",
  "because",
];

/**
 * @param kept what the filter leaves; null for all
 * @returns a head, and a row for each node in order; bytes as whole numbers, for spreadsheets to add up
 */
export function tableOf(tree: Tree, kept: Uint8Array | null): string[][] {
  const rows = [HEAD];
  for (let i = 0; i < tree.size; i += 1) {
    if (kept && !kept[i]) continue;
    const { kind, label, name, source, value, makes, collective: sent, times } = tree.node(i);
    const called = [label, name].filter(Boolean).join(": ");
    const cells = [`${tree.depth[i]}`, kind, called, value, tree.typeText(makes), source];
    const bytes = sent ? [sent.key, `${sent.payload}`, `${Math.round(sent.wire)}`, sent.because] : ["", "", "", ""];
    rows.push([...cells, `${sent ? sent.times : times}`, ...bytes]);
  }
  return rows;
}
