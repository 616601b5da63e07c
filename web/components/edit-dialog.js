// A dialog that changes the text of a post or a comment.

import { h } from "../dom.js";
import { tm } from "../i18n/more.js";
import { written } from "../text.js";
import { openDialog } from "./dialog.js";
import { messageOf } from "./states.js";
import { TextLimit } from "./text-limit.js";

/** Opens it with a text; `save(text)` resolves when the server has stored it. `extra` is a control below the text. */
export function editDialog(title, text, save, extra = null) {
  const field = h("textarea", {
    class: "input",
    rows: 5,
    dir: "auto",
    "aria-label": title,
    data: { testid: "edit-text" },
    value: text,
  });
  const limit = new TextLimit(field);
  const error = h("p", { class: "error", role: "alert" });
  const submit = h("button", {
    class: "button primary",
    type: "submit",
    text: tm("save"),
    data: { testid: "edit-submit" },
  });
  const foot = h("div", { class: "dialog-foot" }, extra, limit.element, submit);
  const form = h("form", { class: "form" }, field, error, foot);
  const dialog = openDialog(title, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = limit.problem;
    if (limit.problem) return field.focus();
    submit.disabled = true;
    try {
      await save(written(field.value));
      dialog.close();
    } catch (failure) {
      error.textContent = messageOf(failure);
      submit.disabled = false;
    }
  });
}
