// The form of a list, and what is said of it.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { written } from "../text.js";
import { labelled, tick } from "./fields.js";
import { messageOf } from "./states.js";

/** The limits of the server: lists of a user, characters of a name, members of a list. */
const MAX_LISTS = 50;
const MAX_NAME = 50;
const MAX_MEMBERS = { user: 500, topic: 20 };

/** What is in a list: "2 people · 1 topic · Left out of Home". */
export function factsOf({ users, topics, exclusive }) {
  const facts = [tm("list.users", { n: users }), topics > 0 && tm("list.topics", { n: topics })];
  return [...facts, exclusive && tm("list.left-out")].filter(Boolean).join(" · ");
}

/** What is wrong with the name of a list; nothing: empty. */
export function nameProblem(name) {
  if (name === "") return tm("list.name.empty");
  return [...name].length > MAX_NAME ? tm("list.name.long", { n: MAX_NAME }) : "";
}

/** The sentence of an error of a new list. */
export const createProblem = (error) =>
  error.reason === "limit_exceeded" ? tm("lists.most", { n: MAX_LISTS }) : messageOf(error);

/** The sentence of an error of a member, which is a "user" or a "topic". */
export const memberProblem = (error, kind) =>
  error.reason === "limit_exceeded" ? tm(`list.most.${kind}`, { n: MAX_MEMBERS[kind] }) : messageOf(error);

/**
 * A form for a list, or with null for a new one. `submit(draft)` stores it, and answers what to say then. `beside` is
 * beside its button.
 */
export function listForm(list, submit, beside = null) {
  const named = (name) => ({ id: `list-${name}`, data: { testid: `list-${name}` } });
  const name = h("input", { class: "input", dir: "auto", autocomplete: "off", value: list?.name, ...named("name") });
  const box = { ...named("exclusive"), checked: list?.exclusive };
  const alone = tick(box, tm("list.exclusive"), tm("list.exclusive.hint"));
  const error = h("p", { class: "error", role: "alert", ...named("error") });
  const done = h("p", { class: "done", role: "status", ...named("done") });
  const text = list ? tm("save") : tm("list.create");
  const send = h("button", { class: "button primary", type: "submit", text, ...named("submit") });
  const form = h(
    "form",
    { class: "form", novalidate: true },
    labelled(name, tm("list.name")),
    alone.element,
    h("div", { class: "form-foot" }, send, beside, error, done),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const draft = { name: written(name.value), exclusive: alone.input.checked };
    done.textContent = "";
    error.textContent = nameProblem(draft.name);
    if (error.textContent) return name.focus();
    send.disabled = true;
    try {
      done.textContent = (await submit(draft)) ?? "";
    } catch (failed) {
      error.textContent = list ? messageOf(failed) : createProblem(failed);
    } finally {
      send.disabled = false;
    }
  });
  return form;
}
