// Signing in and up.

import { button, h } from "../dom.js";
import { mark } from "../icons.js";
import { t } from "../i18n/index.js";
import { messageOf } from "../components/states.js";
import { languageChoice } from "../components/choices.js";
import { passwordProblem } from "../password.js";
import { paths } from "../router.js";
import { written } from "../text.js";

/** Not dots alone. */
const USER = /^(?!\.+$)[A-Za-z0-9_.-]{1,64}$/;

/** What was typed, while one changes between signing in and up, or the language. */
let typed = {};

/**
 * The form of a mode, "sign-in" or "sign-up". `enter(session)` is called with the new session. `other` is the session
 * of the browser if the tab left it, and `join(session)` returns to it.
 */
export function gateView({ mode, notice = "", request, enter, other: browser, join, go, refresh }) {
  const up = mode === "sign-up";
  const title = t(up ? "gate.sign-up" : "gate.sign-in");
  const fields = {
    user: field(
      "user",
      t("gate.user"),
      { autocomplete: "username", autocapitalize: "none", spellcheck: "false", maxlength: 64 },
      up && t("gate.user.rule"),
    ),
    name: up && field("name", t("gate.name"), { autocomplete: "name", maxlength: 100 }),
    password: field(
      "password",
      t("gate.password"),
      { type: "password", autocomplete: up ? "new-password" : "current-password", maxlength: 200 },
      up && t("password.rule"),
    ),
  };
  const error = h("p", { class: "error", role: "alert", text: notice, data: { testid: "gate-error" } });
  const submit = h("button", {
    type: "submit",
    class: "button primary large",
    text: title,
    data: { testid: "gate-submit" },
  });
  const form = h(
    "form",
    { class: "form", novalidate: true },
    ...Object.values(fields).map((one) => one && one.element),
    error,
    submit,
  );

  for (const name of ["user", "password"]) fields[name].input.value = typed[name] ?? "";
  const complain = (problem) => {
    for (const [name, one] of Object.entries(fields))
      if (one) one.complain(problem.field === name ? problem.message : "");
    error.textContent = fields[problem.field] ? "" : problem.message;
    fields[problem.field]?.input.focus();
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const user = fields.user.input.value.trim();
    const password = fields.password.input.value;
    const name = fields.name ? written(fields.name.input.value) : "";
    complain({ message: "" });
    if (user === "") return complain({ field: "user", message: t("gate.user.empty") });
    if (!USER.test(user)) return complain({ field: "user", message: t("gate.user.invalid") });
    const problem = password === "" ? t("gate.password.empty") : up ? passwordProblem(password) : "";
    if (problem) return complain({ field: "password", message: problem });
    submit.disabled = true;
    let session;
    try {
      session = await request(up ? { user, password, ...(name && { name }) } : { user, password });
    } catch (failure) {
      const taken = failure.reason === "conflict" || failure.code === 409;
      const wrong = failure.reason === "unauthorized" || failure.code === 401;
      complain({
        field: taken ? "user" : failure.field,
        message: taken ? t("gate.taken") : wrong ? t("gate.wrong") : messageOf(failure),
      });
      return;
    } finally {
      submit.disabled = false;
    }
    typed = {};
    enter(session, name);
  });

  const keep = () => (typed = { user: fields.user.input.value, password: fields.password.input.value });
  const other = button({
    class: "link",
    text: t(up ? "gate.sign-in" : "gate.sign-up"),
    data: { testid: "gate-switch" },
    onclick: () => {
      keep();
      go(paths.gate(up ? "sign-in" : "sign-up"));
    },
  });
  const card = h(
    "section",
    { class: "card gate-card", "aria-labelledby": "gate-title" },
    h("p", { class: "brand" }, mark(), h("span", { text: "Feedline" })),
    h("h1", { id: "gate-title", tabindex: -1, text: title }),
    h("p", { class: "lead", text: t("gate.lead") }),
    form,
    h("p", { class: "meta" }, t(up ? "gate.known" : "gate.new"), " ", other),
    browser &&
      button({
        class: "link",
        text: t("gate.join", { name: browser.name }),
        data: { testid: "gate-join" },
        onclick: () => join(browser),
      }),
    languageChoice(() => {
      keep();
      refresh();
    }),
  );
  return { title, element: h("main", { class: "gate", id: "main" }, card), focus: () => fields.user.input.focus() };
}

/** A labelled field, with its rule below it. */
function field(name, label, more, rule) {
  const id = `gate-${name}`;
  const hint = rule && h("p", { class: "meta", id: `${id}-rule`, text: rule });
  const error = h("p", { class: "error", id: `${id}-error`, data: { testid: `${name}-error` } });
  const input = h("input", {
    class: "input",
    id,
    name,
    "aria-describedby": rule ? `${id}-rule ${id}-error` : `${id}-error`,
    data: { testid: name },
    ...more,
  });
  return {
    input,
    element: h("div", { class: "field" }, h("label", { for: id, text: label }), input, hint, error),
    complain: (message) => {
      error.textContent = message;
      input.setAttribute("aria-invalid", String(message !== ""));
    },
  };
}
