// What everybody wrote: a part of Explore, and of Home as long as that is empty.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { Feed } from "../components/feed.js";
import { empty } from "../components/states.js";

/**
 * How soon what everybody wrote is read anew while its beginning is looked at, at first and at last: no channel has all
 * public posts, and who looks for long costs less.
 */
const REFRESH_MS = 5_000;
const MAX_REFRESH_MS = 30_000;

/** Public posts of everybody, newest first. */
export function exploreFeed(app) {
  const timeline = app.client.openTimeline({ method: "posts.explore" });
  const none = () => empty(t("explore.empty"), t("explore.empty.text"));
  const feed = new Feed(app, timeline, { label: t("explore.posts"), empty: none });
  const title = h("h2", { text: t("explore.posts") });
  const element = h("div", { class: "titled", data: { testid: "everybody" } }, title, feed.element);
  let wait = REFRESH_MS;
  const refresh = () => {
    const isWatched = !document.hidden && element.checkVisibility() && window.scrollY < window.innerHeight;
    if (isWatched && app.client.connection.isLive && timeline.state === "ready") timeline.reload();
    wait = Math.min(wait * 1.1, MAX_REFRESH_MS);
    timer = setTimeout(refresh, wait);
  };
  let timer = setTimeout(refresh, wait);
  const stop = () => {
    clearTimeout(timer);
    feed.close();
    timeline.close();
  };
  return { feed, timeline, element, stop };
}
