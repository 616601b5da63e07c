// The posts of a timeline by id, newest first, each once, whatever order pages and pushes come in.
//
// Pages are read while the log moves on. Every event has an offset, and every page the offset at which it was read, so
// that the later of two truths wins, whichever comes first.

import { remember } from "./bounded.js";
/** @import { Page, Post } from "./types.js" */

/** How many departed posts are remembered, lest an older page brings them back. */ const MAX_GONE = 1000;
/** The offset of a deletion, and of what this client did: no page is newer. */ const FINAL = Infinity;

export class PostList {
  /** @type {Map<number, Post>} by id, also those that are not shown */ posts = new Map();
  /** @type {Map<number | string, number>} id, or author of all → offset at which it left */ #gone = new Map();
  isRead = false;
  /** The offset at which the first page was read. */ #readAt = 0;
  /** @type {[any, number][]} events that came before the first page */ #meanwhile = [];
  /** Posts older than this belong to pages that are not loaded: kept, but not shown below a gap. */ #floor = Infinity;
  /** @type {string | null | undefined} the next page's cursor; null at the end, undefined if the end was trimmed */
  next = null;
  /** Whether the newest posts were forgotten: they can only be read anew. */ isDetached = false;
  /** How many that were forgotten wait to be seen. */ forgotten = 0;
  /** The posts without a gap, newest first. */
  get shown() { return newestFirst(this.posts).filter(({ id }) => id >= this.#floor); }
  /** The id of the newest post that is shown. */
  get newest() { return this.shown[0]?.id ?? 0; }
  /** The id of the oldest post before the next page. */
  get oldest() { return this.shown.at(-1)?.id ?? Infinity; }
  /** Takes a page: the first one, or the next. @param {Page} page @returns {boolean} whether there are older posts */
  take(page) {
    const offset = page.position?.offset ?? 0;
    const { oldest } = this;
    if (!this.isRead) this.#readAt = offset;
    this.isRead = true;
    const leftAt = (/** @type {number | string} */ key) => this.#gone.get(key) ?? 0;
    for (const post of page.items) if (leftAt(post.id) <= offset && leftAt(post.author) <= offset) this.#merge(post);
    this.next = page.next ?? null;
    this.#floor = this.next === null ? 0 : Math.min(this.#floor, ...page.items.map(({ id }) => id));
    for (const [event, at] of this.#meanwhile.splice(0)) this.apply(event, at);
    return this.oldest < oldest;
  }
  /** Applies what was pushed, or done here. @param {any} event */
  apply(event, offset = FINAL) {
    if (!this.isRead) return void this.#meanwhile.push([event, offset]);
    if (offset > 0 && offset <= this.#readAt) return;
    const { type, post, id } = event;
    // A deleted post stays so; one that left for another reason may come back.
    if (type === "post" && this.#gone.get(post.id) !== FINAL) this.#merge(post);
    if (type === "edited" && this.posts.has(post.id)) this.#merge(post);
    if (type === "gone" && id) {
      this.posts.delete(id);
      remember(this.#gone, id, event.reason === "deleted" ? FINAL : offset, MAX_GONE);
    } else if (type === "gone" && event.author) {
      for (const { id, author } of [...this.posts.values()]) if (author === event.author) this.posts.delete(id);
      remember(this.#gone, event.author, offset, MAX_GONE);
    }
  }
  /** Changes a post, unless a later version of its counts is known. @param {number} id @param {Partial<Post>} more */
  patch(id, more) {
    const post = this.posts.get(id);
    if (!post || (more.version ?? Infinity) < (post.version ?? 0)) return false;
    this.posts.set(id, { ...post, ...more });
    return true;
  }
  /** Forgets the oldest posts; a later page brings them back. @param {number} keep */
  trimOldest(keep) {
    if (this.posts.size <= keep) return;
    const all = newestFirst(this.posts);
    for (const { id } of all.slice(keep)) this.posts.delete(id);
    if (all[keep - 1].id <= this.#floor) return;
    this.#floor = all[keep - 1].id;
    this.next = undefined;
  }
  /** Forgets the newest posts.
   * @param {number} ceiling the id of the newest to keep @param {number} waiting how many wait to be seen then */
  trimNewest(ceiling, waiting) {
    for (const id of [...this.posts.keys()]) if (id > ceiling) this.posts.delete(id);
    this.isDetached = true;
    this.forgotten = waiting;
  }
  /** Of two versions the one edited last stays, with the newer counts. @param {Post} post */
  #merge(post) {
    const known = this.posts.get(post.id);
    // What is pushed is the same for everyone: it does not have the reader's own flags.
    const { liked, favourited, version } = known ?? {};
    const isLater = (post.edited_at ?? 0) >= (known?.edited_at ?? 0);
    if (isLater) this.posts.set(post.id, known ? { liked, favourited, version, ...post } : post);
  }
}

/** @param {Map<number, Post>} posts */
const newestFirst = (posts) => [...posts.values()].sort((a, b) => b.id - a.id);
