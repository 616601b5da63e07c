// The posts of a list, live, below what it is and the link to what is in it.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { Feed } from "../components/feed.js";
import { factsOf } from "../components/list-form.js";
import { listTabs } from "../components/list-tabs.js";
import { empty } from "../components/states.js";
import { listsOf } from "../lists.js";
import { paths } from "../router.js";
import { notFound } from "./not-found.js";

export function listView(app, { id }) {
  const lists = listsOf(app);
  const timeline = app.client.openTimeline({ method: "lists.read", params: { id }, channel: `list:${id}` });
  const tabs = listTabs(app, h("nav", { class: "card list-tabs" }), id);
  const facts = h("p", { class: "meta", data: { testid: "list-facts" } });
  const bar = h(
    "section",
    { class: "card list-bar", "aria-label": tm("list.about") },
    facts,
    h("a", { class: "button", href: paths.lists(id), text: tm("post.edit"), data: { testid: "list-edit" } }),
  );
  /** What stands in for no posts: it depends on whether there are members. */
  const none = h("div");
  const feed = new Feed(app, timeline, { label: lists.find(id)?.name ?? t("lists"), empty: () => none });
  let isLost = false;
  const render = () => {
    if (isLost) return;
    const list = lists.find(id);
    view.title = list?.name ?? t("lists");
    view.onTitle?.();
    if (!lists.isRead || !list) return;
    facts.textContent = factsOf(list);
    const add = h("a", { class: "button primary", href: paths.lists(id), text: tm("list.fill") });
    const isEmpty = list.users + list.topics === 0;
    none.replaceChildren(isEmpty ? empty(tm("list.nobody"), tm("list.nobody.text"), add) : empty(tm("list.empty")));
  };
  const lose = () => {
    if (isLost || timeline.error?.code !== 404) return;
    isLost = true;
    // Deleted in another tab: its tab leaves, too.
    if (lists.find(id)) lists.refresh();
    view.title = t("not-found");
    view.onTitle?.();
    view.element.replaceChildren(tabs.element, h("section", { class: "card" }, notFound()));
  };
  const stops = [lists.on(render), timeline.on("change", lose)];
  const view = {
    feed,
    element: h("div", { class: "view" }, tabs.element, bar, feed.element),
    top: () => timeline.showWaiting(),
    resume: () => {
      tabs.resume();
      feed.resume();
    },
    pause: () => feed.pause(),
    stop: () => {
      for (const stop of stops) stop();
      tabs.stop();
      feed.close();
      timeline.close();
    },
  };
  render();
  return view;
}
