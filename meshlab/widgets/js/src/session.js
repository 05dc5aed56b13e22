// @ts-check
/** What anywidget loads: draws a board for each view of the session, and takes it down again. */
import "./session.css";
import { Board } from "./board.js";
import { h } from "./dom.js";
import { nextNumber } from "./numbers.js";
import { learn } from "./terms.js";
import { followTheme } from "./theme.js";

/**
 * @param {{model: import("./types.js").Model, el: HTMLElement}} context
 * @returns {() => void}
 */
function render({ model, el }) {
  // Landmarks that stand on one page have names of their own.
  const number = nextNumber("boards");
  const name = number > 1 ? `meshlab Explorer ${number}` : "meshlab Explorer";
  const root = h("div", { class: "mlb", role: "region", "aria-label": name });
  el.append(root);
  const unfollow = followTheme(root);
  learn(/** @type {Record<string, string>} */ (model.get("terms") ?? {}));
  const board = new Board(model, root);
  return () => {
    unfollow();
    board.close();
    root.remove();
  };
}

export default { render };
