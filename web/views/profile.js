// A profile: who it is, what is between the two, and what they wrote, liked, and whom they know.

import { bidi, button, h } from "../dom.js";
import { count, day } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm, tmNodes } from "../i18n/more.js";
import { moreIcon } from "../more-icons.js";
import { PostPages } from "../post-pages.js";
import { changesVisibility, setRelation } from "../relations.js";
import { paths } from "../router.js";
import { addToLists } from "../components/add-to-lists.js";
import { avatar } from "../components/avatar.js";
import { commentRow } from "../components/comment-row.js";
import { Feed } from "../components/feed.js";
import { openMenu } from "../components/menu.js";
import { PagedList } from "../components/paged-list.js";
import { peopleList } from "../components/people-list.js";
import { notePins, PinnedPosts } from "../components/pins.js";
import { FOLLOWING, followButton, FREE, REQUESTED, toggleButton } from "../components/person.js";
import { reportItem } from "../components/report.js";
import { requestNotice, watchRequests } from "../components/requests.js";
import { empty, failure, showWhenSlow, skeletons } from "../components/states.js";
import { fillText } from "../components/text.js";
import { changeRelation, doWithUndo, muteForItem } from "../components/undo.js";
import { notFound } from "./not-found.js";

/** What is below the card: by the last part of the address. */
const TABS = {
  posts: postsOf,
  media: mediaOf,
  reposts: repostsOf,
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
  /** What is below the card. */
  let lists = TABS[tab](app, id, tab);
  const closeLists = () => {
    lists.feed?.close();
    lists.timeline?.close();
    lists.stop?.();
  };
  const replaceLists = (fresh) => {
    const hadFocus = lists.element.contains(document.activeElement) && document.activeElement.dataset.testid;
    closeLists();
    lists.element.replaceWith(fresh.element);
    lists = fresh;
    if (hadFocus) lists.element.querySelector(`[data-testid="${hadFocus}"]`)?.focus({ preventScroll: true });
  };
  const view = {
    title: app.client.people.get(id).name,
    get feed() {
      return lists.feed;
    },
    element: h("div", { class: "view" }, card, lists.element),
    ready: lists.ready,
    resume: () => lists.feed?.resume(),
    pause: () => lists.feed?.pause(),
    stop: () => {
      for (const stop of stops) stop();
      leave();
      closeLists();
    },
  };
  const { connection } = app.client;
  // The server ends the subscription when the profile can no longer be seen, or its lists.
  const join = () => connection.subscribe(`user:${id}`, { unsubscribed: () => load() });
  let leave = join();
  /** Only followers see the lists of a private account. */
  const showLists = (profile) => {
    const isClosed = profile.locked && !own && !profile.edges.following;
    if (!isClosed) lists.pinned?.read(profile.pinned);
    if (isClosed) return replaceLists({ element: closedLists(app, profile), isClosed });
    if (!lists.isClosed) return;
    replaceLists(TABS[tab](app, id, tab));
    lists.pinned?.read(profile.pinned);
    if (app.view === view) lists.feed?.resume();
    leave();
    leave = join();
  };
  const load = async () => {
    const { people } = app.client;
    const shown = card.childElementCount > 0 ? () => {} : showWhenSlow(card, () => skeletons(1, "person"));
    try {
      // Asked for together and shown together, so that nothing moves.
      const sharing = own ? null : connection.rpc("users.shared", { id, limit: NAMED }).catch(() => null);
      const profile = await connection.rpc("users.get", { id });
      people.add({ [id]: { id, name: profile.name, avatar: profile.avatar } });
      if (own) notePins(app, profile.pinned);
      view.title = profile.name;
      view.onTitle?.();
      const shared = await sharing;
      await shown();
      // The buttons are made anew: the focus stays on the one that was used.
      const focused = card.contains(document.activeElement) && document.activeElement.dataset.testid;
      show(app, card, profile, shared, tab);
      const same = focused && card.querySelector(`[data-testid="${focused}"]`);
      if (focused) (same ?? card.querySelector("[data-testid=follow]"))?.focus({ preventScroll: true });
      showLists(profile);
    } catch (error) {
      await shown();
      if (error.code !== 404) return card.replaceChildren(failure(error, load));
      view.title = t("not-found");
      view.onTitle?.();
      view.element.replaceChildren(h("section", { class: "card" }, notFound()));
    }
  };
  const stops = [
    app.relations.on((other, verb) => {
      if (other !== id) return;
      load();
      // Feeds read themselves anew, other lists do not.
      if (lists.feed || lists.isClosed || !changesVisibility(verb)) return;
      replaceLists(TABS[tab](app, id, tab));
    }),
    own ? () => {} : watchRequests(app, ["request", "accepted", "follow"], id, load),
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
  const { feed, element } = feedOf(app, timeline, tm("profile.posts"), tm(own ? "profile.empty.own" : "profile.empty"));
  const pinned = new PinnedPosts(app);
  const publication = ({ data }) => pinned.apply(data);
  const leave = app.client.connection.subscribe(`user:${id}`, { publication });
  const stop = () => {
    leave();
    pinned.close();
  };
  return { timeline, feed, pinned, stop, element: h("div", { class: "view" }, pinned.element, element) };
}

function mediaOf(app, id) {
  return someOf(app, id, "media", ({ media }) => media?.length > 0);
}

function repostsOf(app, id) {
  return someOf(app, id, "reposts", ({ repost }) => Boolean(repost));
}

/** The posts of one kind. */
function someOf(app, id, only, isOne) {
  const timeline = app.client.openTimeline({ method: "users.posts", params: { id, only } });
  // The channel has the other posts, too.
  const stop = app.client.connection.subscribe(`user:${id}`, {
    publication: ({ data }) => (data.type !== "post" || isOne(data.post)) && timeline.apply(data),
    subscribed: ({ wasRecovering, recovered }) => wasRecovering && !recovered && timeline.reload(),
  });
  return { ...feedOf(app, timeline, tm(`profile.${only}`), tm(`profile.${only}.empty`)), stop };
}

function likesOf(app, id) {
  const timeline = new PostPages(app, { method: "users.likes", params: { id } });
  return feedOf(app, timeline, tm("profile.likes"), tm("profile.likes.empty"));
}

function commentsOf(app, id) {
  const load = async (cursor) => {
    const { connection, people } = app.client;
    const page = await connection.rpc("users.comments", { id, limit: 20, ...(cursor && { cursor }) });
    people.add(page.people);
    return { rows: page.items.map((comment) => commentRow(app, comment)), next: page.next ?? null };
  };
  const none = () => empty(tm("profile.comments.empty"), "");
  const { element, ready } = new PagedList(load, none, { testid: "comments-written", shape: "post" });
  return { element, ready };
}

function peopleOf(app, id, tab) {
  // The caller's own lists take no id.
  const params = tab === "friends" ? {} : { id };
  const followed = tab === "shared" || (id === app.session.user && tab !== "followers");
  const control = (person) => followed && followButton(app, person, FOLLOWING);
  const { element, ready } = peopleList(app, `users.${tab}`, params, tm(`${tab}.empty`), control);
  return { element, ready };
}

function show(app, card, profile, shared, tab) {
  const { id, name, bio, edges } = profile;
  const own = id === app.session.user;
  const hint = edges.blocking
    ? tm("profile.blocked")
    : edges.muting
      ? tm("profile.muted")
      : edges.hiding
        ? tm("profile.hidden")
        : "";
  const controls = own
    ? [
        // The bar of a phone has no room for them.
        h("a", { class: "button", href: paths.favourites(), "aria-label": t("favourites") }, icon("star")),
        h("a", { class: "button", href: paths.settings(), text: tm("profile.edit") }),
      ]
    : [
        !edges.blocking && (edges.following || edges.notify) && bell(app, profile),
        !edges.blocking && followButton(app, profile, followState(edges)),
        relationMenu(app, profile),
      ];
  const about = [
    edges.followed_by && !own && tm("profile.follows-you"),
    tm("profile.since", { date: day(profile.created_at) }),
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
        h("h2", { data: { testid: "profile-name" } }, bidi(name), profile.locked && lockIcon()),
        h("p", { class: "meta", text: `@${id}` }),
        h("p", { class: "meta", text: about.filter(Boolean).join(" · ") }),
      ),
      h("div", { class: "profile-buttons" }, ...controls.filter(Boolean)),
    ),
    ...(bio ? [bioOf(bio)] : []),
    figures(profile, tab, own),
    ...(shared?.items.length > 0 ? [sharedLine(id, shared)] : []),
    ...(edges.requested_by ? [requestNotice(app, profile)] : []),
    ...(hint ? [h("p", { class: "notice" }, h("span", { text: hint }))] : []),
    tabs(profile, tab),
  );
}

const followState = ({ following, requested }) => (following ? FOLLOWING : requested ? REQUESTED : FREE);

function lockIcon() {
  const properties = { class: "lock", role: "img", "aria-label": tm("locked"), title: tm("locked") };
  return h("span", { ...properties, data: { testid: "lock" } }, moreIcon("lock"));
}

/** Stands for the lists of a private account, for those who do not follow it. */
function closedLists(app, profile) {
  const { edges } = profile;
  const text = edges.blocking ? "" : tm(edges.requested ? "locked.requested" : "locked.ask");
  const follow = !edges.blocking && followButton(app, profile, followState(edges));
  return h("section", { class: "card", data: { testid: "locked" } }, empty(t("error.locked"), text, follow));
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
  const links = ["posts", "media", "reposts", "comments", "likes"].map((key) =>
    h(
      "a",
      {
        href: paths.user(id, key === "posts" ? "" : key),
        "aria-current": tab === key ? "page" : null,
        data: { testid: `tab-${key}` },
      },
      tm(`profile.${key}`),
      key === "posts" && h("span", { class: "meta", text: ` ${count(posts)}` }),
    ),
  );
  return h("nav", { class: "tab-bar", "aria-label": t("profile") }, ...links);
}

/** "Followed by Ann, Bo and others you follow". */
function sharedLine(id, { items, next }) {
  const [first, second] = items.map((person) => h("a", { href: paths.user(person.id) }, bidi(person.name)));
  const others = h("a", { href: paths.user(id, "shared"), text: tm("shared.others") });
  const key = next ? "shared.many" : second ? "shared.two" : "shared.one";
  return h("p", { class: "meta", data: { testid: "shared" } }, ...tmNodes(key, { first, second, others }));
}

/** Asks for a push with each post of an author. */
function bell(app, { id, name, edges }) {
  return toggleButton(app, { id }, {
    state: Number(edges.notify),
    states: [
      { text: "", label: tm("notify.name", { name }), verb: "notify" },
      { text: "", label: tm("unnotify.name", { name }), verb: "unnotify" },
    ],
    drawing: "bell",
    testid: "bell",
    changed: (state) => app.toast(tm(state ? "notify.done" : "relation.undone", { name })),
  });
}

function relationMenu(app, profile) {
  const { id, name, edges } = profile;
  const change = (verb) => changeRelation(app, verb, { id, name });
  const choice = (on, verb, undo, hint) =>
    on
      ? { label: tm(`${undo}.name`, { name }), testid: undo, run: () => change(undo) }
      : {
          label: tm(`${verb}.name`, { name }),
          hint: tm(hint),
          testid: verb,
          run: () => change(verb),
        };
  const block = edges.blocking
    ? { label: tm("unblock.name", { name }), testid: "unblock", run: () => change("unblock") }
    : {
        label: tm("block.name", { name }),
        hint: tm("block.hint"),
        danger: true,
        confirm: tm("block.sure"),
        testid: "block",
        run: () => change("block"),
      };
  const verb = edges.reposts_off ? "reposts_on" : "reposts_off";
  const reposts = (edges.following || edges.reposts_off) && {
    label: tm(`${verb}.name`, { name }),
    hint: edges.reposts_off ? "" : tm("reposts_off.hint"),
    testid: verb,
    run: () => change(verb),
  };
  const remove = edges.followed_by && {
    label: tm("follower.remove", { name }),
    hint: tm("follower.remove.hint"),
    confirm: tm("follower.remove.sure"),
    testid: "remove-follower",
    run: () =>
      doWithUndo(app, () => setRelation(app, "remove_follower", id), tm("follower.removed", { name })),
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
          !edges.blocking && {
            label: tm("lists.add-to"),
            testid: "add-to-lists",
            run: () => addToLists(app, name, { user: id }),
          },
          choice(edges.muting, "mute", "unmute", "mute.hint"),
          !edges.muting && muteForItem(app, element, { id, name }),
          choice(edges.hiding, "hide", "unhide", "hide.hint"),
          reposts,
          remove,
          reportItem(app, { user: id }),
          block,
        ]),
    },
    icon("more"),
  );
  return element;
}
