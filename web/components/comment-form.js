// The form of a comment or a reply.

import { button, h } from "../dom.js";
import { draftAt, keepDraft } from "../drafts.js";
import { newKey } from "../feedline/timeline.js";
import { tm } from "../i18n/more.js";
import { isBlank, written } from "../text.js";
import { avatar } from "./avatar.js";
import { MentionCompletion } from "./completion.js";
import { messageOf } from "./states.js";
import { TextLimit } from "./text-limit.js";

/** Where the draft of a comment on a post is, or of the reply to a comment. */
const placeOf = (post, replyTo) => (replyTo ? `reply ${replyTo}` : `comment ${post}`);

/** Whether a reply to a comment was begun. */
export const isReplyBegun = ({ session }, comment) => draftAt(session, placeOf(null, comment)) !== null;

export class CommentForm {
  #text;
  /** What was sent last: the same text sent again after a failure or a reload has the same key, and is stored once. */
  #sending = null;
  element;

  /** `replyTo` is a comment or null; `sent(comment)` is called with what the server stored. */
  constructor(app, post, replyTo, sent, cancel) {
    const label = tm(replyTo ? "comment.reply" : "comment.write");
    this.#text = h("textarea", {
      rows: 1,
      dir: "auto",
      placeholder: label,
      "aria-label": label,
      data: { testid: replyTo ? "reply-text" : "comment-text" },
    });
    const limit = new TextLimit(this.#text);
    const place = placeOf(post, replyTo);
    const keep = () => {
      const text = this.#text.value;
      keepDraft(app.session, place, isBlank(text) ? null : { text, sending: this.#sending });
    };
    const draft = draftAt(app.session, place);
    if (draft) {
      this.#text.value = draft.text;
      this.#sending = draft.sending;
    }
    const giveUp = () => {
      keepDraft(app.session, place, null);
      cancel();
    };
    const error = h("p", { class: "error", role: "alert" });
    const send = h("button", {
      class: "button primary",
      type: "submit",
      text: tm("comment.send"),
      data: { testid: replyTo ? "reply-submit" : "comment-submit" },
    });
    const completion = new MentionCompletion(this.#text, (q) =>
      app.client.connection.rpc("users.search", { q, limit: 6 }).then(({ items }) => items),
    );
    const foot = h(
      "div",
      { class: "reply-foot" },
      limit.element,
      cancel && button({ class: "button", text: tm("cancel"), onclick: giveUp }),
      send,
    );
    this.element = h(
      "form",
      { class: "compose reply", novalidate: true },
      avatar(app.me()),
      h("div", { class: "compose-main" }, this.#text, foot, completion.element, error),
    );
    this.element.addEventListener("submit", async (event) => {
      event.preventDefault();
      const text = written(this.#text.value);
      error.textContent = limit.problem;
      if (text === "" || limit.problem) return this.#text.focus();
      send.disabled = true;
      const key = this.#key(text);
      keep();
      try {
        const comment = await app.client.connection.rpc("comments.create", {
          id: post,
          text,
          ...(replyTo && { reply_to: replyTo }),
          idempotency_key: key,
        });
        this.#text.value = "";
        limit.count();
        this.#sending = null;
        keepDraft({ user: comment.author }, place, null);
        sent(comment);
      } catch (failure) {
        error.textContent = messageOf(failure);
      } finally {
        send.disabled = false;
      }
    });
    this.#text.addEventListener("input", keep);
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
  }

  focus() {
    this.#text.focus();
  }

  #key(text) {
    if (this.#sending?.text !== text) this.#sending = { text, key: newKey() };
    return this.#sending.key;
  }
}
