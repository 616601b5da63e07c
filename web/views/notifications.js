// Notifications: grouped, on the rail; the unread marker is live in every tab.

import { bidi, button, h, setText, show } from "../dom.js";
import { remember } from "../feedline/bounded.js";
import { timeElement } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm, tmNodes } from "../i18n/more.js";
import { moreIcon } from "../more-icons.js";
import { paths } from "../router.js";
import { avatar } from "../components/avatar.js";
import { countRequests, watchRequests } from "../components/requests.js";
import { empty, failure, showWhenSlow, skeletons } from "../components/states.js";

/** How many excerpts are kept, and of how many objects one request reads them. */
const MAX_EXCERPTS = 200;
const MAX_IDS = 100;
const MAX_FACES = 6;

const ICONS = {
  like: "heart",
  comment: "comment",
  reply: "reply",
  follow: "person",
  mention: "at",
  request: "lock",
  accepted: "person",
  repost: "repost",
  quote: "quote",
};

export function notificationsView(app) {
  const { notifications } = app.client;
  const read = button({
    class: "button",
    text: tm("notifications.read"),
    data: { testid: "mark-read" },
    onclick: () => notifications.markRead(),
  });
  const list = h("div", { data: { testid: "notifications" } });
  const foot = h("div", { class: "feed-end" });
  const name = { "aria-label": tm("push"), title: tm("push") };
  const setUp = h("a", { class: "icon-button", href: paths.push(), ...name }, icon("gear"));
  const bar = h("div", { class: "search-bar" }, h("span", { class: "meta", role: "status" }), read, setUp);
  bar.firstChild.style.flex = "1";
  const asking = requestsRow(app);
  const card = h("section", { class: "card feed notifications" }, bar, asking.element, list, foot);
  const rows = new Map();
  const excerpts = new Excerpts(app, () => showGroups(rows, notifications.items, excerpts));

  const render = () => {
    const { items, unread, state, error, hasOlder } = notifications;
    bar.firstChild.textContent = tm("notifications.unread", { n: unread });
    read.disabled = unread === 0;
    if (items.length === 0) {
      if (state === "loading") return;
      const stand =
        state === "failed"
          ? failure(error, () => notifications.reload())
          : empty(tm("notifications.empty"), tm("notifications.empty.text"));
      rows.clear();
      list.replaceChildren(stand);
    } else {
      list.querySelector(".empty, .skeletons")?.remove();
      reconcile(list, rows, items, (item) => row(app, item));
      showGroups(rows, items, excerpts);
      excerpts.read(items.map(quotedOf));
    }
    const more = button({ class: "button", text: t("older"), onclick: () => notifications.loadOlder() });
    foot.replaceChildren(...(hasOlder ? [more] : []));
  };
  let loaded = notifications.state === "loading" ? showWhenSlow(list, () => skeletons(4)) : null;
  const changed = async () => {
    if (loaded && notifications.state !== "loading") {
      await loaded();
      loaded = null;
    }
    if (!loaded) render();
  };
  const stopList = notifications.on("change", changed);
  changed();
  return {
    title: t("notifications"),
    element: h("div", { class: "view" }, card),
    resume: () => {
      render();
      notifications.markSeen();
      asking.read();
    },
    stop: () => {
      stopList();
      asking.stop();
    },
  };
}

/** Says how many people ask to follow the user, and leads to them. */
function requestsRow(app) {
  const element = h("div");
  const read = async () => {
    const found = await countRequests(app).catch(() => null);
    if (!found) return;
    const { people, number, isMore } = found;
    const hadFocus = element.contains(document.activeElement);
    const text = tm(isMore ? "requests.more" : "requests.waiting", { n: number });
    const row = h(
      "a",
      { class: "notification", href: paths.requests(), data: { testid: "requests-row" } },
      h("span", { class: "kind", "aria-hidden": "true" }, moreIcon("lock")),
      h(
        "div",
        {},
        h("div", { class: "faces" }, ...people.slice(0, MAX_FACES).map((person) => avatar(person, "tiny"))),
        h("p", { class: "sum" }, h("strong", { text })),
      ),
    );
    element.replaceChildren(...(number > 0 ? [row] : []));
    if (hadFocus) element.firstChild?.focus();
  };
  const stops = [
    watchRequests(app, ["request"], null, read),
    app.relations.on((_, verb) => ["accept", "reject", "block"].includes(verb) && read()),
  ];
  return { element, read, stop: () => stops.forEach((stop) => stop()) };
}

/** The post that a notification belongs to; undefined for a follow. */
const postOf = ({ object }) => (object?.type === "comment" ? object.post : object?.id);

/** The comment that a notification is about: the new one, or the one that is liked or mentions the reader. */
const commentOf = ({ comment, object }) => comment ?? (object?.type === "comment" ? object.id : undefined);

/** What a notification quotes: a comment or a post, as the key of its excerpt. */
const quotedOf = (item) => (commentOf(item) ? `comment ${commentOf(item)}` : `post ${postOf(item)}`);

/** The rail joins the rows that follow each other and belong to one post; of rows with the same words the first one
 * shows them. */
function showGroups(rows, items, excerpts) {
  const joins = (item, other) => Boolean(other) && postOf(item) !== undefined && postOf(item) === postOf(other);
  items.forEach((item, at) => {
    const { element } = rows.get(item.id) ?? {};
    if (!element) return;
    const above = joins(item, items[at - 1]);
    element.toggleAttribute("data-above", above);
    element.toggleAttribute("data-below", joins(item, items[at + 1]));
    const excerpt = element.querySelector(".excerpt");
    const isSaid = item.filtered || (above && quotedOf(item) === quotedOf(items[at - 1]));
    const text = isSaid ? "" : (item.body ?? excerpts.get(quotedOf(item)) ?? "");
    setText(excerpt, text);
    show(excerpt, text !== "");
  });
}

/** The first words of posts and comments, read once. */
class Excerpts {
  #app;
  #changed;
  #texts = new Map();

  constructor(app, changed) {
    this.#app = app;
    this.#changed = changed;
  }

  get(key) {
    return this.#texts.get(key);
  }

  async read(keys) {
    const unknown = [...new Set(keys)].filter((key) => !this.#texts.has(key)).slice(0, MAX_IDS);
    // Those that cannot be seen stay without words.
    for (const key of unknown) remember(this.#texts, key, "", MAX_EXCERPTS);
    await Promise.all(["post", "comment"].map((type) => this.#read(type, unknown)));
  }

  async #read(type, unknown) {
    const keys = unknown.filter((key) => /^\w+ \d+$/.test(key) && key.startsWith(type));
    if (keys.length === 0) return;
    const ids = keys.map((key) => Number(key.slice(type.length)));
    const page = await this.#app.client.connection.rpc(`${type}s.many`, { ids }).catch(() => null);
    if (!page) for (const key of keys) this.#texts.delete(key);
    for (const { id, text, media } of page?.items ?? []) {
      const [first] = media ?? [];
      const words = text || (first ? first.alt || t(`media.${first.type}`) : "");
      remember(this.#texts, `${type} ${id}`, words, MAX_EXCERPTS);
    }
    this.#changed();
  }
}

/** Shows rows in the order of items; a row is made again when its item is another object. */
function reconcile(list, rows, items, make) {
  const wanted = new Set(items.map(({ id }) => id));
  for (const [id, { element }] of rows) {
    if (wanted.has(id)) continue;
    rows.delete(id);
    element.remove();
  }
  let place = list.firstElementChild;
  for (const item of items) {
    let known = rows.get(item.id);
    if (!known || known.item !== item) {
      const element = make(item);
      const focused = known?.element === document.activeElement;
      if (known) {
        if (place === known.element) place = element;
        known.element.replaceWith(element);
        if (focused) element.focus();
      } else list.insertBefore(element, place);
      rows.set(item.id, { item, element });
      known = rows.get(item.id);
    }
    if (known.element === place) place = place.nextElementSibling;
    else if (known.element.nextElementSibling !== place) list.insertBefore(known.element, place);
  }
}

function row(app, item) {
  const { kind, people, count, object, updated_at: at, read } = item;
  const faces = h("div", { class: "faces" }, ...people.slice(0, MAX_FACES).map((person) => avatar(person, "tiny")));
  const name = people.length > 0 ? h("strong", {}, bidi(people[0].name)) : "";
  const others = count - 1;
  const second = people[1] && h("strong", {}, bidi(people[1].name));
  const what = () => t(`notified.${kind}${object?.type === "comment" && kind === "like" ? ".comment" : ""}`);
  // The application's own notifications have a title. What has muted words is not shown.
  const title = () => (item.filtered ? "" : h("strong", {}, bidi(item.title)));
  const words = item.title === undefined ? what() : title();
  const who =
    count === 2 && second
      ? tmNodes("notified.two", { name, second })
      : others > 0
        ? tmNodes("notified.many", { name, n: others })
        : [name];
  const element = h(
    "a",
    { class: "notification", ...linkOf(app, item), data: { testid: "notification", kind } },
    h("span", { class: "kind", "aria-hidden": "true", data: { kind } }, moreIcon(ICONS[kind] ?? "bell")),
    h(
      "div",
      {},
      faces,
      h("p", { class: "sum" }, h("span", {}, ...who, " ", words), h("span", { class: "meta" }, timeElement(at))),
      h("p", { class: "excerpt", dir: "auto", hidden: true, data: { testid: "excerpt" } }),
      item.filtered && whyCovered(app, item.filtered),
    ),
  );
  if (!read) {
    element.dataset.unread = "";
    element.append(h("span", { class: "hidden-visually", text: tm("notifications.one-unread") }));
  }
  element.addEventListener("click", () => !read && app.client.notifications.markRead(item.id));
  return element;
}

/** Stands for the words of a notification that has muted ones. */
function whyCovered(app, filters) {
  const element = h("p", { class: "excerpt", text: t("filtered"), data: { testid: "filtered" } });
  app.filterText(filters).then((text) => setText(element, text), () => {});
  return element;
}

/** The link of a notification. One of the application without an address stays on the page. */
function linkOf(app, item) {
  if (item.title === undefined) return { href: hrefOf(app, item) };
  if (!/^(https?:\/\/|\/(?!\/))/i.test(item.url ?? "")) return { href: paths.notifications() };
  return { href: item.url, target: "_blank", rel: "noopener noreferrer" };
}

function hrefOf(app, item) {
  const { people, count } = item;
  if (item.kind === "request") return paths.requests();
  const list = item.kind === "accepted" ? "following" : "followers";
  if (!item.object)
    return count === 1 && people.length === 1 ? paths.user(people[0].id) : paths.user(app.session.user, list);
  return paths.post(postOf(item), commentOf(item));
}
