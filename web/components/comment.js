// A comment, with its replies below it on the same rail.

import { arrange } from "../arrange.js";
import { button, h, setText, show } from "../dom.js";
import { timeElement } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { moreIcon } from "../more-icons.js";
import { paths } from "../router.js";
import { avatarLink } from "./avatar.js";
import { CommentForm, isReplyBegun } from "./comment-form.js";
import { editDialog } from "./edit-dialog.js";
import { coverOf } from "./filtered.js";
import { LikeControl } from "./like.js";
import { openMenu } from "./menu.js";
import { peopleDialog } from "./people-list.js";
import { reportItem } from "./report.js";
import { messageOf, removalText } from "./states.js";
import { withoutDirections } from "../text.js";
import { fillText } from "./text.js";

/** Down to which level replies are shown without being asked for; a comment on the post is on level 0. */
const MAX_OPEN_LEVEL = 3;
/** How many of the replies to a comment are shown so. */
const OPEN_REPLIES = 3;
/** How many are read when they are asked for, and when they are read anew. */
const PAGE = 20;
const MAX_PAGE = 100;

export class CommentCard {
  #app;
  #comment;
  #thread;
  #level;
  #like;
  #answer;
  #replies = h("div", { class: "replies" });
  #expand = button({ class: "link expand", data: { testid: "expand" }, onclick: () => this.#more() });
  #cursor = undefined;
  #name = h("span");
  #edited = h("span", { text: t("edited"), data: { testid: "comment-edited" } });
  #text = h("p", { class: "text", dir: "auto", data: { testid: "comment-text-shown" } });
  #removed = h("p", { class: "notice", dir: "auto", hidden: true, data: { testid: "comment-removed" } });
  #cover;
  element;
  /** Resolves when the replies that are shown were read anew. */
  rereading = null;

  /**
   * `thread` has the `author` of the post, whether the user `mayReply`, the `order`, and `all` cards that are shown, by
   * id. `level` says how many comments are above it.
   */
  constructor(app, comment, thread, level = 0) {
    this.#app = app;
    this.#comment = comment;
    this.#thread = thread;
    this.#level = level;
    this.element = h("article", {
      class: "post comment",
      tabindex: -1,
      data: { testid: "comment", comment: comment.id },
    });
    this.#cover = coverOf(app, this.element);
    this.#render();
    if (isReplyBegun(app, comment.id)) this.#reply();
  }

  /** Names and likes may have changed. */
  refresh() {
    if (!this.#comment.author) return;
    setText(this.#name, withoutDirections(this.#app.client.people.get(this.#comment.author).name));
    this.#like.update(this.#comment);
    show(this.#answer, this.#thread.mayReply);
  }

  /** Likes were settled. */
  change(change) {
    this.#comment = { ...this.#comment, ...change };
    this.refresh();
  }

  get author() {
    return this.#comment.author;
  }

  /** Of two versions the one edited last stays. Likes and replies are counted by other events. */
  edited(comment) {
    const { text, mentions, edited_at, filtered } = comment;
    const { author, removed, likes, replies } = this.#comment;
    // Moderators have restored it.
    if (!author || removed) return void this.reread({ ...this.#comment, ...comment, likes, replies, removed: null });
    if ((this.#comment.edited_at ?? 0) > edited_at) return;
    this.#comment = { ...this.#comment, text, mentions, edited_at, filtered };
    fillText(this.#text, this.#comment);
    this.#cover.update(filtered);
    show(this.#edited, true);
  }

  /** Deleted while others had replied: it stays without its author and text. */
  clear() {
    this.#comment = { ...this.#comment, author: null, text: null };
    this.#render();
  }

  /** What the server has now, also of the replies that are shown. What is being written here stays. */
  reread(comment) {
    const wasDeleted = !this.#comment.author;
    this.#comment = comment;
    if (wasDeleted !== !comment.author) this.#render();
    else if (comment.author) {
      fillText(this.#text, comment);
      show(this.#edited, Boolean(comment.edited_at));
      this.#showRemoval();
      this.#cover.update(comment.filtered);
      this.refresh();
    }
    if (this.#replies.childElementCount > 0) this.rereading = this.#rereadReplies().catch(() => {});
    this.#showExpand();
    return this;
  }

  /** A reply came: it is shown if the replies are, and counted if not. */
  arrived(reply, make) {
    this.#comment = { ...this.#comment, replies: this.#comment.replies + 1 };
    if (this.#comment.replies === 1) this.#cursor = null;
    if (this.#cursor === null || reply.author === this.#app.session.user) {
      const { element } = make();
      if (this.#thread.order === "oldest") this.#replies.append(element);
      else this.#replies.prepend(element);
    }
    this.#showExpand();
  }

  /**
   * Shows the first replies, and those to them, down to MAX_OPEN_LEVEL, and as often as `thread.unfolds` allows. What
   * fails stays behind the button.
   */
  async unfold() {
    const isOpen = this.#cursor !== undefined || this.#comment.replies === 0;
    const mayOpen = !isOpen && this.#level < MAX_OPEN_LEVEL && this.#thread.unfolds > 0;
    this.#thread.unfolds -= Number(mayOpen);
    if (mayOpen) await this.#load(OPEN_REPLIES).catch(() => {});
  }

  /** Shows a reply, wherever its page is. */
  async open(reply) {
    const { all } = this.#thread;
    if (this.#cursor === undefined) await this.#more();
    if (!all.has(reply.id)) this.#replies.append(this.#child(reply).element);
    this.#showExpand();
    return all.get(reply.id);
  }

  /** A reply is gone. */
  replyRemoved() {
    this.#comment = { ...this.#comment, replies: Math.max(0, this.#comment.replies - 1) };
    this.#showExpand();
  }

  /** Takes the comment off the page, and off its parent's number of replies. */
  remove() {
    this.#thread.all.delete(this.#comment.id);
    this.element.remove();
    this.#thread.all.get(this.#comment.reply_to)?.replyRemoved();
  }

  #render() {
    const { author, text, created_at: at, filtered } = this.#comment;
    this.#showExpand();
    this.#cover.update(author && filtered);
    if (!author) {
      this.element.setAttribute("aria-label", tm("comment.deleted"));
      this.element.replaceChildren(
        h("span", { class: "avatar" }),
        h(
          "div",
          { class: "post-main" },
          h("p", { class: "comment-note", text: tm("comment.deleted") }),
          this.#replies,
          this.#expand,
        ),
      );
      return;
    }
    const person = this.#app.client.people.get(author);
    this.#like = new LikeControl(this.#app.client.likes, this.#comment, "comment");
    fillText(this.#text, { text, mentions: this.#comment.mentions });
    setText(this.#name, withoutDirections(person.name));
    const name = h("a", { class: "author", href: paths.user(author) }, h("bdi", {}, this.#name));
    const head = h(
      "header",
      { class: "post-head" },
      h("span", { class: "names" }, name, h("span", { class: "handle", text: `@${author}` })),
      this.#edited,
      h("span", { class: "when" }, timeElement(at)),
    );
    show(this.#edited, Boolean(this.#comment.edited_at));
    this.#showRemoval();
    const open = () => this.#reply()?.focus();
    this.#answer = button(
      { class: "action", "aria-label": tm("comment.reply"), data: { testid: "reply" }, onclick: open },
      moreIcon("reply"),
    );
    show(this.#answer, this.#thread.mayReply);
    const actions = h("div", { class: "actions" }, this.#like.element, this.#answer, this.#menu());
    this.element.setAttribute("aria-label", tm("comment.by", { name: person.name }));
    this.element.replaceChildren(
      avatarLink(person),
      h(
        "div",
        { class: "post-main" },
        ...[head, this.#cover.element, this.#text, this.#removed, actions],
        ...[this.#like.notice, this.#replies, this.#expand],
      ),
    );
  }

  #showRemoval() {
    const { removed } = this.#comment;
    show(this.#removed, Boolean(removed));
    if (removed) setText(this.#removed, removalText(removed));
  }

  #menu() {
    const more = button(
      {
        class: "action",
        "aria-label": t("more"),
        "aria-haspopup": "menu",
        "aria-expanded": "false",
        data: { testid: "comment-more" },
        onclick: () => openMenu(more, t("more"), this.#choices()),
      },
      icon("more"),
    );
    return more;
  }

  #choices() {
    const { id, author, text, removed } = this.#comment;
    const { connection } = this.#app.client;
    const me = this.#app.session.user;
    const mayEdit = author === me && !removed;
    const edit = async (changed) => this.edited(await connection.rpc("comments.edit", { id, text: changed }));
    const remove = () =>
      connection.rpc("comments.delete", { id }).catch((error) => this.#app.toast(messageOf(error)));
    return [
      mayEdit && {
        label: tm("post.edit"),
        testid: "edit-comment",
        run: () => editDialog(tm("comment.edit"), text, edit),
      },
      {
        label: tm("likers"),
        testid: "comment-likers",
        run: () => peopleDialog(this.#app, tm("likers"), "comments.likers", { id }, tm("likers.empty")),
      },
      author !== me && reportItem(this.#app, { comment: id }),
      (author === me || this.#thread.author === me) && {
        label: tm("comment.delete"),
        confirm: tm("post.delete.sure"),
        danger: true,
        testid: "delete-comment",
        run: remove,
      },
    ];
  }

  /** Opens the form of a reply, unless it is open. */
  #reply() {
    if (this.element.querySelector(":scope > .post-main > form")) return null;
    const form = new CommentForm(
      this.#app,
      this.#comment.post,
      this.#comment.id,
      (comment) => {
        form.element.remove();
        if (!this.#thread.all.has(comment.id)) this.arrived(comment, () => this.#child(comment));
      },
      () => {
        form.element.remove();
        this.element.focus();
      },
    );
    this.#replies.before(form.element);
    return form;
  }

  #child(comment) {
    const card = new CommentCard(this.#app, comment, this.#thread, this.#level + 1);
    this.#thread.all.set(comment.id, card);
    return card;
  }

  /** The number on the button is that of the replies behind it. */
  #showExpand() {
    const hidden = Math.max(0, this.#comment.replies - this.#replies.childElementCount);
    show(this.#expand, this.#cursor !== null && hidden > 0);
    setText(this.#expand, tm("comment.replies", { n: hidden }));
  }

  async #more() {
    this.#expand.disabled = true;
    const shown = this.#replies.childElementCount;
    const isFocused = document.activeElement === this.#expand;
    try {
      await this.#load(PAGE);
      if (isFocused) this.#replies.children[shown]?.focus({ preventScroll: true });
    } catch (error) {
      this.#app.toast(messageOf(error));
    } finally {
      this.#expand.disabled = false;
    }
  }

  /** Reads the next replies. One that was shown before gets its place. */
  async #load(limit) {
    const { all } = this.#thread;
    const { items, next } = await this.#read(this.#cursor, limit);
    this.#cursor = next;
    const cards = items.map((comment) => all.get(comment.id) ?? this.#child(comment));
    this.#replies.append(...cards.map(({ element }) => element));
    this.#showExpand();
    await Promise.all(cards.map((card) => card.unfold()));
  }

  async #rereadReplies() {
    const { all } = this.#thread;
    const found = [];
    let next = null;
    const limit = this.#cursor === null ? MAX_PAGE : Math.min(MAX_PAGE, this.#replies.childElementCount);
    do {
      const page = await this.#read(next, limit);
      found.push(...page.items);
      ({ next } = page);
    } while (next && found.length < this.#replies.childElementCount);
    const cards = found.map((comment) => all.get(comment.id)?.reread(comment) ?? this.#child(comment));
    arrange(
      this.#replies,
      cards.map(({ element }) => element),
    );
    this.#cursor = next;
    this.#showExpand();
    await Promise.all(cards.map((card) => card.rereading));
  }

  async #read(cursor, limit) {
    const { connection, people } = this.#app.client;
    const { order } = this.#thread;
    const place = { id: this.#comment.post, reply_to: this.#comment.id };
    const page = await connection.rpc("comments.list", { ...place, order, limit, ...(cursor && { cursor }) });
    people.add(page.people);
    return { items: page.items, next: page.next ?? null };
  }
}
