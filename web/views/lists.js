// Views of posts alone: a topic, the quotes of a post, and the favourites.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { Feed } from "../components/feed.js";
import { PostPages } from "../post-pages.js";
import { empty } from "../components/states.js";
import { topicName } from "../text.js";

function feedView(app, title, timeline, options) {
  const feed = new Feed(app, timeline, { label: title, ...options });
  return {
    title,
    feed,
    element: h("div", { class: "view" }, feed.element),
    top: () => timeline.showWaiting(),
    resume: () => feed.resume(),
    pause: () => feed.pause(),
    stop: () => {
      feed.close();
      timeline.close();
    },
  };
}

export function topicView(app, { name: written }) {
  // Only the stored name is that of a channel.
  const name = topicName(written) ?? written;
  const timeline = app.client.openTimeline({ method: "topics.read", params: { name }, channel: `topic:${name}` });
  return feedView(app, `#${name}`, timeline, { empty: () => empty(tm("topic.empty"), tm("topic.empty.text")) });
}

/** The posts that quote a post. */
export function quotesView(app, { id }) {
  const timeline = app.client.openTimeline({ method: "posts.quotes", params: { id } });
  return feedView(app, tm("quotes"), timeline, { empty: () => empty(tm("quotes.empty"), "") });
}

export function favouritesView(app) {
  const timeline = new PostPages(app, {
    method: "favourites.list",
    params: { type: "post" },
    post: ({ post }) => post && { ...post, favourited: true },
    isShown: (post) => app.favourites.has(post),
  });
  return feedView(app, t("favourites"), timeline, {
    empty: () => empty(t("favourites.empty"), t("favourites.empty.text")),
  });
}
