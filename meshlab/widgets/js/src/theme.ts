/** Light or dark, as the surroundings are: each notebook says it in its own way. */

type Theme = "light" | "dark";

// What `body` or `html` is where a notebook says its theme: JupyterLab, Notebook and what nbconvert writes; marimo; VS Code;
// Colab. The first that fits counts.
const SAID: [string, Theme][] = [
  ['[data-jp-theme-light="false"]', "dark"],
  ["[data-jp-theme-light]", "light"],
  [".dark-theme", "dark"],
  [".light-theme", "light"],
  [".vscode-high-contrast-light", "light"],
  [".vscode-dark, .vscode-high-contrast", "dark"],
  [".vscode-light", "light"],
  ['html[theme="dark"]', "dark"],
  ["html[theme]", "light"],
];

function surroundings(): Theme {
  const { body, documentElement } = document;
  const said = SAID.find(([mark]) => body.matches(mark) || documentElement.matches(mark));
  return said?.[1] ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/**
 * Keeps `data-theme` of an element as its surroundings are.
 * @returns ends it
 */
export function followTheme(root: HTMLElement): () => void {
  const update = () => root.setAttribute("data-theme", surroundings());
  const observer = new MutationObserver(update);
  for (const target of [document.body, document.documentElement]) observer.observe(target, { attributes: true });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", update);
  update();
  return () => {
    observer.disconnect();
    scheme.removeEventListener("change", update);
  };
}
