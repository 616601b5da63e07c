// Requests to follow: of those who ask the user, to be answered, and of the user, to be withdrawn.

import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { PagedList } from "../components/paged-list.js";
import { personLink } from "../components/person.js";
import { answerButtons, watchRequests } from "../components/requests.js";
import { empty, messageOf } from "../components/states.js";
import { setRelation } from "../relations.js";

const PAGE = 30;
const MAX_PAGE = 100;

/** The lists: their operation, what says that they have changed, and what stands at the end of a row. */
const LISTS = {
  mine: {
    method: "users.requests",
    kinds: ["request"],
    verbs: ["accept", "reject", "block", "unblock"],
    control: answerButtons,
    none: () => empty(tm("requests.none"), tm("requests.none.text")),
  },
  asked: {
    method: "users.requested",
    kinds: ["accepted"],
    verbs: ["follow", "unfollow", "block", "unblock"],
    control: withdrawButton,
    none: () => empty(tm("requests.none.asked"), ""),
  },
};

export function requestsView(app) {
  const place = h("div");
  const tabs = Object.keys(LISTS).map((name) =>
    button({
      class: "button",
      text: tm(`requests.${name}`),
      data: { testid: `requests-${name}` },
      onclick: () => choose(name),
    }),
  );
  let shown = null;
  const choose = (name) => {
    shown?.stop();
    shown = new RequestList(app, LISTS[name]);
    place.replaceChildren(shown.element);
    Object.keys(LISTS).forEach((one, at) => tabs[at].setAttribute("aria-pressed", String(one === name)));
  };
  choose("mine");
  const choice = h("div", { class: "choices", role: "group", "aria-label": tm("requests.which") }, ...tabs);
  const bar = h("div", { class: "search-bar" }, choice);
  return {
    title: tm("requests"),
    ready: shown.ready,
    element: h("div", { class: "view" }, h("section", { class: "card" }, bar, place)),
    resume: () => shown.reread(),
    stop: () => shown.stop(),
  };
}

/** One of the lists, live. */
class RequestList {
  #app;
  #kind;
  #rows = new Map();
  #list;
  #stops;
  element;
  ready;

  constructor(app, kind) {
    this.#app = app;
    this.#kind = kind;
    const load = async (cursor) => {
      const { items, next } = await this.#read(cursor, PAGE);
      return { rows: items.map((person) => this.#row(person)), next };
    };
    this.#list = new PagedList(load, kind.none, { testid: "requests" });
    this.element = this.#list.element;
    this.element.classList.remove("card");
    this.ready = this.#list.ready;
    this.#stops = [
      watchRequests(app, kind.kinds, null, () => this.reread()),
      app.relations.on((_, verb) => kind.verbs.includes(verb) && this.reread()),
    ];
  }

  stop() {
    for (const stop of this.#stops) stop();
  }

  /** Reads anew what is shown, in place. */
  async reread() {
    await this.ready;
    const wanted = this.#list.rows.length;
    const people = [];
    let next = null;
    try {
      do {
        const page = await this.#read(next, MAX_PAGE);
        people.push(...page.items);
        ({ next } = page);
      } while (next && people.length < wanted);
    } catch {
      // What is shown stays: the next change reads it again.
      return;
    }
    const before = this.#list.rows;
    const at = before.findIndex((row) => row.contains(document.activeElement));
    const rows = people.map((person) => this.#rows.get(person.id) ?? this.#row(person));
    this.#list.replace(rows, next);
    // The row that had the focus has left: the next one gets it.
    if (at < 0 || rows.includes(before[at])) return;
    const left = [...before.slice(at), ...before.slice(0, at).reverse()].find((row) => rows.includes(row));
    const target = left?.querySelector("button");
    if (target) target.focus();
    else this.#app.focusTitle();
  }

  async #read(cursor, limit) {
    const { connection } = this.#app.client;
    const { items, next } = await connection.rpc(this.#kind.method, { limit, ...(cursor && { cursor }) });
    return { items, next: next ?? null };
  }

  #row(person) {
    const control = this.#kind.control(this.#app, person, () => this.reread());
    const row = personLink(person, { control });
    row.classList.add("asking");
    this.#rows.set(person.id, row);
    return row;
  }
}

/** Takes the user's own request back. */
function withdrawButton(app, person) {
  const { id, name } = person;
  const withdraw = async () => {
    try {
      await setRelation(app, "unfollow", id);
      app.toast(t("withdrawn.name", { name }), () => setRelation(app, "follow", id).catch(() => {}));
    } catch (error) {
      app.toast(messageOf(error));
    }
  };
  return button({
    class: "button",
    text: tm("withdraw"),
    "aria-label": tm("withdraw.name", { name }),
    data: { testid: "withdraw" },
    onclick: withdraw,
  });
}
