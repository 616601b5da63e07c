// People in rows, and the button that follows them.

import { bidi, button, h } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { setRelation } from "../relations.js";
import { paths } from "../router.js";
import { avatar } from "./avatar.js";
import { messageOf } from "./states.js";

/** The avatar and the names of a person. */
export function personRow(person, hint, size = "small") {
  const name = h("span", { class: "name" }, bidi(person.name));
  return [
    avatar(person, size),
    h("span", { class: "person-name" }, name, h("span", { class: "meta", text: hint ?? `@${person.id}` })),
  ];
}

/** A person that leads to the profile, with an optional control at the end. */
export function personLink(person, { hint, control, size } = {}) {
  const [face, name] = personRow(person, hint, size);
  const link = h("a", { class: "person person-link", href: paths.user(person.id) }, face, name);
  link.style.flex = "1";
  return h("div", { class: "person", data: { user: person.id, testid: "person" } }, link, control);
}

/** What is between the user and another one, as states of a button. */
export const FREE = 0;
export const FOLLOWING = 1;
export const REQUESTED = 2;

/** Follows or asks to follow, and takes that back. `state` is what is so now. */
export function followButton(app, person, state) {
  const { name } = person;
  const changed = (now, before) => {
    // Who follows again meanwhile has taken it back already.
    const isOn = () => element.getAttribute("aria-pressed") === "true";
    const key = before === REQUESTED ? "withdrawn.name" : "unfollowed.name";
    if (now === FREE) app.toast(t(key, { name }), () => isOn() || element.click());
  };
  const element = toggleButton(app, person, {
    state,
    states: [
      { text: t("follow"), label: t("follow.name", { name }), verb: "follow" },
      { text: t("following"), label: t("following.name", { name }), verb: "unfollow" },
      { text: t("requested"), label: t("requested.name", { name }), verb: "unfollow" },
    ],
    testid: "follow",
    changed,
  });
  return element;
}

/**
 * A button between two states, off and on, or also asked for: each has its text and label, and the verb of what a click
 * does. With `drawing`, it shows that icon instead of a text. It changes at once, and back if the server refuses.
 * `changed(now, before)` is called when the server has done it.
 */
export function toggleButton(app, person, { state = FREE, states, testid, drawing, changed = () => {} }) {
  const element = button({ class: "button follow", data: { testid }, onclick: () => toggle() });
  const words = h("span");
  let isBusy = false;
  element.append(...(drawing ? [icon(drawing)] : [words]));
  const show = (now) => {
    state = now;
    const { text, label } = states[state];
    words.textContent = text;
    element.setAttribute("aria-pressed", String(state !== FREE));
    element.setAttribute("aria-label", label);
  };
  const toggle = async () => {
    // Not disabled meanwhile: that would lose the focus.
    if (isBusy) return;
    isBusy = true;
    const before = state;
    const { verb } = states[before];
    show(before !== FREE ? FREE : person.locked ? REQUESTED : FOLLOWING);
    try {
      const reply = await setRelation(app, verb, person.id);
      if (reply?.state) show(reply.state === "requested" ? REQUESTED : FOLLOWING);
      changed(state, before);
    } catch (error) {
      show(before);
      app.toast(messageOf(error));
    } finally {
      isBusy = false;
    }
  };
  show(state);
  return element;
}
