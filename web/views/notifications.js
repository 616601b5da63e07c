// Notifications: grouped, on the rail; the unread marker is live in every tab.

import { bidi, button, h } from "../dom.js";
import { timeElement } from "../format.js";
import { icon } from "../icons.js";
import { t, tNodes } from "../i18n/index.js";
import { paths } from "../router.js";
import { avatar } from "../components/avatar.js";
import { empty, failure, skeletons } from "../components/states.js";

const ICONS = { like: "heart", comment: "comment", reply: "reply", follow: "person", mention: "at" };

export function notificationsView(app) {
  const { notifications } = app.client;
  const read = button({
    class: "button",
    text: t("notifications.read"),
    data: { testid: "mark-read" },
    onclick: () => notifications.markRead(),
  });
  const list = h("div", { data: { testid: "notifications" } });
  const foot = h("div", { class: "feed-end" });
  const name = { "aria-label": t("push"), title: t("push") };
  const setUp = h("a", { class: "icon-button", href: paths.push(), ...name }, icon("gear"));
  const bar = h("div", { class: "search-bar" }, h("span", { class: "meta", role: "status" }), read, setUp);
  bar.firstChild.style.flex = "1";
  const card = h("section", { class: "card feed notifications" }, bar, list, foot);
  const rows = new Map();

  const render = () => {
    const { items, unread, state, error, hasOlder } = notifications;
    bar.firstChild.textContent = t("notifications.unread", { n: unread });
    read.disabled = unread === 0;
    if (items.length === 0) {
      const stand =
        state === "loading"
          ? skeletons(4)
          : state === "failed"
            ? failure(error, () => notifications.reload())
            : empty(t("notifications.empty"), t("notifications.empty.text"));
      rows.clear();
      list.replaceChildren(stand);
    } else {
      list.querySelector(".empty, .skeletons")?.remove();
      reconcile(list, rows, items, (item) => row(app, item));
    }
    const more = button({ class: "button", text: t("older"), onclick: () => notifications.loadOlder() });
    foot.replaceChildren(...(hasOlder ? [more] : []));
  };
  const stop = notifications.on("change", render);
  render();
  return {
    title: t("notifications"),
    element: h("div", { class: "view" }, card),
    resume: () => {
      render();
      notifications.markSeen();
    },
    stop,
  };
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
  const faces = h("div", { class: "faces" }, ...people.slice(0, 6).map((person) => avatar(person, "tiny")));
  const name = people.length > 0 ? h("strong", {}, bidi(people[0].name)) : "";
  const others = count - 1;
  const second = people[1] && h("strong", {}, bidi(people[1].name));
  const what = t(`notified.${kind}${object?.type === "comment" && kind === "like" ? ".comment" : ""}`);
  const who =
    count === 2 && second
      ? tNodes("notified.two", { name, second })
      : others > 0
        ? tNodes("notified.many", { name, n: others })
        : [name];
  const element = h(
    "a",
    { class: "notification", href: hrefOf(app, item), data: { testid: "notification", kind } },
    h("span", { class: "kind", "aria-hidden": "true", data: { kind } }, icon(ICONS[kind] ?? "bell")),
    h(
      "div",
      {},
      faces,
      h("p", { class: "sum" }, h("span", {}, ...who, " ", what), h("span", { class: "meta" }, timeElement(at))),
    ),
  );
  if (!read) {
    element.dataset.unread = "";
    element.append(h("span", { class: "hidden-visually", text: t("notifications.one-unread") }));
  }
  element.addEventListener("click", () => !read && app.client.notifications.markRead(item.id));
  return element;
}

function hrefOf(app, { object, people, count }) {
  if (!object)
    return count === 1 && people.length === 1 ? paths.user(people[0].id) : paths.user(app.session.user, "followers");
  return paths.post(object.type === "comment" ? object.post : object.id);
}
