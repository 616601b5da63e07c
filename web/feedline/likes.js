// Likes that light at once: pending until the server says that they are settled, or reverted and why.

import { remember } from "./bounded.js";
import { Emitter } from "./emitter.js";
/** @import { FeedlineError } from "./errors.js" */
/** @typedef {Pick<PendingLike, "id" | "isAsking" | "open" | "final">} Settling */
/** @import { LikeEvents, LikeView, Likeable, NotificationEvent, PendingLike } from "./types.js" */

/** @type {Record<number, string>} by the code of the error */ const REASONS = { 404: "gone", 429: "rate_limited" };
const MAX_REVERTED = 100;
const MAX_SETTLED = 1000;
/** How many posts one request reads. */ const MAX_IDS = 100;

/** @extends {Emitter<LikeEvents>} */
export class Likes extends Emitter {
  /** @type {Map<number, PendingLike>} */ #pending = new Map();
  /** @type {Map<number, string>} id → why */ #reverted = new Map();
  /** @type {Map<number, number>} id → the version of what was settled last */ #versions = new Map();
  #connection;
  /** @param {import("./client.js").Client} client */
  constructor({ connection, user }) {
    super();
    this.#connection = connection;
    const publication = (/** @type {{data: NotificationEvent}} */ { data }) => {
      if (data.type === "like.settled" || data.type === "like.changed") this.#settled(data);
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
    const fresh = { id, type, liked, likes, want: liked, acked: null, open: 0, isAsking: false };
    /** @type {PendingLike} */ const like = this.#pending.get(id) ?? fresh;
    like.want = !like.want;
    this.#pending.set(id, like);
    this.#reverted.delete(id);
    this.#pursue(like);
    this.emit("change", id);
    return this.view(object);
  }
  /** The reason of a reversal was read. @param {number} id */
  dismiss(id) {
    if (this.#reverted.delete(id)) this.emit("change", id);
  }
  /** Reads the likes of posts anew: those on the user's other devices are pushed, but not recovered.
   * @param {number[]} ids */
  async refresh(ids) {
    for (let at = 0; at < ids.length; at += MAX_IDS) {
      const page = await this.#connection.rpc("posts.many", { ids: ids.slice(at, at + MAX_IDS) }).catch(() => null);
      if (!page) return;
      for (const post of page.items) this.refreshed(post);
    }
  }
  /** Takes what was read of a post or comment, unless a like of it is pending. @param {Likeable} object */
  refreshed({ id, liked = false, likes }) {
    if (!this.#pending.has(id)) this.emit("settled", { id, liked, likes });
  }
  /** One request at a time for each object, so that the last wish wins. @param {PendingLike} like */
  async #pursue(like) {
    if (like.isAsking) return;
    const { id, type } = like;
    const object = type === "post" ? { post: id } : { comment: id };
    const ask = () => this.#connection.rpc(like.want ? "likes.add" : "likes.remove", object);
    like.isAsking = true;
    try {
      while (like.acked !== like.want && this.#pending.get(id) === like) {
        const { liked, likes } = await this.#connection.insist(ask);
        like.acked = liked;
        like.open += 1;
        if (likes != null) like.likes = likes - Number(liked) + Number(like.liked);
        this.emit("change", id);
      }
    } catch (cause) {
      const { code, temporary } = /** @type {FeedlineError} */ (cause);
      this.#revert(id, REASONS[code] ?? (temporary ? "busy" : "refused"));
    }
    like.isAsking = false;
    if (this.#pending.get(id) === like) this.#finish(like);
  }
  /** Takes what is settled: the requests of this connection, or what the user did elsewhere. The latest version holds.
   * @param {{id: number, liked: boolean, likes: number, version: number, asks?: number}} event */
  #settled({ id, liked, likes, version, asks = 0 }) {
    const pending = this.#pending.get(id);
    const latest = pending ? pending.final?.version : this.#versions.get(id);
    /** @type {Settling} */ const like = pending ?? { id, open: asks, isAsking: false };
    like.open -= asks;
    if (version >= (latest ?? 0)) like.final = { id, liked, likes, version };
    this.#finish(like);
  }
  /** Settles it once all requests are settled. @param {Settling} like */
  #finish({ id, isAsking, open, final }) {
    if (isAsking || open > 0 || !final) return;
    this.#pending.delete(id);
    this.#reverted.delete(id);
    if (final.version) remember(this.#versions, id, final.version, MAX_SETTLED);
    this.emit("settled", final);
    this.emit("change", id);
  }
  /** @param {number} id @param {string} reason */
  #revert(id, reason) {
    const like = this.#pending.get(id);
    const read = (/** @type {"posts.get" | "comments.get"} */ method) => this.#connection.rpc(method, { id });
    this.#pending.delete(id);
    remember(this.#reverted, id, reason, MAX_REVERTED);
    // What another tab asked for, or this one long ago: only the server knows what holds now.
    if (like) this.refreshed(like);
    else read("posts.get").catch(() => read("comments.get")).then((object) => this.refreshed(object), () => {});
    this.emit("change", id);
    this.emit("reverted", { id, reason });
  }
  /** Settlements of a lost connection do not come: what was acknowledged holds until it is reverted. */
  #resume() {
    for (const like of [...this.#pending.values()]) {
      const final = { id: like.id, liked: like.want, likes: shownLikes(like) };
      this.#finish(Object.assign(like, { open: 0, final }));
    }
  }
}

/** @param {PendingLike} like */
const shownLikes = ({ likes, liked, want }) => likes + Number(want) - Number(liked);
