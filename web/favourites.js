// Favourites as the reader last set them, ahead of what pages of posts say.

import { Emitter } from "./emitter.js";
import { remember } from "./feedline/bounded.js";

const KEPT = 500;

export class Favourites extends Emitter {
  #rpc;
  #failed;
  #set = new Map();

  /** `failed(error)` is called when a change is undone. */
  constructor(rpc, failed) {
    super();
    this.#rpc = rpc;
    this.#failed = failed;
  }

  has(post) {
    return this.#set.get(post.id) ?? post.favourited ?? false;
  }

  /** Changes at once; back if the server refuses. */
  async toggle(post) {
    const wanted = !this.has(post);
    this.#put(post.id, wanted);
    try {
      await this.#rpc(wanted ? "favourites.add" : "favourites.remove", { type: "post", id: String(post.id) });
    } catch (error) {
      this.#put(post.id, !wanted);
      this.#failed(error);
    }
  }

  #put(id, value) {
    remember(this.#set, id, value, KEPT);
    this.emit();
  }
}
