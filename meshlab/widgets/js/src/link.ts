/** What opens a view again: code for a cell, or the link of a board without Python. Python, or what stands for it, says it. */

import type { Board } from "./board.ts";
import { toClipboard } from "./copy.ts";
import { h } from "./dom.ts";
import { SILENT } from "./download.ts";
import { refusalOf } from "./model.ts";
import type { Link } from "./types.ts";

/** @returns the part of the menu, filled when Python has answered */
export function drawLink(board: Board): HTMLElement {
  const text = h("input", { class: "mlb-link", readonly: true, "aria-label": "link to this view" });
  const copy = h("button", { type: "button", class: "mlb-button", "data-op": "link" }, "Copy link");
  const refused = h("p", { class: "mlb-error", role: "alert" });
  copy.addEventListener("click", async () => {
    if (!(await toClipboard(text))) return;
    board.popover.element.hidePopover();
    board.say("Copied the link to this view.", "done");
  });
  const ask = async () => {
    const answer = await board.channel.send("read", { what: "link", args: { view: board.stage.shown } });
    if (answer === null) board.popover.missed(ask);
    if (answer?.kind === "read") text.value = (answer.data as Link).text;
    refused.replaceChildren(answer?.kind === "read" ? "" : refusalOf(answer) || SILENT);
  };
  ask();
  return h(
    "div",
    { class: "mlb-linked" },
    h("h4", {}, "Link to this view"),
    h("div", { class: "mlb-export-row" }, text, copy),
    refused,
  );
}
