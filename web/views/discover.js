// Explore, topics and search: what there is beyond the timeline.

import { bidi, h, show } from "../dom.js";
import { followedTopicsOf } from "../followed-topics.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { PagedList } from "../components/paged-list.js";
import { suggestions, topics } from "../components/panels.js";
import { personLink } from "../components/person.js";
import { empty, failure } from "../components/states.js";
import { topicFollowButton } from "../components/topic-follow.js";
import { paths } from "../router.js";
import { written } from "../text.js";
import { exploreFeed } from "./everybody.js";

/** How many of the followed topics are shown at first. */
const FOLLOWED = 10;

function searchForm(app, query) {
  const field = h("input", {
    class: "input",
    type: "search",
    name: "q",
    placeholder: tm("search.placeholder"),
    "aria-label": tm("search.label"),
    autocapitalize: "none",
    spellcheck: "false",
    maxlength: 64,
    value: query,
    data: { testid: "search" },
  });
  const form = h(
    "form",
    { class: "search-bar", role: "search" },
    field,
    h("button", { class: "button", type: "submit", text: t("search") }),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    app.router.go(paths.search(written(field.value).replace(/^[@＠]/, "")));
  });
  return { form, field };
}

/** A list below its title, once it has something to show. */
function titled(title, load, testid) {
  const heading = h("h2", { class: "panel-title", text: title });
  const body = h("div", { class: "rows" });
  const element = h("section", { class: "card", hidden: true, data: { testid } }, heading, body);
  const attempt = async () => {
    try {
      const rows = await load();
      body.replaceChildren(...rows);
      show(element, rows.length > 0);
    } catch (error) {
      body.replaceChildren(failure(error, attempt));
      show(element, true);
    }
  };
  return { element, ready: attempt() };
}

export function exploreView(app) {
  const { form } = searchForm(app, "");
  const plaza = titled(t("topics.now"), async () => (await topics(app, 5)).rows, "explore-topics");
  const people = titled(t("suggestions"), () => suggestions(app, 5), "explore-people");
  const { feed, timeline, element, stop } = exploreFeed(app);
  return {
    title: t("explore"),
    feed,
    ready: Promise.all([people.ready, plaza.ready]),
    element: h(
      "div",
      { class: "view" },
      h("section", { class: "card" }, form),
      plaza.element,
      people.element,
      element,
    ),
    top: () => timeline.reload(),
    resume: () => feed.resume(),
    pause: () => feed.pause(),
    stop,
  };
}

/** The topics that the user follows, by name; hidden if there are none. `changed(isShown)` says so. */
function followedTopics(app, changed) {
  const store = followedTopicsOf(app);
  const rows = new Map();
  const stops = [];
  const row = (name) => {
    const { element, stop } = topicFollowButton(app, name);
    stops.push(stop);
    const title = h("span", { class: "name" }, bidi(`#${name}`));
    const link = h("a", { class: "person-name", href: paths.topic(name) }, title);
    return h("div", { class: "person", data: { testid: "followed-topic" } }, link, element);
  };
  // What is unfollowed here stays until the next visit, with its button.
  let names = [];
  const page = (from, to) => ({
    rows: names.slice(from, to).map((name) => rows.get(name) ?? rows.set(name, row(name)).get(name)),
    next: to < names.length ? to : null,
  });
  const read = async () => {
    await store.refresh();
    ({ names } = store);
    show(element, names.length > 0);
    changed(names.length > 0);
  };
  const load = async (from) => {
    if (!from) await read();
    return page(from ?? 0, (from ?? 0) + FOLLOWED);
  };
  const list = new PagedList(load, () => h("p", { class: "empty" }), { testid: "followed-topics" });
  const element = h("div", { class: "titled", hidden: true }, h("h2", { text: tm("topics.followed") }), list.element);
  let isFirst = true;
  const resume = async () => {
    if (isFirst) return void (isFirst = false);
    await list.ready;
    await read();
    const shown = page(0, Math.max(FOLLOWED, list.rows.length));
    list.replace(shown.rows, shown.next);
  };
  return { element, ready: list.ready, resume, stop: () => stops.forEach((stop) => stop()) };
}

export function topicsView(app) {
  const heading = h("h2", { text: t("topics.now"), hidden: true });
  const followed = followedTopics(app, (isShown) => show(heading, isShown));
  // Shown together, so that nothing moves.
  const load = async (cursor) => (await Promise.all([topics(app, 30, { cursor }), followed.ready]))[0];
  const none = () => empty(tm("topics.empty"), tm("topics.empty.text"));
  const list = new PagedList(load, none, { shape: "line" });
  return {
    title: t("topics"),
    ready: list.ready,
    element: h("div", { class: "view" }, followed.element, h("div", { class: "titled" }, heading, list.element)),
    resume: followed.resume,
    stop: followed.stop,
  };
}

export function searchView(app, { query }) {
  const { form, field } = searchForm(app, query);
  const found = async (cursor) => {
    const { items, next } = await app.client.connection.rpc("users.search", {
      q: query,
      limit: 20,
      ...(cursor && { cursor }),
    });
    return { rows: items.map((person) => personLink(person)), next: next ?? null };
  };
  const list =
    query === ""
      ? null
      : new PagedList(found, () => empty(tm("search.empty"), tm("search.empty.text")), { testid: "found" });
  const hint = list ? null : h("section", { class: "card" }, empty(tm("search.hint"), tm("search.hint.text")));
  // What is no beginning of a topic, like a name with spaces, finds none.
  const tags = list && titled(t("topics"), async () => (await topics(app, 5, { q: query })).rows, "found-topics");
  const bar = h("section", { class: "card" }, form);
  return {
    title: t("search"),
    ready: Promise.all([list?.ready, tags?.ready]),
    element: h("div", { class: "view" }, bar, ...(list ? [tags.element, list.element] : [hint])),
    resume: () => query === "" && field.focus(),
  };
}
