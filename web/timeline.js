// The model of a timeline: posts by id, newest first, each once. It does not know the page.
//
// Pages are read over rpc while the log grows. Every event has an offset, and every page the offset at which it was
// read: whichever arrives first, the later state is kept.

/** The number of removed posts that are remembered, so that an older page does not add them again. */
const GONE_MOST = 1000;
/** The offset of this tab's own changes: every page is older. */
const OWN = Infinity;

/** The timeline of one user. */
export class Timeline {
  #posts = [];
  /** By id, the offset of the removal. */
  #gone = new Map();
  /** Older posts belong to pages that are not loaded: they are kept, but not shown above the gap. */
  #floor = Infinity;
  /** The offset at which the first page was read. */
  #readAt = 0;
  /** Events that arrived while the first page is being read; otherwise null. */
  #meanwhile = null;

  /** The cursor of the next older page, or null at the end. */
  next = null;

  /** Whether the first page is loaded and not being read again. */
  isRead = false;

  /** The posts to show, newest first. */
  get visible() {
    return this.#posts.filter((post) => post.id >= this.#floor);
  }

  /** Call before the first page is read: events from now on are applied again on top of it. */
  begin() {
    this.isRead = false;
    this.#meanwhile = [];
    this.#readAt = 0;
  }

  /** Replaces everything with the first page. */
  fill(page) {
    const meanwhile = this.#meanwhile ?? [];
    this.isRead = true;
    this.#meanwhile = null;
    this.#posts = [];
    this.#gone.clear();
    this.#floor = Infinity;
    this.#readAt = page.position.offset;
    this.extend(page);
    for (const { event, offset } of meanwhile) this.apply(event, offset);
  }

  /** Adds an older page. */
  extend(page) {
    for (const post of page.items) {
      const leftAt = this.#gone.get(post.id) ?? 0;
      if (leftAt <= page.position.offset) this.#merge(post);
    }
    this.next = page.next ?? null;
    this.#floor = this.next === null ? 0 : Math.min(this.#floor, ...page.items.map((post) => post.id));
  }

  /** Applies a pushed event. Unknown types are skipped. */
  apply(event, offset) {
    this.#meanwhile?.push({ event, offset });
    if (offset <= this.#readAt) return;
    if (event.type === "post") this.#arrived(event.post);
    else if (event.type === "edited") this.#edited(event.post);
    else if (event.type === "gone") this.#left(event.id, event.reason === "deleted" ? OWN : offset);
  }

  /** Shows an own post before it is pushed. */
  put(post) {
    this.apply({ type: "post", post }, OWN);
  }

  /** Removes an own post before its removal is pushed. */
  remove(id) {
    this.apply({ type: "gone", id, reason: "deleted" }, OWN);
  }

  #arrived(post) {
    // Deleted posts do not return; posts that were removed for other reasons may.
    if (this.#gone.get(post.id) !== OWN) this.#merge(post);
  }

  #edited(post) {
    if (this.#posts[this.#place(post.id)]?.id === post.id) this.#merge(post);
  }

  #left(id, offset) {
    this.#gone.delete(id);
    this.#gone.set(id, offset);
    if (this.#gone.size > GONE_MOST) this.#gone.delete(this.#gone.keys().next().value);
    const at = this.#place(id);
    if (this.#posts[at]?.id === id) this.#posts.splice(at, 1);
  }

  /** Inserts a post in order; of two versions, the one that was edited last is kept. */
  #merge(post) {
    const at = this.#place(post.id);
    const known = this.#posts[at];
    if (known?.id !== post.id) this.#posts.splice(at, 0, post);
    else if ((post.edited_at ?? 0) > (known.edited_at ?? 0)) this.#posts[at] = post;
  }

  /** The index of an id, or the one at which it would be inserted. */
  #place(id) {
    let low = 0;
    let high = this.#posts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#posts[middle].id > id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
