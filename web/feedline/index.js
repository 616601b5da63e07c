// The Feedline client: what is in client.js, the operations by group, and the stores that not every page needs.

import { remember } from "./bounded.js";
import { Client } from "./client.js";
import { Comments } from "./comments.js";
import { Connection, endOf } from "./connection.js";
import { FeedlineError } from "./errors.js";
import { Marked } from "./marked.js";
import { ItemList, Pages } from "./pages.js";
import { newKey } from "./timeline.js";
import { fallback, httpStream, webSocket } from "./transport.js";
/** @import { Api, CommentOptions, Favourite, ListInput, ListName, Output, User } from "./types.js" */
export { Comments, Connection, FeedlineError, ItemList, Marked, Pages };
export { fallback, httpStream, newKey, remember, webSocket };

export class Feedline extends Client {
  /** The operations by group: `api.comments.create({ id, text })`. @type {Api} */
  api = members((group) => members((name) => this.#call.bind(this, `${group}.${name}`)));
  /** The user's favourite posts. @type {Marked<Favourite>} */
  favourites = new Marked(this, { method: "favourites.list", params: { type: "post" } }, (id, wanted) =>
    this.#call(wanted ? "favourites.add" : "favourites.remove", { type: "post", id }),
  );
  /** The users that the user follows. @type {Marked<User>} */
  follows = new Marked(this, { method: "users.following", params: { id: this.user } }, (id, wanted) =>
    this.#call(wanted ? "users.follow" : "users.unfollow", { id }),
  );
  /** The comments on a post. Close it in the end. @param {number} post @param {CommentOptions} [options] */
  openComments = (post, options) => new Comments(this, post, options);
  /** Resolves when a store was read, the timeline if none is named. Rejects if it is refused, or the connection ended.
   * @template {Pages<any>} [Store=import("./timeline.js").Timeline] @param {Store} [store] @returns {Promise<Store>} */
  ready(store = /** @type {any} */ (this.timeline)) {
    if (store.state === "idle") store.reload();
    return new Promise((resolve, reject) => {
      const check = () => {
        const { state } = this.connection;
        const error = state.name === "ended" ? endOf(state) : store.error;
        const isOver = state.name === "ended" || (error && !error.temporary);
        if (store.state === "ready") resolve(store);
        else if (isOver) reject(error);
        else return;
        for (const off of offs) off();
      };
      const offs = [store.on("change", check), this.connection.on("state", check)];
      check();
    });
  }
  /** The pages of a list, until the end: `for await (const { items } of feedline.pages("users.posts", { id: "bo" }))`.
   * @template {ListName} Name @param {Name} method
   * @param {ListInput<Name>} input @returns {AsyncGenerator<Output<Name>>} */
  async *pages(method, input) {
    /** @type {{cursor?: string}} */ let more = {};
    do {
      const page = await this.connection.insist(() => this.#call(method, { ...input, ...more }));
      yield page;
      more = { cursor: page.next };
    } while (more.cursor);
  }
  /** @param {string} method @param {any[]} input @returns {Promise<any>} */
  #call(method, ...input) { return /** @type {any} */ (this.connection).rpc(method, ...input); }
}

/** An object whose members are made when they are asked for. @param {(name: string) => unknown} make @returns {any} */
const members = (make) => new Proxy(Object.create(null), {
  get: (made, name) => (typeof name === "string" && name !== "then" ? (made[name] ??= make(name)) : undefined),
});
