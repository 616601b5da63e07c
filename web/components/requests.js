// Requests to follow: answering one, and the sentence that says how many wait.

import { bidi, button, h } from "../dom.js";
import { tm, tmNodes } from "../i18n/more.js";
import { setRelation } from "../relations.js";
import { messageOf } from "./states.js";

/** How many are counted; more of them are "more than". */
export const MAX_COUNTED = 99;

/** The buttons that answer the request of a person. `done()` is called once it is answered, or was withdrawn. */
export function answerButtons(app, person, done = () => {}) {
  let isBusy = false;
  const answer = async (verb) => {
    if (isBusy) return;
    isBusy = true;
    const { name } = person;
    try {
      await setRelation(app, verb, person.id);
      app.toast(tm(`${verb}.done`, { name }));
      done();
    } catch (error) {
      app.toast(error.code === 404 ? tm("request.gone", { name }) : messageOf(error));
      if (error.code === 404) done();
    } finally {
      isBusy = false;
    }
  };
  const one = (verb, style) =>
    button({
      class: `button ${style}`,
      text: tm(verb),
      "aria-label": tm(`${verb}.name`, { name: person.name }),
      data: { testid: verb },
      onclick: () => answer(verb),
    });
  return h("div", { class: "choices" }, one("accept", "primary"), one("reject", ""));
}

/** Says on the profile of a person that they ask, with the answers. */
export function requestNotice(app, person) {
  const words = h("span", {}, ...tmNodes("request.of", { name: bidi(person.name) }));
  return h("div", { class: "request", data: { testid: "request-notice" } }, words, answerButtons(app, person));
}

/** How many people ask the user to follow them: the number, and whether there are more; and some of them. */
export async function countRequests({ client }) {
  const { items, next } = await client.connection.rpc("users.requests", { limit: MAX_COUNTED });
  return { people: items, number: items.length, isMore: Boolean(next) };
}

/**
 * Calls back when notifications of requests, of acceptances or of follows have changed, and so what is between the user
 * and another; of one person, or of anybody. Returns a function that ends it.
 */
export function watchRequests({ client: { notifications } }, kinds, person, changed) {
  const concerns = ({ kind, people }) => kinds.includes(kind) && (!person || people.some(({ id }) => id === person));
  const state = () =>
    JSON.stringify(
      notifications.items.filter(concerns).map(({ kind, count, updated_at: at }) => [kind, person ? 0 : count, at]),
    );
  let last = state();
  return notifications.on("change", () => {
    const now = state();
    if (now === last) return;
    last = now;
    changed();
  });
}
