// Views of posts alone: a topic, the quotes of a post, and the favourites.

import { button, h, show } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { addToLists } from "../components/add-to-lists.js";
import { Feed } from "../components/feed.js";
import { PostPages } from "../post-pages.js";
import { empty } from "../components/states.js";
import { topicFollowButton } from "../components/topic-follow.js";
import { followedTopicsOf } from "../followed-topics.js";
import { topicName } from "../text.js";

/** `above` is what is above the posts. */
function feedView(app, title, timeline, { above, ...options }) {
  const feed = new Feed(app, timeline, { label: title, ...options });
  return {
    title,
    feed,
    element: h("div", { class: "view" }, above, feed.element),
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
  const add = button({
    class: "button",
    text: tm("lists.add-to"),
    data: { testid: "add-to-lists" },
    onclick: () => addToLists(app, `#${name}`, { topic: name }),
  });
  const follow = topicFollowButton(app, name);
  show(follow.element, false);
  const room = h("span", { class: "meta" });
  const view = feedView(app, `#${name}`, timeline, {
    above: h("section", { class: "card list-bar", "aria-label": tm("topic.about") }, add, room, follow.element),
    empty: () => empty(tm("topic.empty"), tm("topic.empty.text")),
  });
  return {
    ...view,
    resume: () => {
      view.resume();
      followedTopicsOf(app).refresh().then(() => show(follow.element, true));
    },
    stop: () => {
      view.stop();
      follow.stop();
    },
  };
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
    empty: () => empty(tm("favourites.empty"), tm("favourites.empty.text")),
  });
}
