// The frame around the views: navigation, the head, the right column, and the bars of a phone.

import { bidi, button, h, setText, show } from "../dom.js";
import { refreshTimes } from "../format.js";
import { icon, mark } from "../icons.js";
import { t } from "../i18n/index.js";
import { changesVisibility } from "../relations.js";
import { paths } from "../router.js";
import { avatar } from "./avatar.js";
import { LineCard, lineNote, LinePill, lineWord } from "./line-card.js";
import { openMenu } from "./menu.js";
import { SuggestionsPanel, TopicsPanel } from "./panels.js";

const SCROLL_PX = 24;
const ROOTS = ["home", "list", "explore", "notifications", "topics", "favourites", "settings"];

export class Shell {
  #app;
  #stops = [];
  #links = [];
  #badges = [];
  #dots = [];
  #title = h("h1", { tabindex: -1, id: "title" });
  #back;
  #headMe;
  #place = h("div", { id: "view" });
  /** On phones: writes a post, or a comment in a thread. */
  #fab;
  #me;
  #panels;
  #announced = "";
  #shownWaiting = 0;
  element;

  constructor(app) {
    this.#app = app;
    const line = new LineCard(app);
    const pill = new LinePill(app);
    this.#panels = [new SuggestionsPanel(app), new TopicsPanel(app)];
    this.#back = button({ class: "icon-button", "aria-label": t("back"), onclick: () => history.back() }, icon("back"));
    this.#headMe = this.#account("head-me", { "aria-label": t("account") });
    const head = h("header", { class: "head" }, this.#back, this.#headMe, this.#title, pill.element);
    const main = h("main", { id: "main", tabindex: -1, "aria-labelledby": "title" }, head, app.banner?.(), this.#place);
    const right = h(
      "aside",
      { class: "right", "aria-label": t("aside") },
      line.element,
      ...this.#panels.map((panel) => panel.element),
    );
    const write = () => (app.view.write ? app.view.write() : app.composeDialog());
    this.#fab = button({ class: "fab", data: { testid: "fab" }, onclick: write }, icon("pen"));
    this.element = h("div", { class: "frame" }, this.#side(), main, right, this.#tabs(), this.#fab);
    const { notifications, readMarker, timeline } = app.client;
    this.#stops = [
      notifications.on("change", () => this.#showBadge()),
      timeline.on("change", () => this.#announceWaiting()),
      readMarker.on("change", () => this.#showUnread()),
      app.line.on(() => this.#announceLine()),
      app.relations.on((id, verb) => changesVisibility(verb) && this.#panels[0].refresh({ anyway: true })),
      whileScrolling((isDown) => this.#fab.toggleAttribute("data-away", isDown)),
      () => line.close(),
      () => pill.close(),
    ];
    this.showMe();
    this.#showBadge();
    this.#showUnread();
    document.querySelector(".skip").textContent = t("skip");
  }

  close() {
    for (const stop of this.#stops) stop();
    this.element.remove();
  }

  showMe() {
    const me = this.#app.me();
    this.#headMe.replaceChildren(avatar(me, "small"));
    this.#me.replaceChildren(
      avatar(me, "small"),
      h(
        "span",
        { class: "me-name" },
        h("strong", { data: { testid: "my-name" } }, bidi(me.name)),
        h("span", { class: "meta", text: `@${me.id}`, data: { testid: "my-id" } }),
      ),
    );
  }

  /** Puts a view into the frame; the focus goes to its title. */
  showView(view, route) {
    const before = this.#place.firstChild;
    this.element.dataset.route = route.name;
    this.#fab.setAttribute("aria-label", t(route.name === "post" ? "comment.write" : "compose.title"));
    this.#fab.removeAttribute("data-away");
    setText(this.#title, view.title);
    view.onTitle = () => {
      if (this.#app.view !== view) return;
      setText(this.#title, view.title);
      this.#app.setBadge();
    };
    // A view that was kept has the times of when it was left.
    refreshTimes(view.element);
    if (before !== view.element) this.#place.replaceChildren(view.element);
    const own = route.name === "user" && route.params.id === this.#app.session.user;
    show(this.#back, !ROOTS.includes(route.name) && !own);
    for (const [name, link] of this.#links) {
      const current =
        name === route.name ||
        (name === "profile" && own) ||
        (name === "topics" && route.name === "topic") ||
        (name === "explore" && route.name === "search") ||
        (name === "notifications" && route.name === "requests") ||
        (name === "home" && route.name === "list") ||
        (name === "settings" && ["push", "lists", "lists-one"].includes(route.name));
      if (current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const panel of this.#panels) panel.refresh();
    if (before) this.focusTitle();
  }

  focusTitle() {
    this.#title.focus({ preventScroll: true });
  }

  #side() {
    this.#me = this.#account("me", { title: t("account") });
    const post = button(
      {
        class: "button primary large post-button",
        data: { testid: "compose-open" },
        onclick: () => this.#app.compose(),
      },
      icon("pen"),
      h("span", { class: "label", text: t("post") }),
    );
    return h(
      "header",
      { class: "side" },
      h("a", { class: "brand", href: paths.home(), "aria-label": "Feedline" }, mark(), h("span", { text: "Feedline" })),
      h(
        "nav",
        { "aria-label": t("nav") },
        h("ul", {}, ...this.#items().map((item) => h("li", {}, this.#link(item, true)))),
      ),
      post,
      this.#me,
    );
  }

  #items() {
    return [
      ["home", "home", paths.home()],
      ["explore", "search", paths.explore()],
      ["notifications", "bell", paths.notifications()],
      ["topics", "hash", paths.topics()],
      ["favourites", "star", paths.favourites()],
      ["profile", "user", paths.user(this.#app.session.user)],
      ["settings", "gear", paths.settings()],
    ];
  }

  #tabs() {
    const items = this.#items().filter(([name]) => !["favourites", "settings"].includes(name));
    return h(
      "nav",
      { class: "tabs", "aria-label": t("nav") },
      h("ul", {}, ...items.map((item) => h("li", {}, this.#link(item, false)))),
    );
  }

  #link([name, drawing, href], labelled) {
    const badge =
      name === "notifications" ? h("span", { class: "badge", hidden: true, data: { testid: "badge" } }) : null;
    if (badge) this.#badges.push(badge);
    const dot = name === "home" ? h("span", { class: "dot", hidden: true, data: { testid: "unread" } }) : null;
    if (dot) this.#dots.push(dot);
    const link = h(
      "a",
      { href, title: t(name), data: { testid: labelled ? `nav-${name}` : `tab-${name}` } },
      icon(drawing),
      h("span", { class: labelled ? "label" : "hidden-visually", text: t(name) }),
      badge,
      dot,
    );
    this.#links.push([name, link]);
    return link;
  }

  #showBadge() {
    const { unread } = this.#app.client.notifications;
    for (const badge of this.#badges) {
      show(badge, unread > 0);
      setText(badge, unread > 99 ? "99+" : String(unread));
    }
  }

  /** A dot says that Home has posts that were not read. */
  #showUnread() {
    const { unread } = this.#app.client.readMarker;
    for (const dot of this.#dots) {
      show(dot, unread > 0);
      dot.replaceChildren(h("span", { class: "hidden-visually", text: t("home.unread", { n: unread }) }));
    }
  }

  /** New posts are announced in sum, and politely. */
  #announceWaiting() {
    const { waiting } = this.#app.client.timeline;
    if (waiting > this.#shownWaiting) this.#app.announce(t("new.posts", { n: waiting }));
    this.#shownWaiting = waiting;
  }

  /** Losing the connection and coming back are announced once each. */
  #announceLine() {
    const { line } = this.#app;
    const word = lineWord(line);
    if (word === this.#announced) return;
    const first = this.#announced === "";
    this.#announced = word;
    if (!first) this.#app.announce(`${word}. ${lineNote(line)}`);
  }

  /** A button that opens the menu of the account. */
  #account(name, properties) {
    const { router } = this.#app;
    const anchor = button({
      class: name,
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      data: { testid: name },
      onclick: () =>
        openMenu(anchor, t("account"), [
          { label: t("profile"), run: () => router.go(paths.user(this.#app.session.user)) },
          { label: t("favourites"), run: () => router.go(paths.favourites()) },
          { label: t("lists"), testid: "account-lists", run: () => router.go(paths.lists()) },
          { label: t("settings"), run: () => router.go(paths.settings()) },
          { label: t("account.other"), testid: "account-other", run: () => this.#app.changeAccount() },
          { label: t("sign-out"), testid: "sign-out", run: () => this.#app.signOut() },
        ]),
      ...properties,
    });
    return anchor;
  }
}

/** Says which way somebody scrolls, after a few lines. Returns a function that ends it. */
function whileScrolling(changed) {
  let last = scrollY;
  const scrolled = () => {
    if (Math.abs(scrollY - last) < SCROLL_PX) return;
    changed(scrollY > last && scrollY > 0);
    last = scrollY;
  };
  addEventListener("scroll", scrolled, { passive: true });
  return () => removeEventListener("scroll", scrolled);
}
