// A profile: who it is, what is between the two, and what they wrote, liked, and whom they know.

import { bidi, button, h } from "../dom.js";
import { count, day } from "../format.js";
import { icon } from "../icons.js";
import { t, tNodes } from "../i18n/index.js";
import { PostPages } from "../post-pages.js";
import { changesVisibility } from "../relations.js";
import { paths } from "../router.js";
import { avatar } from "../components/avatar.js";
import { commentRow } from "../components/comment-row.js";
import { Feed } from "../components/feed.js";
import { openMenu } from "../components/menu.js";
import { PagedList } from "../components/paged-list.js";
import { peopleList } from "../components/people-list.js";
import { followButton, toggleButton } from "../components/person.js";
import { reportItem } from "../components/report.js";
import { empty, failure, showWhenSlow, skeletons } from "../components/states.js";
import { fillText } from "../components/text.js";
import { changeRelation } from "../components/undo.js";
import { notFound } from "./not-found.js";

/** What is below the card: by the last part of the address. */
const TABS = {
  posts: postsOf,
  comments: commentsOf,
  likes: likesOf,
  followers: peopleOf,
  following: peopleOf,
  shared: peopleOf,
  friends: peopleOf,
};
/** How many of those who are followed by both are named. */
const NAMED = 2;

export function profileView(app, { id, tab }) {
  const own = id === app.session.user;
  if (!Object.hasOwn(TABS, tab) || (tab === "friends" && !own) || (tab === "shared" && own))
    return { title: t("not-found"), element: h("div", { class: "view" }, h("section", { class: "card" }, notFound())) };
  const card = h("section", { class: "card profile", "aria-busy": "true", data: { testid: "profile" } });
  card.style.minHeight = "209px";
  const { element, feed, timeline, ready } = TABS[tab](app, id, tab);
  const view = {
    title: app.client.people.get(id).name,
    feed,
    element: h("div", { class: "view" }, card, element),
    ready,
    resume: () => feed?.resume(),
    pause: () => feed?.pause(),
    stop: () => {
      for (const stop of stops) stop();
      feed?.close();
      timeline?.close();
    },
  };
  const load = async () => {
    const { connection, people } = app.client;
    const shown = card.childElementCount > 0 ? () => {} : showWhenSlow(card, () => skeletons(1, "person"));
    try {
      // Asked for together and shown together, so that nothing moves.
      const sharing = own ? null : connection.rpc("users.shared", { id, limit: NAMED }).catch(() => null);
      const profile = await connection.rpc("users.get", { id });
      people.add({ [id]: { id, name: profile.name, avatar: profile.avatar } });
      view.title = profile.name;
      view.onTitle?.();
      const shared = await sharing;
      await shown();
      // The buttons are made anew: the focus stays on the one that was used.
      const focused = card.contains(document.activeElement) && document.activeElement.dataset.testid;
      show(app, card, profile, shared, tab);
      if (focused) card.querySelector(`[data-testid="${focused}"]`)?.focus({ preventScroll: true });
    } catch (error) {
      await shown();
      if (error.code !== 404) return card.replaceChildren(failure(error, load));
      view.title = t("not-found");
      view.onTitle?.();
      view.element.replaceChildren(h("section", { class: "card" }, notFound()));
    }
  };
  const { connection } = app.client;
  const stops = [
    app.relations.on((other, verb) => {
      if (other !== id) return;
      load();
      // Feeds read themselves anew, other lists do not.
      if (feed || !changesVisibility(verb)) return;
      const { element: fresh } = TABS[tab](app, id, tab);
      view.element.lastChild.replaceWith(fresh);
    }),
    // The server ends the subscription when the profile can no longer be seen.
    connection.subscribe(`user:${id}`, { unsubscribed: load }),
  ];
  load();
  return view;
}

function feedOf(app, timeline, label, none) {
  const feed = new Feed(app, timeline, { label, empty: () => empty(none, "") });
  return { timeline, feed, element: feed.element };
}

function postsOf(app, id) {
  const timeline = app.client.openTimeline({ method: "users.posts", params: { id }, channel: `user:${id}` });
  const own = id === app.session.user;
  return feedOf(app, timeline, t("profile.posts"), t(own ? "profile.empty.own" : "profile.empty"));
}

function likesOf(app, id) {
  const timeline = new PostPages(app, { method: "users.likes", params: { id } });
  return feedOf(app, timeline, t("profile.likes"), t("profile.likes.empty"));
}

function commentsOf(app, id) {
  const load = async (cursor) => {
    const { connection, people } = app.client;
    const page = await connection.rpc("users.comments", { id, limit: 20, ...(cursor && { cursor }) });
    people.add(page.people);
    return { rows: page.items.map((comment) => commentRow(app, comment)), next: page.next ?? null };
  };
  const none = () => empty(t("profile.comments.empty"), "");
  const { element, ready } = new PagedList(load, none, { testid: "comments-written", shape: "post" });
  return { element, ready };
}

function peopleOf(app, id, tab) {
  // The caller's own lists take no id.
  const params = tab === "friends" ? {} : { id };
  const followed = tab === "shared" || (id === app.session.user && tab !== "followers");
  const control = (person) => followed && followButton(app, person, true);
  const { element, ready } = peopleList(app, `users.${tab}`, params, t(`${tab}.empty`), control);
  return { element, ready };
}

function show(app, card, profile, shared, tab) {
  const { id, name, bio, edges } = profile;
  const own = id === app.session.user;
  const hint = edges.blocking
    ? t("profile.blocked")
    : edges.muting
      ? t("profile.muted")
      : edges.hiding
        ? t("profile.hidden")
        : "";
  const controls = own
    ? [
        // The bar of a phone has no room for them.
        h("a", { class: "button", href: paths.favourites(), "aria-label": t("favourites") }, icon("star")),
        h("a", { class: "button", href: paths.settings(), text: t("profile.edit") }),
      ]
    : [
        !edges.blocking && (edges.following || edges.notify) && bell(app, profile),
        !edges.blocking && followButton(app, profile, edges.following),
        relationMenu(app, profile),
      ];
  const about = [
    edges.followed_by && !own && t("profile.follows-you"),
    t("profile.since", { date: day(profile.created_at) }),
  ];
  card.removeAttribute("aria-busy");
  card.replaceChildren(
    h(
      "div",
      { class: "profile-top" },
      avatar(profile, "huge"),
      h(
        "div",
        { class: "profile-name" },
        h("h2", { data: { testid: "profile-name" } }, bidi(name)),
        h("p", { class: "meta", text: `@${id}` }),
        h("p", { class: "meta", text: about.filter(Boolean).join(" · ") }),
      ),
      h("div", { class: "profile-buttons" }, ...controls.filter(Boolean)),
    ),
    ...(bio ? [bioOf(bio)] : []),
    figures(profile, tab, own),
    ...(shared?.items.length > 0 ? [sharedLine(id, shared)] : []),
    ...(hint ? [h("p", { class: "notice" }, h("span", { text: hint }))] : []),
    tabs(profile, tab),
  );
}

function bioOf(bio) {
  const element = h("p", { class: "bio", dir: "auto", data: { testid: "bio" } });
  fillText(element, { text: bio });
  return element;
}

function figures({ id, followers, following }, tab, own) {
  const figure = (key, n) => {
    const properties = { href: paths.user(id, key), "aria-current": tab === key ? "page" : null };
    const number = n === undefined ? [] : [h("strong", { text: count(n) }), " "];
    return h("a", { ...properties, data: { testid: `figure-${key}` } }, ...number, t(`figure.${key}`, { n: n ?? 0 }));
  };
  const all = [figure("followers", followers), figure("following", following)];
  return h("p", { class: "figures" }, ...all, own && figure("friends"));
}

function tabs({ id, posts }, tab) {
  const links = ["posts", "comments", "likes"].map((key) =>
    h(
      "a",
      {
        href: paths.user(id, key === "posts" ? "" : key),
        "aria-current": tab === key ? "page" : null,
        data: { testid: `tab-${key}` },
      },
      t(`profile.${key}`),
      key === "posts" && h("span", { class: "meta", text: ` ${count(posts)}` }),
    ),
  );
  return h("nav", { class: "tab-bar", "aria-label": t("profile") }, ...links);
}

/** "Followed by Ann, Bo and others you follow". */
function sharedLine(id, { items, next }) {
  const [first, second] = items.map((person) => h("a", { href: paths.user(person.id) }, bidi(person.name)));
  const others = h("a", { href: paths.user(id, "shared"), text: t("shared.others") });
  const key = next ? "shared.many" : second ? "shared.two" : "shared.one";
  return h("p", { class: "meta", data: { testid: "shared" } }, ...tNodes(key, { first, second, others }));
}

/** Asks for a push with each post of an author. */
function bell(app, { id, name, edges }) {
  return toggleButton(app, { id }, {
    on: edges.notify,
    states: [
      { text: "", label: t("notify.name", { name }), verb: "notify" },
      { text: "", label: t("unnotify.name", { name }), verb: "unnotify" },
    ],
    drawing: "bell",
    testid: "bell",
    changed: (on) => app.toast(t(on ? "notify.done" : "relation.undone", { name })),
  });
}

function relationMenu(app, profile) {
  const { id, name, edges } = profile;
  const change = (verb) => changeRelation(app, verb, { id, name });
  const choice = (on, verb, undo, hint) =>
    on
      ? { label: t(`${undo}.name`, { name }), testid: undo, run: () => change(undo) }
      : {
          label: t(`${verb}.name`, { name }),
          hint: t(hint),
          testid: verb,
          run: () => change(verb),
        };
  const block = edges.blocking
    ? { label: t("unblock.name", { name }), testid: "unblock", run: () => change("unblock") }
    : {
        label: t("block.name", { name }),
        hint: t("block.hint"),
        danger: true,
        confirm: t("block.sure"),
        testid: "block",
        run: () => change("block"),
      };
  const element = button(
    {
      class: "button",
      "aria-label": t("more"),
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      data: { testid: "relations" },
      onclick: () =>
        openMenu(element, t("more"), [
          choice(edges.muting, "mute", "unmute", "mute.hint"),
          choice(edges.hiding, "hide", "unhide", "hide.hint"),
          reportItem(app, { user: id }),
          block,
        ]),
    },
    icon("more"),
  );
  return element;
}
