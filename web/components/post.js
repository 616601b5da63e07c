// A post: an article beside the rail.

import { bidi, button, h, setText, show } from "../dom.js";
import { count, timeElement } from "../format.js";
import { icon } from "../icons.js";
import { t, tNodes } from "../i18n/index.js";
import { paths } from "../router.js";
import { audienceName } from "./audience.js";
import { avatarLink } from "./avatar.js";
import { coverOf } from "./filtered.js";
import { LikeControl } from "./like.js";
import { linkCard } from "./link-card.js";
import { mediaGrid } from "./media.js";
import { quoteCard } from "./quote.js";
import { messageOf, removalText } from "./states.js";
import { fillText, showWhole } from "./text.js";

/** What a timeline's entry looks like; also the post on top of a thread. */
export class PostCard {
  #app;
  #timeline;
  #entry = null;
  #shownPerson = null;
  #favourite = null;
  /** Names the users who reposted it. */
  #passed = h("p", { class: "passed", hidden: true, data: { testid: "passed" } }, icon("repost"), h("span"));
  /** Names the topic that brought it. */
  #via = h("p", { class: "passed", data: { testid: "via" } });
  #head = h("header", { class: "post-head" });
  #text = h("p", { class: "text", dir: "auto", data: { testid: "post-body" } });
  #more = h("div");
  #actions = h("div", { class: "actions" });
  #problem = h("div", { class: "notice", hidden: true });
  #cover;
  #like;
  #comments;
  #repost;
  #star;
  element;

  constructor(app, entry, timeline = null) {
    this.#app = app;
    this.#timeline = timeline;
    this.element = h("article", { class: "post", tabindex: -1, data: { testid: "post" } });
    this.#cover = coverOf(app, this.element);
    const covered = [this.#text, this.#more, this.#actions];
    const parts = [this.#via, this.#passed, this.#head, this.#cover.element, ...covered, this.#problem];
    this.element.append(h("div", { class: "post-main" }, ...parts));
    this.element.addEventListener("click", (event) => this.#open(event));
    this.update(entry);
  }

  /** The post on top of its thread is not cut. */
  showWhole() {
    showWhole(this.#text, this.#entry.post);
  }

  /** Shows an entry, of a repost the post. What did not change is not touched, so focus and selection stay. */
  update(entry) {
    const outer = entry.post;
    const post = this.#postOf(outer);
    entry = { ...entry, id: post.id, post, outer };
    const before = this.#entry;
    this.#entry = entry;
    const person = this.#app.client.people.get(post.author);
    const anew = !before || before.id !== entry.id || before.state !== entry.state;
    if (
      anew ||
      this.#shownPerson !== person ||
      before.post.visibility !== post.visibility ||
      before.post.edited_at !== post.edited_at
    ) {
      this.#showHead(post, person);
    }
    if (!before || before.post.text !== post.text || String(before.post.mentions) !== String(post.mentions))
      fillText(this.#text, post);
    this.#showPassed(outer);
    if (!before || before.outer.via?.topic !== outer.via?.topic) this.#showVia(outer.via);
    this.#cover.update(outer.filtered ?? post.filtered);
    const extras = ({ media, data }) => JSON.stringify([media, data]);
    if (!before || extras(before.post) !== extras(post) || before.post.quote !== post.quote) this.#showMore(post);
    if (anew) this.#showActions(entry);
    if (entry.state === "stored") this.#showFigures(post);
    this.#showProblem(entry);
  }

  /** The post that a post shows. One's own repost says that it is reposted. */
  #postOf({ repost, author, reposted_by: { people } = {}, ...post }) {
    const me = this.#app.session?.user;
    const isOwn = (repost && author === me) || people?.includes(me);
    return { ...(repost ?? { ...post, author }), ...(isOwn && { reposted: true }) };
  }

  #showPassed({ repost, author, reposted_by: { people = [], count: others = 0 } = {} }) {
    const first = repost ? author : people[0];
    show(this.#passed, Boolean(first));
    if (!first) return;
    const name = h("a", { href: paths.user(first) }, bidi(this.#app.client.people.get(first).name));
    const n = repost ? others : others - 1;
    const words = h("span", {}, ...tNodes(n > 0 ? "reposted.many" : "reposted.one", { name, n }));
    if (words.textContent !== this.#passed.lastChild.textContent) this.#passed.lastChild.replaceWith(words);
  }

  #showVia(via) {
    show(this.#via, Boolean(via));
    if (!via) return;
    const name = h("a", { href: paths.topic(via.topic) }, bidi(`#${via.topic}`));
    this.#via.replaceChildren(icon("hash"), h("span", {}, ...tNodes("via.topic", { name })));
  }

  #showHead(post, person) {
    this.#shownPerson = person;
    const { id, state } = this.#entry;
    const { element } = this;
    element.dataset.id = String(id || "");
    if (state === "stored") delete element.dataset.pending;
    else element.dataset.pending = state;
    const old = element.querySelector(":scope > .avatar");
    const face = avatarLink(person);
    if (old) old.replaceWith(face);
    else element.prepend(face);
    element.setAttribute("aria-label", t("post.by", { name: person.name }));
    const audience = post.visibility && post.visibility !== "public" ? audienceName(post.visibility) : null;
    const when = timeElement(post.created_at);
    this.#head.replaceChildren(
      h(
        "span",
        { class: "names" },
        h("a", { class: "author", href: paths.user(post.author) }, bidi(person.name)),
        h("span", { class: "handle", text: `@${post.author}` }),
      ),
      ...(audience ? [h("span", { class: "tag", text: audience })] : []),
      ...(post.edited_at ? [h("span", { text: t("edited") })] : []),
      id
        ? h("a", { class: "when", href: paths.post(id), data: { testid: "permalink" } }, when)
        : h("span", { class: "when", text: t(state === "failed" ? "unsent" : "sending") }),
    );
  }

  #showMore(post) {
    const open = async (...picture) => (await this.#app.secondScript())?.openLightbox(...picture);
    const media = post.media?.length ? mediaGrid(post.media, open) : null;
    const { location } = post;
    const words = location && (location.name || `${location.lat.toFixed(3)}, ${location.lon.toFixed(3)}`);
    const place = words && h("span", { class: "place" }, icon("pin"), bidi(words));
    const quote = post.quote && quoteCard(this.#app, post.quote);
    this.#more.replaceChildren(...[media, linkCard(post.data?.link), place, quote].filter(Boolean));
  }

  #showActions({ post, state }) {
    if (state !== "stored") return this.#actions.replaceChildren();
    this.#like = new LikeControl(this.#app.client.likes, post);
    this.#comments = h("span", { class: "number" });
    this.#repost = button(
      { class: "action repost", data: { testid: "repost" }, onclick: () => this.#toggleRepost() },
      icon("repost"),
      h("span", { class: "number" }),
    );
    this.#star = button(
      {
        class: "action star",
        data: { testid: "favourite" },
        onclick: () => this.#toggleFavourite(),
      },
      icon("star"),
    );
    const more = button(
      {
        class: "action",
        "aria-label": t("more"),
        "aria-haspopup": "menu",
        "aria-expanded": "false",
        data: { testid: "more" },
        onclick: () => this.#openMenu(more),
      },
      icon("more"),
    );
    const thread = h(
      "a",
      { class: "action comments", href: paths.post(post.id), data: { testid: "comments" } },
      icon("comment"),
      this.#comments,
    );
    this.#actions.replaceChildren(this.#like.element, thread, this.#repost, this.#star, more);
    this.element.querySelector(".post-main > .notice[data-testid=reverted]")?.remove();
    this.#actions.after(this.#like.notice);
  }

  #toggleFavourite() {
    const { post } = this.#entry;
    const { favourites } = this.#app;
    favourites.toggle(post);
    const undo = () => favourites.has(post) || favourites.toggle(post);
    if (!favourites.has(post)) this.#app.toast(t("favourite.removed"), undo);
  }

  #toggleRepost() {
    const { post } = this.#entry;
    const { reposts } = this.#app;
    if (!this.#isOpen(post)) return this.#app.toast(t("repost.closed"));
    reposts.toggle(post, post.reposts);
    const wanted = reposts.has(post);
    const undo = () => reposts.has(post) === wanted && this.#toggleRepost();
    this.#app.toast(t(wanted ? "repost.done" : "repost.undone"), undo);
  }

  /** Whether the reader may repost it by its visibility: public posts, and one's own. */
  #isOpen({ author, visibility: { not_to: exceptions } = {}, visibility }) {
    return author === this.#app.session.user || visibility === "public" || Boolean(exceptions);
  }

  async #openMenu(anchor) {
    const second = await this.#app.secondScript();
    const { post, outer } = this.#entry;
    if (anchor.isConnected) second?.postMenu(this.#app, anchor, post, this.#timeline, this.#shownPerson, outer);
  }

  #showFigures(post) {
    this.#like.update(post);
    setText(this.#comments, post.comments > 0 ? count(post.comments) : "");
    this.#comments.parentElement.setAttribute("aria-label", t("comments", { n: post.comments }));
    const { reposts } = this.#app;
    const [isPassed, n] = [reposts.has(post), reposts.count(post, post.reposts)];
    const isOpen = isPassed || this.#isOpen(post);
    const label = isOpen ? `${t(isPassed ? "unrepost" : "repost")}, ${t("reposts", { n })}` : t("repost.closed");
    setText(this.#repost.lastChild, n > 0 ? count(n) : "");
    this.#repost.setAttribute("aria-label", label);
    this.#repost.setAttribute("aria-pressed", String(isPassed));
    this.#repost.setAttribute("aria-disabled", String(!isOpen));
    this.#repost.title = isOpen ? "" : label;
    const favourite = this.#app.favourites.has(post);
    if (favourite === this.#favourite && this.#star.hasAttribute("aria-pressed")) return;
    this.#favourite = favourite;
    this.#star.setAttribute("aria-pressed", String(favourite));
    this.#star.setAttribute("aria-label", t(favourite ? "favourite.remove" : "favourite.add"));
  }

  #showProblem({ key, state, error, post: { removed } }) {
    const failed = state === "failed";
    const kept = state === "pending" && this.#app.line.state.name !== "live";
    const note = kept ? t("post.kept") : removed && removalText(removed);
    show(this.#problem, failed || Boolean(note));
    if (note) this.#problem.replaceChildren(h("span", { text: note, dir: "auto" }));
    if (!failed) return;
    this.#problem.replaceChildren(
      h("span", { text: t("post.failed", { why: messageOf(error) }) }),
      button({ text: t("retry"), onclick: () => this.#timeline.retry(key) }),
      button({
        text: t("post.back"),
        data: { testid: "put-back" },
        onclick: () => {
          const { quote } = this.#entry.post;
          this.#app.restoreDraft(() => ({ ...this.#timeline.discard(key), quote }));
        },
      }),
    );
  }

  /** A click on the body opens the thread, as its time does; not one on a control, nor the end of a selection. */
  #open(event) {
    const { id } = this.#entry;
    if (!id || event.defaultPrevented || event.target.closest("a, button, video, audio, .notice")) return;
    if (String(getSelection()) !== "" || this.element.classList.contains("thread-post")) return;
    this.#app.router.go(paths.post(id));
  }
}
