// A profile: who it is, what is between the two, and their posts, followers and followees.

import { bidi, button, h } from "../dom.js";
import { count, moment } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { avatar } from "../components/avatar.js";
import { Feed } from "../components/feed.js";
import { openMenu } from "../components/menu.js";
import { followButton } from "../components/person.js";
import { empty, failure, messageOf } from "../components/states.js";
import { peopleList } from "./discover.js";
import { notFound } from "./not-found.js";

const TABS = ["posts", "followers", "following"];

export function profileView(app, { id, tab }) {
  if (!TABS.includes(tab))
    return { title: t("not-found"), element: h("div", { class: "view" }, h("section", { class: "card" }, notFound())) };
  const card = h("section", { class: "card profile", "aria-busy": "true", data: { testid: "profile" } });
  card.style.minHeight = "167px";
  const content = tab === "posts" ? postsOf(app, id) : { list: peopleList(app, `users.${tab}`, id, t(`${tab}.empty`)) };
  const view = {
    title: app.client.people.get(id).name,
    feed: content.feed,
    element: h("div", { class: "view" }, card, content.feed?.element ?? content.list.element),
    ready: content.list?.ready,
    resume: () => content.feed?.resume(),
    pause: () => content.feed?.pause(),
    stop: () => {
      content.feed?.close();
      content.timeline?.close();
    },
  };
  const load = async () => {
    try {
      const profile = await app.client.connection.rpc("users.get", { id });
      app.client.people.add({ [id]: { id, name: profile.name, avatar: profile.avatar } });
      view.title = profile.name;
      view.onTitle?.();
      show(app, card, profile, tab, load);
    } catch (error) {
      if (error.code !== 404) return card.replaceChildren(failure(error, load));
      view.title = t("not-found");
      view.onTitle?.();
      view.element.replaceChildren(h("section", { class: "card" }, notFound()));
    }
  };
  load();
  return view;
}

function postsOf(app, id) {
  const timeline = app.client.openTimeline({ method: "users.posts", params: { id }, channel: `user:${id}` });
  const own = id === app.session.user;
  const none = () => empty(t(own ? "profile.empty.own" : "profile.empty"), "");
  return { timeline, feed: new Feed(app, timeline, { label: t("profile.posts"), empty: none }) };
}

function show(app, card, profile, tab, reload) {
  const { id, name, edges } = profile;
  const own = id === app.session.user;
  const hint = edges.blocking
    ? t("profile.blocked")
    : edges.muting
      ? t("profile.muted")
      : edges.hiding
        ? t("profile.hidden")
        : "";
  const controls = own
    ? [h("a", { class: "button", href: paths.settings(), text: t("profile.edit") })]
    : [!edges.blocking && followButton(app, profile, edges.following, reload), relationMenu(app, profile, reload)];
  const figures = [
    ["posts", profile.posts],
    ["followers", profile.followers],
    ["following", profile.following],
  ].map(([key, n]) =>
    h(
      "a",
      {
        href: paths.user(id, key === "posts" ? "" : key),
        "aria-current": tab === key ? "page" : null,
        data: { testid: `figure-${key}` },
      },
      h("strong", { text: count(n) }),
      " ",
      t(`figure.${key}`, { n }),
    ),
  );
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
        h("p", {
          class: "meta",
          text: [
            edges.followed_by && !own && t("profile.follows-you"),
            t("profile.since", { date: moment(profile.created_at).split(",")[0] }),
          ]
            .filter(Boolean)
            .join(" · "),
        }),
      ),
      h("div", { class: "profile-buttons" }, ...controls.filter(Boolean)),
    ),
    h("p", { class: "figures" }, ...figures),
    ...(hint ? [h("p", { class: "notice" }, h("span", { text: hint }))] : []),
  );
}

function relationMenu(app, profile, reload) {
  const { id, name, edges } = profile;
  const relate = (method, done) =>
    app.client.connection.rpc(`users.${method}`, { id }).then(
      () => {
        app.toast(t(done, { name }));
        reload();
      },
      (error) => app.toast(messageOf(error)),
    );
  const choice = (on, verb, undo, hint) =>
    on
      ? { label: t(`${undo}.name`, { name }), testid: undo, run: () => relate(undo, "relation.undone") }
      : {
          label: t(`${verb}.name`, { name }),
          hint: t(hint),
          testid: verb,
          run: () => relate(verb, `${{ mute: "muted", hide: "hidden" }[verb]}.name`),
        };
  const block = edges.blocking
    ? { label: t("unblock.name", { name }), testid: "unblock", run: () => relate("unblock", "relation.undone") }
    : {
        label: t("block.name", { name }),
        hint: t("block.hint"),
        danger: true,
        confirm: t("block.sure"),
        testid: "block",
        run: () => relate("block", "blocked.name"),
      };
  const notify = edges.notify
    ? { label: t("unnotify.name", { name }), testid: "unnotify", run: () => relate("unnotify", "relation.undone") }
    : { label: t("notify.name", { name }), testid: "notify", run: () => relate("notify", "notify.done") };
  const element = button(
    {
      class: "button",
      "aria-label": t("more"),
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      data: { testid: "relations" },
      onclick: () =>
        openMenu(element, t("more"), [
          notify,
          choice(edges.muting, "mute", "unmute", "mute.hint"),
          choice(edges.hiding, "hide", "unhide", "hide.hint"),
          block,
        ]),
    },
    icon("more"),
  );
  return element;
}
