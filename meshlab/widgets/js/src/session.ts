/** What anywidget loads: draws a board for each view of the session, and takes it down again. */
import "./session.css";
import { Board } from "./board.ts";
import { h } from "./dom.ts";
import type { Model } from "./model.ts";
import { nextNumber } from "./numbers.ts";
import { tellSeen } from "./seen.ts";
import { learn } from "./terms.ts";
import { followTheme } from "./theme.ts";

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  // Landmarks that stand on one page have names of their own.
  const number = nextNumber("boards");
  const name = number > 1 ? `meshlab Explorer ${number}` : "meshlab Explorer";
  const root = h("div", { class: "mlb", role: "region", "aria-label": name, tabindex: -1 });
  el.append(root);
  const ends = [followTheme(root), tellSeen(model)];
  learn(model.get("terms") ?? ({} as Record<string, string>));
  const board = new Board(model, root);
  return () => {
    for (const end of ends) end();
    board.close();
    root.remove();
  };
}

export default { render };
