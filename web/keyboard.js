// Keys of the whole page. None works while somebody types.

import { paths } from "./router.js";

export function listenToKeys(app) {
  document.addEventListener("keydown", (event) => {
    if (!app.session || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, dialog, [role=menu]")) return;
    const run = actions(app)[event.key];
    if (run && run(event) !== false) event.preventDefault();
  });
}

function actions(app) {
  const focused = document.activeElement?.closest?.("article");
  return {
    j: () => app.view.feed?.step(1) ?? false,
    k: () => app.view.feed?.step(-1) ?? false,
    l: () => (focused ? focused.querySelector(".like")?.click() : false),
    Enter: (event) =>
      event.target === focused && focused.dataset.id ? app.router.go(paths.post(focused.dataset.id)) : false,
    n: () => app.compose(),
    u: () => {
      const undo = document.querySelector("#toast button");
      undo?.click();
      return undo !== null;
    },
    g: () => app.router.go(paths.home()),
    "/": () => app.router.go(paths.search()),
    "?": () => app.secondScript().then((second) => second?.showKeys()),
  };
}
