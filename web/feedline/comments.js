// The comments on a post, or the replies to one of them: live. Their likes are those of the client: `likes.view`.

import { ItemList, Pages } from "./pages.js";
import { newKey } from "./timeline.js";
/** @import { Comment, CommentOptions, Page, PostEvent } from "./types.js" */

/** @extends {Pages<ItemList<Comment>>} */
export class Comments extends Pages {
  #of;
  #isNewestFirst;
  /** @type {PostEvent[]} what came while the list was read anew */ #meanwhile = [];
  /** @param {import("./client.js").Client} client @param {number} post @param {CommentOptions} [options] */
  constructor(client, post, { replyTo, order = "newest" } = {}) {
    const of = { id: post, ...(replyTo && { reply_to: replyTo }) };
    const source = { method: "comments.list", params: { ...of, order }, channel: `post:${post}` };
    super(client, source, () => /** @type {ItemList<Comment>} */ (new ItemList()));
    this.#of = of;
    this.#isNewestFirst = order === "newest";
    this.stops.push(
      client.connection.on("filters", () => void this.reload()),
      client.likes.on("change", (id) => this.#patch(id, {})),
      client.likes.on("settled", ({ id, liked, likes }) => this.#patch(id, { liked, likes })),
    );
    this.start({ publication: ({ data }) => this.apply(data) });
  }
  /** In their order; a comment is a new object when it, or its like, changed. @returns {Comment[]} */
  get items() { return this.list.items; }
  /** Publishes a comment, which is shown when it is stored. @param {string} text @returns {Promise<Comment>} */
  async post(text, key = newKey()) {
    const { connection } = this.client;
    const input = { ...this.#of, text, idempotency_key: key };
    const comment = await connection.insist(() => connection.rpc("comments.create", input));
    this.apply({ type: "comment", comment, people: {} });
    return comment;
  }

  async reload() {
    await super.reload();
    if (!this.building) for (const event of this.#meanwhile.splice(0)) this.#apply(event, true);
  }
  /** Applies an event. What is pushed comes here by itself. @param {PostEvent} event */
  apply(event) {
    if (this.building) this.#meanwhile.push(event);
    this.#apply(event);
  }
  /** @param {any} event @param {boolean} [isAgain] whether it was applied to the list before this one */
  #apply({ type, comment, people, stays }, isAgain) {
    if (!comment) return;
    const { items } = this.list;
    if (type === "comment") this.#arrived(comment, people, isAgain);
    // Of two versions the one edited last stays. Likes and replies are counted by other events.
    const { id = comment, text, mentions, edited_at, filtered } = comment;
    const known = items.find((item) => item.id === id);
    const isLater = edited_at >= (known?.edited_at ?? 0);
    if (type === "edited" && isLater) this.#patch(id, { text, mentions, edited_at, filtered });
    if (type === "gone" && stays) this.#patch(id, { author: undefined, text: undefined });
    else if (type === "gone") this.#show(items.filter((item) => item.id !== id));
  }
  /** @param {Comment} comment @param {Page["people"]} people @param {boolean} [isAgain] */
  #arrived(comment, people, isAgain) {
    this.client.people.add(people);
    const { items } = this.list;
    if (items.some(({ id }) => id === comment.id)) return;
    const parent = items.find(({ id }) => id === comment.reply_to);
    if (parent && !isAgain) this.#patch(parent.id, { replies: parent.replies + 1 });
    if (comment.reply_to !== this.#of.reply_to || !this.list.isRead) return;
    if (this.#isNewestFirst) this.#show([comment, ...items]);
    else if (!this.hasOlder) this.#show([...items, comment]);
  }
  /** @param {number} id @param {Partial<Comment>} more */
  #patch(id, more) {
    const isThere = this.list.items.some((item) => item.id === id);
    if (isThere) this.#show(this.list.items.map((item) => (item.id === id ? { ...item, ...more } : item)));
  }
  /** @param {Comment[]} items */
  #show(items) {
    this.list.items = items;
    this.changed();
  }
}
