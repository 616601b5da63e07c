// The form of a comment or a reply.

import { button, h } from "../dom.js";
import { newKey } from "../feedline/timeline.js";
import { t } from "../i18n/index.js";
import { written } from "../text.js";
import { avatar } from "./avatar.js";
import { MentionCompletion } from "./completion.js";
import { messageOf } from "./states.js";
import { TextLimit } from "./text-limit.js";

export class CommentForm {
  #text;
  element;

  /** `replyTo` is a comment or null; `sent(comment)` is called with what the server stored. */
  constructor(app, post, replyTo, sent, cancel) {
    const label = t(replyTo ? "comment.reply" : "comment.write");
    this.#text = h("textarea", {
      rows: 1,
      dir: "auto",
      placeholder: label,
      "aria-label": label,
      data: { testid: replyTo ? "reply-text" : "comment-text" },
    });
    const limit = new TextLimit(this.#text);
    const error = h("p", { class: "error", role: "alert" });
    const send = h("button", {
      class: "button primary",
      type: "submit",
      text: t("comment.send"),
      data: { testid: replyTo ? "reply-submit" : "comment-submit" },
    });
    const completion = new MentionCompletion(this.#text, (q) =>
      app.client.connection.rpc("users.search", { q, limit: 6 }).then(({ items }) => items),
    );
    const foot = h(
      "div",
      { class: "dialog-foot" },
      limit.element,
      cancel && button({ class: "button", text: t("cancel"), onclick: cancel }),
      send,
    );
    this.element = h(
      "form",
      { class: "compose reply", novalidate: true },
      avatar(app.me()),
      h("div", { class: "compose-main" }, this.#text, completion.element, error, foot),
    );
    this.element.addEventListener("submit", async (event) => {
      event.preventDefault();
      const text = written(this.#text.value);
      error.textContent = limit.problem;
      if (text === "" || limit.problem) return this.#text.focus();
      send.disabled = true;
      try {
        const comment = await app.client.connection.rpc("comments.create", {
          id: post,
          text,
          ...(replyTo && { reply_to: replyTo }),
          idempotency_key: this.#key(text),
        });
        this.#text.value = "";
        limit.count();
        this.#sending = null;
        sent(comment);
      } catch (failure) {
        error.textContent = messageOf(failure);
      } finally {
        send.disabled = false;
      }
    });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
  }

  focus() {
    this.#text.focus();
  }

  /** The same text sent again after a failure has the same key: it is stored once. */
  #sending = null;

  #key(text) {
    if (this.#sending?.text !== text) this.#sending = { text, key: newKey() };
    return this.#sending.key;
  }
}
