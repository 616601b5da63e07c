// Likes that light at once: pending until the server says that they are settled, or reverted and why.

import { BoundedMap } from "./bounded.js";
import { Emitter } from "./emitter.js";
import { FeedlineError, backoff } from "./errors.js";

/** @import { LikeEvents, LikeView, Likeable, PendingLike } from "./types.js" */

const METHODS = ["likes.remove", "likes.add"];
/** @type {Record<number, string>} by the code of the error */
const REASONS = { 404: "gone", 429: "rate_limited" };
const MAX_ATTEMPTS = 6;
const MAX_REVERTED = 100;

/** @extends {Emitter<LikeEvents>} */
export class Likes extends Emitter {
  /** @type {Map<number, PendingLike>} */
  #pending = new Map();
  /** @type {BoundedMap<number, string>} id → why */
  #reverted = new BoundedMap(MAX_REVERTED);
  #connection;

  /** @param {import("./connection.js").Connection} connection @param {string} user */
  constructor(connection, user) {
    super();
    this.#connection = connection;
    const publication = (/** @type {{data: any}} */ { data }) => {
      if (data.type === "like.settled") this.#settled(data);
      else if (data.type === "like.reverted") this.#revert(data.id, data.reason);
    };
    connection.subscribe(`notifications:${user}`, { publication }, { byServer: true });
    connection.on("state", ({ name }) => name === "live" && this.#resume());
  }

  /** How to show the like of a post or comment. @param {Likeable} object @returns {LikeView} */
  view({ id, likes, liked = false }) {
    const like = this.#pending.get(id);
    if (like) return { liked: like.want, likes: shownLikes(like), state: "pending", reason: "" };
    const reason = this.#reverted.get(id) ?? "";
    return { liked, likes, state: reason ? "reverted" : "settled", reason };
  }

  /** Likes, or takes the like back. @param {Likeable} object @param {"post" | "comment"} [type] */
  toggle(object, type = "post") {
    const { id, likes, liked = false } = object;
    const like = this.#pending.get(id) ?? { id, type, liked, likes, want: liked, acked: null, asks: 0, attempt: 0 };
    like.want = !like.want;
    this.#pending.set(id, like);
    this.#reverted.delete(id);
    this.#advance(like);
    this.emit("change", id);
    return this.view(object);
  }

  /** The reason of a reversal was read. @param {number} id */
  dismiss(id) {
    if (this.#reverted.delete(id)) this.emit("change", id);
  }

  /** One request at a time for each object, so that the last wish wins. @param {PendingLike} like */
  async #advance(like) {
    if (like.isAsking || this.#pending.get(like.id) !== like) return;
    if (like.acked === like.want) {
      if (like.final && like.asks <= 0) this.#finish(like, like.final);
      return;
    }
    if (!this.#connection.isLive) return;
    const { id, want } = like;
    like.isAsking = true;
    like.asks += 1;
    try {
      const { likes } = await this.#connection.rpc(METHODS[Number(want)], { [like.type]: id });
      like.acked = want;
      like.attempt = 0;
      if (likes != null) like.likes = likes - Number(want) + Number(like.liked);
    } catch (cause) {
      this.#refused(like, FeedlineError.of(cause));
    }
    like.isAsking = false;
    this.emit("change", id);
    if (like.attempt === 0) this.#advance(like);
  }

  /** @param {PendingLike} like @param {FeedlineError} error */
  #refused(like, { temporary, code, reason }) {
    like.asks -= 1;
    if (temporary && ++like.attempt < MAX_ATTEMPTS) {
      if (reason !== "lost") setTimeout(() => this.#advance(like), backoff(like.attempt));
    } else this.#revert(like.id, REASONS[code] ?? (temporary ? "busy" : "refused"));
  }

  /** @param {{id: number, liked: boolean, asks: number, likes: number, version: number}} event */
  #settled({ asks, ...final }) {
    const like = this.#pending.get(final.id);
    if (!like) return this.emit("settled", final);
    like.asks -= asks;
    like.final = final;
    this.#advance(like);
  }

  /** @param {PendingLike} like @param {{liked: boolean, likes: number, version?: number}} final */
  #finish({ id }, final) {
    this.#pending.delete(id);
    this.emit("settled", { id, ...final });
    this.emit("change", id);
  }

  /** @param {number} id @param {string} reason */
  #revert(id, reason) {
    const like = this.#pending.get(id);
    this.#pending.delete(id);
    this.#reverted.set(id, reason);
    // What another tab asked for, or this one long ago: only the server knows what holds now.
    const settle = (/** @type {any} */ post) => this.emit("settled", { id, liked: post.liked, likes: post.likes });
    if (like) settle(like);
    else this.#connection.rpc("posts.get", { id }).then(settle, () => {});
    this.emit("change", id);
    this.emit("reverted", { id, reason });
  }

  /** Settlements go to the connection that asked. On a new one, what was acknowledged holds until it is reverted. */
  #resume() {
    for (const like of [...this.#pending.values()]) {
      like.asks = 0;
      if (like.acked === like.want) this.#finish(like, { liked: like.want, likes: shownLikes(like) });
      else this.#advance(like);
    }
  }
}

/** @param {PendingLike} like */
function shownLikes({ likes, liked, want }) {
  return likes + Number(want) - Number(liked);
}
