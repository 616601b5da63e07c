// Dialogs: the browser's own element, which keeps focus inside and gives it back.

import { button, h } from "../dom.js";
import { newKey } from "../feedline/timeline.js";
import { addLayer } from "../layers.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { messageOf } from "./states.js";

/** Opens a dialog; it leaves the document when it closes. Returns `{element, close}`. */
export function openDialog(title, body, { bare = false, sheet = false, testid, onClose } = {}) {
  const id = `dialog-${newKey()}`;
  const closer = button({ class: "icon-button", "aria-label": t("close"), onclick: () => close() }, icon("close"));
  const dialog = h(
    "dialog",
    { class: sheet && "sheet", "aria-labelledby": id, data: testid ? { testid } : {} },
    h("div", { class: "dialog-head" }, h("h2", { id, text: title }), closer),
    h("div", { class: bare ? "dialog-body bare" : "dialog-body" }, body),
  );
  const close = () => dialog.close();
  const closed = addLayer(close);
  dialog.addEventListener("close", () => {
    closed();
    dialog.remove();
    onClose?.();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  dialog.showModal();
  body.querySelector?.("textarea, input, button")?.focus();
  return { element: dialog, close };
}

/**
 * Asks before something that cannot be taken back, with a field to fill in if there is one. `run()` may answer with a
 * problem: then the dialog stays, and says it.
 */
export function confirmDialog(title, text, action, run, field = null) {
  const error = h("p", { class: "error", role: "alert", data: { testid: "confirm-error" } });
  const yes = h("button", { class: "button danger", type: "submit", data: { testid: "confirm" }, text: action });
  const no = button({ class: "button", text: tm("cancel"), onclick: () => dialog.close() });
  const foot = h("div", { class: "dialog-foot" }, no, yes);
  const body = h("form", { class: "form", novalidate: true }, h("p", { text }), field, error, foot);
  const dialog = openDialog(title, body, { sheet: true });
  if (!field) no.focus();
  body.addEventListener("submit", async (event) => {
    event.preventDefault();
    yes.disabled = true;
    error.textContent = "";
    try {
      const problem = await run();
      if (!problem) return dialog.close();
      error.textContent = problem;
    } catch (failure) {
      error.textContent = messageOf(failure);
    }
    yes.disabled = false;
    (field?.querySelector("input") ?? yes).focus();
  });
}
