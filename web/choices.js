// The favourites and reposts of the reader, as last set on this page. They take precedence over pages read before.

import { Emitter } from "./emitter.js";
import { remember } from "./feedline/bounded.js";

const KEPT = 500;

export class Choices extends Emitter {
  #flag;
  #write;
  #failed;
  #set = new Map();

  /** `flag` is the member of posts; `write(wanted, post)` stores it. `failed(error)` is called when it is undone. */
  constructor(flag, write, failed) {
    super();
    this.#flag = flag;
    this.#write = write;
    this.#failed = failed;
  }

  has(post) {
    return this.#set.get(post.id)?.value ?? post[this.#flag] ?? false;
  }

  /** How many users marked a post: `number` is that of the server, as it was or is since. */
  count({ id }, number = 0) {
    const set = this.#set.get(id);
    return set?.from === number ? number + set.by : number;
  }

  /** Takes over what was read of posts, unless it was set here. */
  note(ids) {
    for (const id of ids) if (!this.#set.has(id)) this.#put(id, true);
  }

  /** Changes at once; back if the server refuses. `number` is that of the server. */
  async toggle(post, number) {
    const before = this.#set.get(post.id);
    const value = !this.has(post);
    const by = (before && before.from === number ? before.by : 0) + (value ? 1 : -1);
    this.#put(post.id, value, number, by);
    try {
      await this.#write(value, post);
    } catch (error) {
      this.#put(post.id, !value, before?.from, before?.by);
      this.#failed(error);
    }
  }

  #put(id, value, from, by) {
    remember(this.#set, id, { value, from, by }, KEPT);
    this.emit();
  }
}
