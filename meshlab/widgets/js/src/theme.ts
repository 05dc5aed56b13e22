/** Light or dark, as the surroundings are: JupyterLab, VS Code and Colab each say it in their own way. */

function surroundings(): "light" | "dark" {
  const { body, documentElement } = document;
  const jupyter = body.getAttribute("data-jp-theme-light");
  if (jupyter) return jupyter === "false" ? "dark" : "light";
  if (body.classList.contains("vscode-dark") || body.classList.contains("vscode-high-contrast")) return "dark";
  if (body.classList.contains("vscode-light")) return "light";
  const colab = documentElement.getAttribute("theme");
  if (colab) return colab === "dark" ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
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
