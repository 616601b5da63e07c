// The user's lists: they are made here, and each leads to its posts and to what is in it.

import { bidi, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { factsOf, listForm } from "../components/list-form.js";
import { failure, showWhenSlow, skeletons } from "../components/states.js";
import { listsOf } from "../lists.js";
import { paths } from "../router.js";

export function myListsView(app) {
  const lists = listsOf(app);
  const place = h("div", { class: "push-here", data: { testid: "lists" } });
  const create = async (draft) => {
    const { id } = await lists.create(draft);
    app.router.go(paths.lists(id));
  };
  const render = () => {
    if (lists.items.length === 0) return place.replaceChildren(h("p", { text: tm("lists.none") }));
    const focused = place.contains(document.activeElement) && document.activeElement.id;
    place.replaceChildren(h("ul", { class: "devices" }, ...lists.items.map(row)));
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };
  const load = async () => {
    const shown = lists.isRead ? () => {} : showWhenSlow(place, () => skeletons(2, "line"));
    try {
      await lists.read();
      await shown();
      render();
    } catch (error) {
      await shown();
      if (!lists.isRead) place.replaceChildren(failure(error, load));
    }
  };
  if (lists.isRead) render();
  const ready = load();
  let isNew = true;
  return {
    title: t("lists"),
    ready,
    element: h(
      "div",
      { class: "view" },
      h("section", { class: "card settings" }, h("h2", { text: tm("lists.mine") }), place),
      h(
        "section",
        { class: "card settings" },
        h("h2", { text: tm("lists.new") }),
        h("p", { text: tm("lists.lead") }),
        listForm(null, create),
      ),
    ),
    resume: () => {
      if (!isNew) load();
      isNew = false;
    },
    stop: lists.on(render),
  };
}

function row(list) {
  const { id, name } = list;
  const link = h("a", { class: "name", id: `list-${id}`, href: paths.list(id) }, bidi(name));
  const edit = {
    class: "button",
    id: `list-edit-${id}`,
    href: paths.lists(id),
    text: tm("post.edit"),
    "aria-label": tm("words.edit.name", { name }),
    data: { testid: "list-edit" },
  };
  const facts = h("span", { class: "meta", text: factsOf(list) });
  return h(
    "li",
    { class: "person", data: { testid: "list" } },
    h("span", { class: "person-name" }, link, facts),
    h("a", edit),
  );
}
