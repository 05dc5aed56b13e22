/** Horizontal bars of stacked parts, each part in the mark of its mesh axis. */
import { h } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { markClass } from "./marks.ts";
import type { AxisBytes, View } from "./types.ts";

/** @param most the bytes of a bar of full width */
export function stack(view: View, parts: AxisBytes[], most: number): HTMLElement {
  return h(
    "div",
    { class: "mlb-bar", "aria-hidden": "true" },
    parts.map((part) =>
      h("span", {
        class: `mlb-part ${markClass(view, part.key)}`,
        style: `width:${most ? (100 * part.bytes) / most : 0}%`,
        title: `${part.key}: ${exact(part.bytes)} bytes`,
      }),
    ),
  );
}

/**
 * A bar of one part that belongs to no mesh axis; one that is longer is cut, and shows that.
 * @param mark its class
 * @param most the bytes of a bar of full width
 */
export function solid(mark: string, count: number, most: number): HTMLElement {
  const part = h("span", { class: `mlb-part ${mark}`, style: `width:${Math.min(100, (100 * count) / most)}%` });
  const look = { class: `mlb-bar ${count > most ? "mlb-cut" : ""}`, "aria-hidden": "true" };
  return h("div", look, part);
}

/**
 * A part of a bar.
 * @param mark its class
 * @param width as CSS has it
 */
export function portion(mark: string, width: string, title: string): HTMLElement {
  return h("span", { class: `mlb-part ${mark}`, style: `width:${width}`, title: title || null });
}

/** A labelled bar with its number of bytes. */
export function barRow(
  label: Node | string,
  bar: HTMLElement,
  count: number,
  attributes: Record<string, string> = {},
): HTMLElement {
  return labelled(label, bar, bytes(count), `${exact(count)} bytes`, attributes);
}

/** A labelled bar with what it says. */
export function labelled(
  label: Node | string,
  bar: HTMLElement,
  value: string,
  title: string,
  attributes: Record<string, string>,
): HTMLElement {
  return h(
    "li",
    { class: "mlb-bar-row", ...attributes },
    h("span", { class: "mlb-bar-label" }, label),
    bar,
    h("span", { class: "mlb-bar-value", title }, value),
  );
}
