// What everybody wrote: a part of Explore, and of Home as long as that is empty.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { Feed } from "../components/feed.js";
import { empty } from "../components/states.js";

/** Public posts of everybody, newest first. */
export function exploreFeed(app) {
  const timeline = app.client.openTimeline({ method: "posts.explore" });
  const none = () => empty(t("explore.empty"), t("explore.empty.text"));
  const feed = new Feed(app, timeline, { label: t("explore.posts"), empty: none });
  const title = h("h2", { text: t("explore.posts") });
  const element = h("div", { class: "titled", data: { testid: "everybody" } }, title, feed.element);
  const stop = () => {
    feed.close();
    timeline.close();
  };
  return { feed, timeline, element, stop };
}
