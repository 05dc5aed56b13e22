/**
 * In marimo the cells that read a widget run again when its page has written one of its traits, and not when Python has.
 * So there the page writes which revision it has seen, and `board.explorer.layout` in another cell is that of the board.
 * Elsewhere it would be one more message for each drop.
 */
import type { Model } from "./model.ts";

/** What marimo shows a widget in. */
const MARIMO = "marimo-anywidget";

/** @returns ends it */
export function tellSeen(model: Model): () => void {
  if (!customElements.get(MARIMO)) return () => {};
  const tell = () => {
    if (model.get("seen") === model.get("rev")) return;
    model.set?.("seen", model.get("rev"));
    model.save_changes?.();
  };
  model.on("change:rev", tell);
  return () => model.off("change:rev", tell);
}
