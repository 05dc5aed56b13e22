/** The status line, which screen readers read out. */
import { prose, redraw } from "./dom.ts";

/**
 * Says something.
 * @param more what stands behind it, such as a button
 */
export function speak(line: HTMLElement, text: string, mood: "plain" | "done" | "refused", more: Node[]) {
  line.setAttribute("data-mood", mood);
  // What is there already is not read out again.
  const same = line.textContent === text.replaceAll("`", "");
  if (!same || more.length) redraw(line, prose(text), more);
  // A sentence that is longer than its place is scrolled, by keyboard too; asked in the frame, it lays out nothing anew.
  requestAnimationFrame(() => {
    if (line.scrollHeight > line.clientHeight) line.setAttribute("tabindex", "0");
    else line.removeAttribute("tabindex");
  });
}
