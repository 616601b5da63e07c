// Following topics: the button, and what is said about it.

import { button, setText } from "../dom.js";
import { followedTopicsOf } from "../followed-topics.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { messageOf } from "./states.js";

/** The limit of the server: topics that a user follows. */
const MAX_TOPICS = 100;

/** Follows a topic, or unfollows it with a way back. `done` is said when it is followed. */
export async function followTopic(app, name, isWanted, done = "") {
  const undo = () => followTopic(app, name, true, tm("relation.undone"));
  try {
    await followedTopicsOf(app).set(name, isWanted);
    if (isWanted) app.toast(done);
    else app.toast(t("unfollowed.name", { name: `#${name}` }), undo);
  } catch (error) {
    app.toast(error.reason === "limit_exceeded" ? tm("topics.most", { n: MAX_TOPICS }) : messageOf(error));
  }
}

/** A button that follows a topic, or unfollows it: `{element, stop}`. It shows what is so wherever that changes. */
export function topicFollowButton(app, name) {
  const topics = followedTopicsOf(app);
  const element = button({ class: "button follow", data: { testid: "follow-topic" }, onclick: () => toggle() });
  let isBusy = false;
  const render = () => {
    const isOn = topics.has(name);
    setText(element, t(isOn ? "following" : "follow"));
    element.setAttribute("aria-pressed", String(isOn));
    element.setAttribute("aria-label", t(isOn ? "following.name" : "follow.name", { name: `#${name}` }));
  };
  const toggle = async () => {
    // Not disabled meanwhile: that would lose the focus.
    if (isBusy) return;
    isBusy = true;
    await followTopic(app, name, !topics.has(name));
    isBusy = false;
  };
  render();
  return { element, stop: topics.on(render) };
}
