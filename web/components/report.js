// Reporting a user, a post or a comment to the moderators.

import { h } from "../dom.js";
import { tm } from "../i18n/more.js";
import { written } from "../text.js";
import { openDialog } from "./dialog.js";
import { messageOf } from "./states.js";
import { TextLimit } from "./text-limit.js";

const REASONS = ["spam", "abuse", "illegal", "other"];
const MAX_TEXT = 1_000;

/** The item of a menu that reports `target`: `{user}`, `{post}` or `{comment}` with its id. */
export const reportItem = (app, target) => ({
  label: tm("report"),
  testid: "report",
  run: () => reportDialog(app, target),
});

function reportDialog(app, target) {
  const [kind] = Object.keys(target);
  const choice = reasonChoice();
  const text = h("textarea", {
    class: "input",
    id: "report-text",
    rows: 4,
    dir: "auto",
    data: { testid: "report-text" },
  });
  const limit = new TextLimit(text, MAX_TEXT);
  const error = h("p", { class: "error", role: "alert", data: { testid: "report-error" } });
  const send = h("button", {
    class: "button primary",
    type: "submit",
    text: tm("report.send"),
    data: { testid: "report-send" },
  });
  const form = h(
    "form",
    { class: "form", novalidate: true },
    choice.element,
    h("div", { class: "field" }, h("label", { for: text.id, text: tm("report.text") }), text),
    error,
    h("div", { class: "dialog-foot" }, limit.element, send),
  );
  const dialog = openDialog(tm(`report.${kind}`), form, { sheet: true, testid: "report-dialog" });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = choice.value ? limit.problem : tm("report.choose");
    if (error.textContent) return (choice.value ? text : choice).focus();
    send.disabled = true;
    const said = written(text.value);
    const report = { ...target, reason: choice.value, ...(said && { text: said }) };
    try {
      await app.client.connection.rpc("reports.create", report);
      dialog.close();
      app.toast(tm("report.done"));
    } catch (failure) {
      error.textContent = messageOf(failure);
      send.disabled = false;
    }
  });
}

function reasonChoice() {
  const radios = REASONS.map((reason) =>
    h("input", { type: "radio", name: "reason", value: reason, data: { testid: `reason-${reason}` } }),
  );
  const ticks = radios.map((radio) =>
    h("label", { class: "tick" }, radio, h("span", { text: tm(`reason.${radio.value}`) })),
  );
  return {
    element: h("fieldset", { class: "ticks" }, h("legend", { text: tm("report.reason") }), ...ticks),
    focus: () => radios[0].focus(),
    get value() {
      return radios.find((radio) => radio.checked)?.value;
    },
  };
}
