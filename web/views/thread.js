// A post with its thread, live: comments, counts, edits, and the end of it.

import { button, h, show } from "../dom.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { CommentForm } from "../components/comment-form.js";
import { CommentCard } from "../components/comment.js";
import { PagedList } from "../components/paged-list.js";
import { peopleDialog } from "../components/people-list.js";
import { PostCard } from "../components/post.js";
import { empty, failure, showWhenSlow, skeletons } from "../components/states.js";
import { changesVisibility } from "../relations.js";
import { paths } from "../router.js";
import { notFound } from "./not-found.js";

const PAGE = 20;

/** How long comments wait for the replies to them, so that these do not move what is read already. */
const UNFOLD_MS = 1_000;

/** The comments of a page that show replies by themselves: each costs a read of the reader's budget. */
const MAX_UNFOLDS = 40;

/** How many comments above the one to show are read. */
const MAX_DEPTH = 100;

/** `comment` is the one to show, with those above it. */
export function threadView(app, { id, comment }) {
  return new Thread(app, id, comment);
}

class Thread {
  #app;
  #id;
  #post = null;
  #target;
  #card = null;
  /** The form of a comment, or the sentence that stands for it, and the policy that says so. */
  #form = null;
  #closed = null;
  /**
   * What the comments share: the author of the post, whether the user may reply, the order ("newest" or "oldest"
   * first), the cards by id.
   */
  #thread = { author: "", mayReply: true, order: "oldest", all: new Map(), unfolds: 0 };
  #list = null;
  #choice = null;
  /** Stands for the list that is shown. */
  #reading = null;
  #stops = [];
  #stopRelations;
  /** The highest version of the counts that was shown. */
  #version = 0;
  /** The numbers of reposts and quotes, with links to their lists. */
  #passed = h("p", { class: "figures passed-figures" });
  #place = h("section", { class: "card feed thread", data: { testid: "thread" } });
  title = tm("thread");
  /** Goes to the form of a comment. */
  write = null;
  element = h("div", { class: "view" }, this.#place);
  ready;

  constructor(app, id, target) {
    this.#app = app;
    this.#id = id;
    this.#target = target;
    this.ready = this.#load();
    // A block takes the post or comments away, and may bring them back. Followers of the author may comment on more.
    const isOfAuthor = (user) => user === this.#post?.author;
    this.#stopRelations = app.relations.on((user, verb) => {
      if (changesVisibility(verb) || isOfAuthor(user)) this.#refresh();
    });
  }

  stop() {
    this.#stopRelations();
    this.#unlisten();
  }

  /** For the keyboard: the post and the comments are steps. */
  get feed() {
    return { step: (by) => step(this.#place, by) };
  }

  async #load() {
    const fast = showWhenSlow(this.#place, () => skeletons(2));
    try {
      this.#post = await this.#readPost();
      await fast();
      this.#show();
      this.#listen();
      if (this.#target) await this.#list.ready.then(() => this.#reveal(true));
    } catch (error) {
      await fast();
      if (error.code === 404) this.#end(notFound());
      else this.#place.replaceChildren(failure(error, () => this.#load()));
    }
  }

  /** Shows the comment that the address names, which may be on any page of any depth. */
  async #reveal(first) {
    const { all } = this.#thread;
    const reading = this.#reading;
    const chain = [];
    // One that is gone, or cannot be seen: the thread is shown as it is.
    for (let id = this.#target; id && chain.length < MAX_DEPTH; id = chain[0]?.reply_to) {
      const comment = await this.#readComment(id).catch(() => null);
      if (!comment) return;
      chain.unshift(comment);
    }
    if (!this.#card || reading !== this.#reading || chain[0].reply_to) return;
    const [root, ...replies] = chain;
    if (!all.has(root.id)) this.#list.prepend(this.#make(root).element);
    let card = all.get(root.id);
    for (const reply of replies) card = await card.open(reply);
    card.element.dataset.marked = "";
    if (!first) return;
    card.element.focus({ preventScroll: true });
    card.element.scrollIntoView({ block: "center" });
  }

  async #readComment(id) {
    const { connection, people } = this.#app.client;
    const page = await connection.rpc("comments.many", { ids: [id] });
    people.add(page.people);
    return page.items.find(({ post }) => post === this.#id);
  }

  async #readPost() {
    const { connection, people } = this.#app.client;
    const post = await connection.rpc("posts.get", { id: this.#id, with: ["people"] });
    people.add(post.people);
    // A repost has no thread: show that of the reposted post.
    if (!post.repost) return post;
    this.#id = post.repost.id;
    return post.repost;
  }

  #show() {
    this.#thread.author = this.#post.author;
    this.#card = new PostCard(this.#app, this.#entry());
    this.#card.element.classList.add("thread-post");
    this.#card.showWhole();
    this.#closed = null;
    this.#showPassed();
    this.#showForm();
    this.#list = this.#makeList();
    this.write = () => this.#form.focus();
    this.#place.replaceChildren(
      h("div", { class: "rail", "aria-hidden": "true" }),
      this.#card.element,
      this.#passed,
      this.#form.element ?? this.#form,
      this.#orderChoice(),
      this.#list.element,
    );
  }

  #showPassed() {
    const { id, reposts = 0, quotes = 0 } = this.#post;
    const who = () => peopleDialog(this.#app, tm("reposters"), "posts.reposters", { id }, tm("reposters.empty"));
    const [n, href] = [t("reposts", { n: reposts }), paths.post(id, "", "quotes")];
    const all = [
      reposts > 0 && button({ class: "link", text: n, data: { testid: "reposters" }, onclick: who }),
      quotes > 0 && h("a", { href, text: tm("quotes.n", { n: quotes }), data: { testid: "quotes" } }),
    ].filter(Boolean);
    show(this.#passed, all.length > 0);
    // What did not change keeps the focus.
    const text = (elements) => elements.map(({ textContent }) => textContent).join();
    if (text(all) !== text([...this.#passed.children])) this.#passed.replaceChildren(...all);
  }

  /** Shows the form of a comment; where the user may not comment, who can. */
  #showForm() {
    const { author, can_comment: may = true, comment_policy: policy } = this.#post;
    const closed = may ? "" : policy;
    if (closed === this.#closed) return;
    this.#closed = closed;
    this.#thread.mayReply = may;
    for (const card of this.#thread.all.values()) card.refresh();
    const before = this.#form?.element ?? this.#form;
    const hadFocus = before?.contains(document.activeElement);
    const { name } = this.#app.client.people.get(author);
    const sentence = () =>
      h("p", { class: "closed", tabindex: -1, text: tm(`closed.${closed}`, { name }), data: { testid: "closed" } });
    this.#form = may ? new CommentForm(this.#app, this.#id, null, (comment) => this.#arrived(comment)) : sentence();
    before?.replaceWith(this.#form.element ?? this.#form);
    if (hadFocus) this.#form.focus({ preventScroll: true });
  }

  /** Reads the post and the comments that are shown anew, in place: what is being written stays, and so does focus. */
  async #refresh() {
    if (!this.#card) return this.#load();
    const { connection } = this.#app.client;
    const reading = this.#reading;
    const before = new Set(this.#list.rows);
    try {
      const post = await connection.insist(() => this.#readPost());
      const { comments, next } = await connection.insist(() => this.#readShown());
      // The post ended meanwhile, or another order was chosen.
      if (reading !== this.#reading) return;
      this.#change({ removed: null, comment_policy: undefined, ...post });
      const { all } = this.#thread;
      const cards = comments.map((comment) => all.get(comment.id)?.reread(comment) ?? this.#make(comment));
      const rows = cards.map(({ element }) => element);
      const late = this.#list.rows.filter((row) => !before.has(row) && !rows.includes(row));
      this.#list.replace(this.#thread.order === "newest" ? [...late, ...rows] : [...rows, ...late], next);
      await Promise.all(cards.map((card) => card.rereading));
      for (const [id, { element }] of all) if (!this.#place.contains(element)) all.delete(id);
      if (this.#target && !all.has(this.#target)) await this.#reveal(false);
    } catch (error) {
      // Other errors leave what is shown: it is read again with the next connection.
      if (error.code === 404) this.#end(notFound());
    }
  }

  /** The comments on the post, at least as many as are shown. */
  async #readShown() {
    const wanted = this.#list.rows.length;
    const comments = [];
    let next = null;
    do {
      const page = await this.#readComments(next, 100);
      comments.push(...page.items);
      ({ next } = page);
    } while (next && comments.length < wanted);
    return { comments, next };
  }

  async #readComments(cursor, limit) {
    const { connection, people } = this.#app.client;
    const { order } = this.#thread;
    const page = await connection.rpc("comments.list", { id: this.#id, order, limit, ...(cursor && { cursor }) });
    people.add(page.people);
    return { items: page.items, next: page.next ?? null };
  }

  /** The post cannot be seen any more. */
  #end(note) {
    this.#unlisten();
    this.#card = this.#reading = this.write = null;
    this.#thread.all.clear();
    this.#place.replaceChildren(note);
  }

  /** Buttons for the order of the comments; nothing to order below two. */
  #orderChoice() {
    const orders = ["oldest", "newest"];
    const buttons = orders.map((order) =>
      button({ text: t(`order.${order}`), data: { testid: `order-${order}` }, onclick: () => choose(order) }),
    );
    const mark = () =>
      orders.forEach((order, at) => buttons[at].setAttribute("aria-pressed", String(order === this.#thread.order)));
    const choose = (order) => {
      if (order === this.#thread.order) return;
      this.#thread.order = order;
      mark();
      this.#thread.all.clear();
      const { element } = this.#list;
      this.#list = this.#makeList();
      element.replaceWith(this.#list.element);
    };
    mark();
    this.#choice = h("div", { class: "order", role: "group", "aria-label": tm("order") }, ...buttons);
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
      const { items, next } = await this.#readComments(cursor, PAGE);
      // Another order was chosen meanwhile.
      if (reading !== this.#reading) return { rows: [], next: null };
      // One that was shown before gets its place.
      const cards = items.map((comment) => this.#thread.all.get(comment.id) ?? this.#make(comment));
      this.#thread.unfolds = MAX_UNFOLDS;
      const late = new Promise((resolve) => setTimeout(resolve, UNFOLD_MS));
      await Promise.race([Promise.all(cards.map((card) => card.unfold())), late]);
      return { rows: cards.map(({ element }) => element), next };
    };
    const none = () => empty(tm("thread.empty"), this.#thread.mayReply && tm("thread.empty.text"));
    const list = new PagedList(load, none, { testid: "comment-list", shape: "post" });
    list.element.classList.remove("card");
    return list;
  }

  #make(comment) {
    const card = new CommentCard(this.#app, comment, this.#thread);
    this.#thread.all.set(comment.id, card);
    return card;
  }

  #listen() {
    const { client, favourites, reposts } = this.#app;
    const refresh = () => {
      this.#card.update(this.#entry());
      for (const card of this.#thread.all.values()) card.refresh();
    };
    let opened = false;
    this.#stops.push(
      client.likes.on("change", refresh),
      client.likes.on("settled", (settled) => this.#settled(settled)),
      client.people.on("change", refresh),
      favourites.on(refresh),
      reposts.on(refresh),
      client.connection.on("filters", () => this.#refresh()),
      client.connection.subscribe(`post:${this.#id}`, {
        publication: ({ data }) => this.#apply(data),
        // Not everything is recovered: the user's own likes on other devices are not.
        subscribed: () => {
          if (opened) this.#refresh();
          opened = true;
        },
        // The server ends the subscription when the post can no longer be seen.
        unsubscribed: () => this.#refresh(),
      }),
    );
  }

  #unlisten() {
    for (const stop of this.#stops.splice(0)) stop();
  }

  #apply(event) {
    if (event.type === "comment") {
      this.#app.client.people.add(event.people ?? {});
      this.#arrived(event.comment);
    } else if (event.type === "counts" && event.version >= this.#version) {
      const { type, id, version, ...counts } = event;
      this.#version = version;
      this.#change(counts);
    } else if (event.type === "edited" && event.comment) {
      this.#app.client.people.add(event.people ?? {});
      this.#thread.all.get(event.comment.id)?.edited(event.comment);
    } else if (event.type === "edited" && this.#changesFlags(event.post)) {
      this.#refresh();
    } else if (event.type === "edited") {
      const { liked, favourited } = this.#post;
      this.#change({ ...event.post, liked, favourited, people: undefined });
    } else if (event.type === "gone" && event.comment) this.#gone(event);
    else if (event.type === "gone") this.#end(empty(tm("thread.gone"), tm("thread.gone.text")));
  }

  /**
   * What is pushed is the same for everyone: it does not say whether moderators removed the post, nor whether the
   * reader may comment.
   */
  #changesFlags({ author, comment_policy: policy }) {
    return author === this.#app.session.user || policy !== this.#post.comment_policy || policy === "mentioned";
  }

  #settled({ id, liked, likes, version = this.#version }) {
    if (id === this.#id) this.#change({ liked, ...(version >= this.#version && { likes }) });
    else this.#thread.all.get(id)?.change({ liked, likes });
  }

  #change(change) {
    // A post that was asked for by its id is not covered.
    this.#post = { ...this.#post, ...change, filtered: undefined };
    this.#card.update(this.#entry());
    this.#showPassed();
    this.#showForm();
    this.#showChoice();
  }

  /** A comment that was written here or elsewhere; it is shown once, whichever comes first. */
  #arrived(comment) {
    const { all, order } = this.#thread;
    if (all.has(comment.id)) return;
    const under = comment.reply_to;
    const parent = under ? all.get(under) : null;
    if (parent) return parent.arrived(comment, () => this.#make(comment));
    if (under) return;
    const card = this.#make(comment);
    const isOwn = comment.author === this.#app.session.user;
    // The oldest first: it has its place at the end, once that is read; one's own is shown at once.
    if (order === "newest") this.#list.prepend(card.element);
    else if (this.#list.isAtEnd || isOwn) this.#list.append(card.element);
    else all.delete(comment.id);
    if (!isOwn) this.#app.announce(tm("comment.new", { name: this.#app.client.people.get(comment.author).name }));
  }

  async #gone({ comment: id, stays }) {
    const card = this.#thread.all.get(id);
    const isOwn = card?.author === this.#app.session.user;
    const left = isOwn && (await this.#readComment(id).catch(() => null));
    // Their author still sees what moderators removed.
    if (left && left.removed) card.reread(left);
    else if (stays) card?.clear();
    else card?.remove();
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
