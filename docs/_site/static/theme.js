// Pictures of boards, and boards, ask whether JupyterLab is dark: here that is what the reader chose for the site.
function followTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
  // A page that is read from a disk may not look into another file: that board follows the system.
  const boards = [...document.querySelectorAll("iframe.meshlab-board")].map((frame) => frame.contentDocument);
  for (const page of [document, ...boards]) {
    if (!page?.body) continue;
    page.body.dataset.jpThemeLight = String(theme === "light");
    page.documentElement.style.colorScheme = theme;
  }
}
new MutationObserver(followTheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });
document.addEventListener("DOMContentLoaded", followTheme);
window.addEventListener("load", followTheme);
