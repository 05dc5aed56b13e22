/**
 * Makes what stands in a panel what was drawn anew, in place: an element that is drawn again stays the same node, and with
 * it the focus, what is scrolled, selected, unfolded and typed, and a click that is under way.
 *
 *     <li key=a> <li key=b, focused>   drawn anew as   <li key=b> <li key=c>   gives   <li key=b, focused> <li key=c>
 *
 * Drawn again is what has the same tag and key; without a key what has the same tag, first class and `data-op`, and stands
 * at the same place in the code that draws: no control silently becomes another one under a hand. Attributes are compared
 * with those that were drawn before, not with those that there are: what is painted on an element later (`paintZones`,
 * `paintSelection`) stays until it is painted anew. A field says what is drawn, but not while somebody types in it.
 */
import type { Properties } from "./dom.ts";

type Made = { id: string; properties: Properties<any> };
const MADE = Symbol("made");
const STANDS_FOR = Symbol("stands for");
type Known = Node & { [MADE]?: Made; [STANDS_FOR]?: Element };
let lasting = 0;

/** The properties with which an element was drawn last. */
export function drawnWith(element: Element): Properties<any> {
  return (element as Known)[MADE]?.properties ?? {};
}

/** Notes with what an element is made. */
export function note(element: Element, properties: Properties<any>) {
  const { key } = properties;
  const id = properties.lasting ? `lasting:${lasting++}` : key === undefined ? "" : `${element.localName}:${key}`;
  (element as Known)[MADE] = { id, properties };
}

/** Writes an attribute; what is a function, or for `h` alone, is none. */
export function write(element: Element, name: string, value: unknown) {
  if (name === "key" || name === "lasting" || typeof value === "function") return;
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** Lets an element hear an event, by whatever listener it was drawn with last. */
export function listen(element: Element, type: string) {
  element.addEventListener(type, hear);
}

function hear(event: Event) {
  const listener = drawnWith(event.currentTarget as Element)[`on${event.type}`] as ((event: Event) => unknown) | null;
  listener?.(event);
}

/**
 * Gives a child its identity.
 * @param place where the code that draws has it
 * @returns the child; or what stands for it, where it is on the page and lasts: taken away, it would lose what it has
 */
export function standIn(child: Node, place: string): Node {
  const made = (child as Known)[MADE];
  if (!made) return child;
  const { class: classes = "", "data-op": op = "" } = made.properties;
  made.id ||= `${(child as Element).localName}.${String(classes).split(" ", 1)[0]} ${op} ${place}`;
  if (!made.properties.lasting || !child.isConnected) return child;
  const slot: Known = document.createElement("slot");
  return Object.assign(slot, { [MADE]: { id: made.id, properties: {} }, [STANDS_FOR]: child });
}

/** Puts what lasts where something stands for it. */
export function giveBack(panel: Element) {
  for (const slot of panel.querySelectorAll("slot")) {
    const child = (slot as Known)[STANDS_FOR];
    if (child) move(slot.parentNode as Element, child, slot);
    slot.remove();
  }
}

/** Makes the children of an element those of what is drawn. */
export function reconcile(parent: ParentNode, drawn: ParentNode, focused: Element | null) {
  const [before, now] = [identified(parent), identified(drawn)];
  for (const [id, node] of before) if (!now.has(id)) node.remove();
  let next = parent.firstChild;
  for (const [id, node] of now) {
    const kept = before.get(id);
    if (!kept) parent.insertBefore(node, next);
    else if (kept === next) next = next.nextSibling;
    else move(parent as Element, kept, next);
    if (kept) follow(kept, node, focused);
  }
}

/** The children by what they are: texts by their order; what others have put there is nothing that is drawn again. */
function identified(parent: ParentNode): Map<string | ChildNode, ChildNode> {
  const found = new Map<string | ChildNode, ChildNode>();
  let texts = 0;
  for (let child = parent.firstChild; child; child = child.nextSibling) {
    const id = child instanceof Text ? `${texts++}` : (child as Known)[MADE]?.id;
    found.set(id && !found.has(id) ? id : child, child);
  }
  return found;
}

/** Moves a child; where the browser can, what it has is not lost on the way. */
function move(parent: Element, child: Node, before: Node | null) {
  if ("moveBefore" in parent && child.isConnected && isRendered(parent)) (parent as any).moveBefore(child, before);
  else parent.insertBefore(child, before);
}

/**
 * Whether an element is laid out. In what JupyterLab skips, a cell out of sight, there is nothing to lose, and Chromium
 * (156) never lays out again what `moveBefore` moved there.
 */
function isRendered(element: Element): boolean {
  return element.checkVisibility({ contentVisibilityAuto: true });
}

/** Lets what stays become what was drawn in its place. */
function follow(kept: ChildNode, drawn: ChildNode, focused: Element | null) {
  if (kept instanceof Text) {
    if (kept.data !== (drawn as Text).data) kept.data = (drawn as Text).data;
    return;
  }
  const [element, before, made] = [kept as Element, drawnWith(kept as Element), (drawn as Known)[MADE]];
  if (before.lasting || !made) return;
  const now = made.properties;
  for (const name in now)
    if (name.startsWith("on")) before[name] ?? listen(element, name.slice(2));
    else if (now[name] !== before[name]) write(element, name, now[name]);
  for (const name in before) if (!(name in now)) write(element, name, null);
  (element as Known)[MADE] = made;
  reconcile(element, drawn as Element, focused);
  answer(element, drawn as Element, now, element === focused);
}

/** Lets a field say what is drawn: what a user did with it alone is no attribute of it. */
function answer(field: any, drawn: any, now: Properties<any>, typing: boolean) {
  if (field.localName === "select" && field.selectedIndex !== drawn.selectedIndex)
    field.selectedIndex = drawn.selectedIndex;
  if (field.localName !== "input") return;
  if ("checked" in now && field.checked !== drawn.checked) field.checked = drawn.checked;
  if ("value" in now && field.value !== drawn.value && !typing) field.value = drawn.value;
}
