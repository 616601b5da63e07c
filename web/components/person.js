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

/** Follows, and unfollows. `changed(following)` is called when the server has done it. */
export function followButton(app, person, following, changed = () => {}) {
  const { name } = person;
  const done = (on) => {
    changed(on);
    // Who follows again meanwhile has taken it back already.
    const isOn = () => element.getAttribute("aria-pressed") === "true";
    if (!on) app.toast(t("unfollowed.name", { name }), () => isOn() || element.click());
  };
  const element = toggleButton(app, person, {
    on: following,
    states: [
      { text: t("follow"), label: t("follow.name", { name }), verb: "follow" },
      { text: t("following"), label: t("following.name", { name }), verb: "unfollow" },
    ],
    testid: "follow",
    changed: done,
  });
  return element;
}

/**
 * A button between two states, off and on: each has its text and label, and the verb of what a click does. With
 * `drawing`, it shows that icon instead of a text. It changes at once, and back if the server refuses.
 */
export function toggleButton(app, person, { on, states, testid, drawing, changed = () => {} }) {
  const element = button({ class: "button follow", data: { testid }, onclick: () => toggle() });
  const words = h("span");
  let isBusy = false;
  element.append(...(drawing ? [icon(drawing)] : [words]));
  const render = () => {
    const { text, label } = states[Number(on)];
    words.textContent = text;
    element.setAttribute("aria-pressed", String(on));
    element.setAttribute("aria-label", label);
  };
  const toggle = async () => {
    // Not disabled meanwhile: that would lose the focus.
    if (isBusy) return;
    isBusy = true;
    const { verb } = states[Number(on)];
    on = !on;
    render();
    try {
      await setRelation(app, verb, person.id);
      changed(on);
    } catch (error) {
      on = !on;
      render();
      app.toast(messageOf(error));
    } finally {
      isBusy = false;
    }
  };
  render();
  return element;
}
