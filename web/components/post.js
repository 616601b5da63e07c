// A post: an article beside the rail.

import { bidi, button, h, setText, show } from "../dom.js";
import { count, timeElement } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { audienceName } from "./audience.js";
import { avatarLink } from "./avatar.js";
import { LikeControl } from "./like.js";
import { linkCard } from "./link-card.js";
import { mediaGrid } from "./media.js";
import { messageOf, removalText } from "./states.js";
import { fillText, showWhole } from "./text.js";

/** What a timeline's entry looks like; also the post on top of a thread. */
export class PostCard {
  #app;
  #timeline;
  #entry = null;
  #shownPerson = null;
  #favourite = null;
  #head = h("header", { class: "post-head" });
  #text = h("p", { class: "text", dir: "auto", data: { testid: "post-body" } });
  #more = h("div");
  #actions = h("div", { class: "actions" });
  #problem = h("div", { class: "notice", hidden: true });
  #like;
  #comments;
  #star;
  element;

  constructor(app, entry, timeline = null) {
    this.#app = app;
    this.#timeline = timeline;
    const main = h("div", { class: "post-main" }, this.#head, this.#text, this.#more, this.#actions, this.#problem);
    this.element = h("article", { class: "post", tabindex: -1, data: { testid: "post" } }, main);
    this.element.addEventListener("click", (event) => this.#open(event));
    this.update(entry);
  }

  /** The post on top of its thread is not cut. */
  showWhole() {
    showWhole(this.#text, this.#entry.post);
  }

  /** Shows an entry; what did not change is not touched, so focus and selection stay. */
  update(entry) {
    const { post } = entry;
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
    const extras = ({ media, data }) => JSON.stringify([media, data]);
    if (!before || extras(before.post) !== extras(post)) this.#showMore(post);
    if (anew) this.#showActions(entry);
    if (entry.state === "stored") this.#showFigures(post);
    this.#showProblem(entry);
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
    this.#more.replaceChildren(...[media, linkCard(post.data?.link), place].filter(Boolean));
  }

  #showActions({ post, state }) {
    if (state !== "stored") return this.#actions.replaceChildren();
    this.#like = new LikeControl(this.#app.client.likes, post);
    this.#comments = h("span", { class: "number" });
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
    this.#actions.replaceChildren(this.#like.element, thread, this.#star, more);
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

  async #openMenu(anchor) {
    const second = await this.#app.secondScript();
    if (anchor.isConnected) second?.postMenu(this.#app, anchor, this.#entry.post, this.#timeline, this.#shownPerson);
  }

  #showFigures(post) {
    this.#like.update(post);
    setText(this.#comments, post.comments > 0 ? count(post.comments) : "");
    this.#comments.parentElement.setAttribute("aria-label", t("comments", { n: post.comments }));
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
        onclick: () => this.#app.restoreDraft(() => this.#timeline.discard(key)),
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
