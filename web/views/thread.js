// A post with its thread, live: comments, counts, edits, and the end of it.

import { button, h, show } from "../dom.js";
import { t } from "../i18n/index.js";
import { CommentForm } from "../components/comment-form.js";
import { CommentCard } from "../components/comment.js";
import { PagedList } from "../components/paged-list.js";
import { PostCard } from "../components/post.js";
import { empty, failure, showWhenSlow, skeletons } from "../components/states.js";
import { notFound } from "./not-found.js";

const PAGE = 20;

export function threadView(app, { id }) {
  return new Thread(app, id);
}

class Thread {
  #app;
  #id;
  #post = null;
  #card = null;
  #comments = new Map();
  #list = null;
  /** "newest" or "oldest" first. */
  #order = "newest";
  #choice = null;
  /** Stands for the list that is shown. */
  #reading = null;
  #stops = [];
  /** The highest version of the counts that was shown. */
  #version = 0;
  #place = h("section", { class: "card feed thread", data: { testid: "thread" } });
  title = t("thread");
  element = h("div", { class: "view" }, this.#place);
  ready;

  constructor(app, id) {
    this.#app = app;
    this.#id = id;
    this.ready = this.#load();
  }

  stop() {
    for (const stop of this.#stops) stop();
  }

  /** For the keyboard: the post and the comments are steps. */
  get feed() {
    return { step: (by) => step(this.#place, by) };
  }

  async #load() {
    const { client } = this.#app;
    const fast = showWhenSlow(this.#place, () => skeletons(2));
    try {
      const post = await client.connection.rpc("posts.get", { id: this.#id, with: ["people", "likers"] });
      fast();
      client.people.add(post.people ?? {});
      this.#post = post;
      this.#show();
      this.#listen();
    } catch (error) {
      fast();
      this.#place.replaceChildren(error.code === 404 ? notFound() : failure(error, () => this.#load()));
    }
  }

  #show() {
    this.#card = new PostCard(this.#app, this.#entry());
    this.#card.element.classList.add("thread-post");
    const form = new CommentForm(this.#app, this.#id, null, (comment) => this.#arrived(comment));
    this.#list = this.#makeList();
    this.#place.replaceChildren(
      h("div", { class: "rail", "aria-hidden": "true" }),
      this.#card.element,
      form.element,
      this.#orderChoice(),
      this.#list.element,
    );
  }

  /** Buttons for the order of the comments; nothing to order below two. */
  #orderChoice() {
    const orders = ["newest", "oldest"];
    const buttons = orders.map((order) =>
      button({ text: t(`order.${order}`), data: { testid: `order-${order}` }, onclick: () => choose(order) }),
    );
    const mark = () =>
      orders.forEach((order, at) => buttons[at].setAttribute("aria-pressed", String(order === this.#order)));
    const choose = (order) => {
      if (order === this.#order) return;
      this.#order = order;
      mark();
      this.#comments.clear();
      const { element } = this.#list;
      this.#list = this.#makeList();
      element.replaceWith(this.#list.element);
    };
    mark();
    this.#choice = h("div", { class: "order", role: "group", "aria-label": t("order") }, ...buttons);
    this.#showChoice();
    return this.#choice;
  }

  #showChoice() {
    show(this.#choice, this.#post.comments > 1);
  }

  #entry() {
    return { key: String(this.#id), id: this.#id, post: this.#post, state: "stored" };
  }

  #makeList() {
    const reading = (this.#reading = {});
    const load = async (cursor) => {
      const { connection, people } = this.#app.client;
      const order = this.#order === "oldest" && { order: this.#order };
      const input = { id: this.#id, ...order, limit: PAGE, ...(cursor && { cursor }) };
      const page = await connection.rpc("comments.list", input);
      // Another order was chosen meanwhile.
      if (reading !== this.#reading) return { rows: [], next: null };
      people.add(page.people);
      const rows = page.items
        .filter((comment) => !this.#comments.has(comment.id))
        .map((comment) => this.#make(comment).element);
      return { rows, next: page.next ?? null };
    };
    const none = () => empty(t("thread.empty"), t("thread.empty.text"));
    const list = new PagedList(load, none, { testid: "comment-list" });
    list.element.classList.remove("card");
    return list;
  }

  #make(comment) {
    const card = new CommentCard(this.#app, comment, this.#post.author, this.#comments);
    this.#comments.set(comment.id, card);
    return card;
  }

  #listen() {
    const { client, favourites } = this.#app;
    const refresh = () => {
      this.#card.update(this.#entry());
      for (const card of this.#comments.values()) card.refresh();
    };
    let opened = false;
    this.#stops.push(
      client.likes.on("change", refresh),
      client.likes.on("settled", (settled) => this.#settled(settled)),
      client.people.on("change", refresh),
      favourites.on(refresh),
      client.connection.subscribe(`post:${this.#id}`, {
        publication: ({ data }) => this.#apply(data),
        // What was missed and cannot be recovered is read anew.
        subscribed: ({ recovered }) => {
          if (opened && !recovered) this.#reload();
          opened = true;
        },
      }),
    );
  }

  #reload() {
    this.stop();
    this.#stops = [];
    this.#comments.clear();
    this.ready = this.#load();
  }

  #apply(event) {
    if (event.type === "comment") {
      this.#app.client.people.add(event.people ?? {});
      this.#arrived(event.comment);
    } else if (event.type === "counts" && event.version >= this.#version) {
      this.#version = event.version;
      this.#change({ likes: event.likes, comments: event.comments });
    } else if (event.type === "edited" && event.comment) {
      this.#comments.get(event.comment.id)?.edited(event.comment);
    } else if (event.type === "edited") {
      const { liked, favourited } = this.#post;
      this.#change({ ...event.post, liked, favourited, people: undefined });
    } else if (event.type === "gone" && event.comment) this.#gone(event);
    else if (event.type === "gone") this.#place.replaceChildren(empty(t("thread.gone"), t("thread.gone.text")));
  }

  #settled({ id, liked, likes, version = this.#version }) {
    if (id === this.#id) this.#change({ liked, ...(version >= this.#version && { likes }) });
    else this.#comments.get(id)?.change({ liked, likes });
  }

  #change(change) {
    this.#post = { ...this.#post, ...change };
    this.#card.update(this.#entry());
    this.#showChoice();
  }

  /** A comment that was written here or elsewhere; it is shown once, whichever comes first. */
  #arrived(comment) {
    if (this.#comments.has(comment.id)) return;
    const under = comment.reply_to;
    const parent = under ? this.#comments.get(under) : null;
    if (parent) {
      parent.arrived(comment, () => this.#make(comment));
      return;
    }
    if (under) return;
    const card = this.#make(comment);
    // The oldest first: it has its place at the end, once that is read; one's own is shown at once.
    if (this.#order === "newest") this.#list.prepend(card.element);
    else if (this.#list.isAtEnd || comment.author === this.#app.session.user) this.#list.append(card.element);
    else this.#comments.delete(comment.id);
    if (comment.author !== this.#app.session.user) {
      this.#app.announce(t("comment.new", { name: this.#app.client.people.get(comment.author).name }));
    }
  }

  #gone({ comment: id, stays }) {
    const card = this.#comments.get(id);
    if (!card) return;
    if (stays) return card.clear();
    this.#comments.delete(id);
    card.element.remove();
  }
}

function step(place, by) {
  const all = [...place.querySelectorAll("article")];
  const at = all.findIndex(
    (one) =>
      one === document.activeElement ||
      (one.contains(document.activeElement) && !one.querySelector("article:focus-within")),
  );
  const next = all[at < 0 ? 0 : at + by];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "center" });
  return Boolean(next);
}
