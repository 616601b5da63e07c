// Explore, topics and search: what there is beyond the timeline.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { PagedList } from "../components/paged-list.js";
import { suggestions, topics } from "../components/panels.js";
import { followButton, personLink } from "../components/person.js";
import { empty } from "../components/states.js";

function searchForm(app, query) {
  const field = h("input", {
    class: "input",
    type: "search",
    name: "q",
    placeholder: t("search.placeholder"),
    "aria-label": t("search.placeholder"),
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
    app.router.go(`/search?q=${encodeURIComponent(field.value.trim().replace(/^@/, ""))}`);
  });
  return { form, field };
}

function titled(title, list) {
  list.element.prepend(h("h2", { class: "panel-title", text: title }));
  return list.element;
}

export function exploreView(app) {
  const { form } = searchForm(app, "");
  const people = new PagedList(
    async () => ({ rows: await suggestions(app, 20), next: null }),
    () => empty(t("suggestions.empty"), t("suggestions.empty.text")),
  );
  const plaza = new PagedList(
    () => topics(app, 10).then(({ rows }) => ({ rows, next: null })),
    () => empty(t("topics.empty"), t("topics.empty.text")),
  );
  return {
    title: t("explore"),
    ready: Promise.all([people.ready, plaza.ready]),
    element: h(
      "div",
      { class: "view" },
      h("section", { class: "card" }, form),
      titled(t("topics.now"), plaza),
      titled(t("suggestions"), people),
    ),
  };
}

export function topicsView(app) {
  const list = new PagedList(
    (cursor) => topics(app, 30, cursor),
    () => empty(t("topics.empty"), t("topics.empty.text")),
  );
  return { title: t("topics"), ready: list.ready, element: h("div", { class: "view" }, list.element) };
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
      : new PagedList(found, () => empty(t("search.empty"), t("search.empty.text")), { testid: "found" });
  const hint = list ? null : h("section", { class: "card" }, empty(t("search.hint"), t("search.hint.text")));
  return {
    title: t("search"),
    ready: list?.ready,
    element: h("div", { class: "view" }, h("section", { class: "card" }, form), list?.element ?? hint),
    resume: () => query === "" && field.focus(),
  };
}

/** A list of people below a profile. */
export function peopleList(app, method, id, text) {
  const load = async (cursor) => {
    const { items, next } = await app.client.connection.rpc(method, { id, limit: 30, ...(cursor && { cursor }) });
    const mine = method === "users.following" && id === app.session.user;
    const rows = items.map((person) => personLink(person, { control: mine && followButton(app, person, true) }));
    return { rows, next: next ?? null };
  };
  return new PagedList(load, () => empty(text, ""), { testid: "people" });
}
