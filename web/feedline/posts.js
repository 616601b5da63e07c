// The posts of a timeline by id, newest first, each once, whatever order pages and pushes come in.
//
// Pages are read while the log moves on. Every event has an offset, and every page the offset at which it was read, so
// that the later of two truths wins, whichever comes first.

import { BoundedMap } from "./bounded.js";

/** @import { Page, Post } from "./types.js" */

/** How many departed posts are remembered, lest an older page brings them back. */
const MAX_GONE = 1000;
/** The offset of a deletion, and of what this client did: no page is newer. */
const FINAL = Infinity;

export class PostList {
  /** @type {Post[]} */
  #posts = [];
  /** @type {BoundedMap<number, number>} id → offset at which it left */
  #gone = new BoundedMap(MAX_GONE);
  /** The offset at which the first page was read. */
  #readAt = -1;
  /** @type {[any, number][]} events that came before the first page */
  #meanwhile = [];
  /** Posts older than this belong to pages that are not loaded: kept, but not shown below a gap. */
  #floor = Infinity;
  /** @type {string | null | undefined} the next page's cursor; null at the end, undefined if the end was trimmed */
  next = null;

  get isRead() {
    return this.#readAt >= 0;
  }

  get size() {
    return this.#posts.length;
  }

  /** The id of the oldest post before the next page. */
  get oldest() {
    return this.#posts.findLast(({ id }) => id >= this.#floor)?.id ?? Infinity;
  }

  /** The posts without a gap, newest first. */
  get shown() {
    return this.#posts.filter(({ id }) => id >= this.#floor);
  }

  /** Takes a page: the first one, or the next. @param {Page} page */
  take(page) {
    const offset = page.position?.offset ?? 0;
    const isFirst = !this.isRead;
    if (isFirst) this.#readAt = offset;
    for (const post of page.items) if ((this.#gone.get(post.id) ?? 0) <= offset) this.#merge(post);
    this.next = page.next ?? null;
    this.#floor = this.next === null ? 0 : Math.min(this.#floor, ...page.items.map(({ id }) => id));
    for (const [event, at] of isFirst ? this.#meanwhile.splice(0) : []) this.apply(event, at);
  }

  /** Applies what was pushed, or done here. @param {any} event @returns {boolean} whether a post is new */
  apply(event, offset = FINAL) {
    if (!this.isRead) this.#meanwhile.push([event, offset]);
    if (!this.isRead || (offset > 0 && offset <= this.#readAt)) return false;
    const { type, post, id } = event;
    // A deleted post stays so; one that left for another reason may come back.
    if (type === "post") return this.#gone.get(post.id) !== FINAL && this.#merge(post);
    if (type === "edited" && this.get(post.id)) this.#merge(post);
    if (type === "gone" && id) this.#remove(id, event.reason === "deleted" ? FINAL : offset);
    return false;
  }

  /** @param {number} id @returns {Post | null} */
  get(id) {
    const post = this.#posts[this.#place(id)];
    return post?.id === id ? post : null;
  }

  /** Changes a post, unless a later version of its counts is known. @param {number} id @param {Partial<Post>} more */
  patch(id, more) {
    const post = this.get(id);
    if (!post || (more.version !== undefined && more.version < (post.version ?? 0))) return false;
    this.#posts[this.#place(id)] = { ...post, ...more };
    return true;
  }

  /** Forgets the oldest posts; a later page brings them back. @param {number} keep */
  trimOldest(keep) {
    if (this.#posts.length <= keep) return;
    this.#posts.length = keep;
    const oldest = this.#posts[keep - 1].id;
    if (oldest <= this.#floor) return;
    this.#floor = oldest;
    this.next = undefined;
  }

  /** Forgets the newest posts. @param {number} ceiling the id of the newest to keep */
  trimNewest(ceiling) {
    this.#posts.splice(0, this.#place(ceiling));
  }

  /** @param {number} id @param {number} offset */
  #remove(id, offset) {
    this.#gone.set(id, offset);
    if (this.get(id)) this.#posts.splice(this.#place(id), 1);
  }

  /** Of two versions the one edited last stays, with the newer counts. @param {Post} post @returns {boolean} */
  #merge(post) {
    const at = this.#place(post.id);
    const known = this.get(post.id);
    if (!known) this.#posts.splice(at, 0, post);
    else if ((post.edited_at ?? 0) >= (known.edited_at ?? 0)) {
      // What is pushed is the same for everyone: it does not have the reader's own flags.
      const { liked, favourited, version } = known;
      this.#posts[at] = { liked, favourited, version, ...post };
    }
    return !known;
  }

  /** The index of an id, or where it would stand. @param {number} id */
  #place(id) {
    let [low, high] = [0, this.#posts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#posts[middle].id > id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
