/** What is seldom asked for, behind one button of the header: switches of the program and of this page. */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";

export function drawMore(board: Board): HTMLElement {
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button",
      "data-op": "more",
      "aria-haspopup": "dialog",
      "aria-label": "More",
      title: "More: padding, presenter",
      onclick: ({ currentTarget }) =>
        board.popover.open(currentTarget, "More", [board.can("pad") ? drawPad(board) : null, drawPresenter(board)]),
    },
    "⋯",
  );
}

function drawPad(board: Board): HTMLElement {
  const onchange = async ({ currentTarget: pad }: { currentTarget: HTMLInputElement }) => {
    await board.popover.send("pad", { pad: pad.checked });
    pad.checked = board.view.pad;
  };
  return drawSwitch(
    h("input", { type: "checkbox", checked: board.view.pad, onchange }),
    "Pad dims that their axes do not divide",
  );
}

function drawPresenter(board: Board): HTMLElement {
  const present = h("input", {
    type: "checkbox",
    checked: board.room.presents,
    onchange: ({ currentTarget }) => board.room.present(currentTarget.checked),
  });
  return drawSwitch(present, "Presenter: larger type, more contrast, less text (Shift+P)");
}

function drawSwitch(input: HTMLInputElement, text: string): HTMLElement {
  return h("label", { class: "mlb-switch mlb-popover-line" }, input, h("span", {}, text));
}
