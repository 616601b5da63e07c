// A timeline as a model, without a page around it: posts by id, newest first, each once.
//
// Pages are read over rpc while the log moves on underneath. Every event has an offset, and every page the offset it
// was read at, so that whichever comes first, the later truth wins.

/** How many departed posts are remembered, lest an older page brings them back. */
const GONE_MOST = 1000;
/** The offset of what this tab did itself, which no page can be older than. */
const OWN = Infinity;

/** The timeline of one user. */
export class Timeline {
  #posts = [];
  /** Id → offset at which it left. */
  #gone = new Map();
  /** Posts older than this belong to pages that are not loaded: kept, but not shown above a gap. */
  #floor = Infinity;
  /** The offset that the first page was read at. */
  #readAt = 0;
  /** Events that came while the first page was being read; null when none is. */
  #meanwhile = null;

  /** Where the next older page begins, or null at the end. */
  next = null;

  /** Whether the first page is there, and nobody began to read it again. */
  isRead = false;

  /** The posts to show, newest first. */
  get visible() {
    return this.#posts.filter((post) => post.id >= this.#floor);
  }

  /** Says that the first page is about to be read: what happens from now on is applied again on top of it. */
  begin() {
    this.isRead = false;
    this.#meanwhile = [];
    this.#readAt = 0;
  }

  /** Takes the first page in place of everything. */
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

  /** Takes an older page. */
  extend(page) {
    for (const post of page.items) {
      const leftAt = this.#gone.get(post.id) ?? 0;
      if (leftAt <= page.position.offset) this.#merge(post);
    }
    this.next = page.next ?? null;
    this.#floor = this.next === null ? 0 : Math.min(this.#floor, ...page.items.map((post) => post.id));
  }

  /** Applies what was pushed. Kinds of events that are not known are stepped over. */
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

  /** Takes an own post away before that is pushed. */
  remove(id) {
    this.apply({ type: "gone", id, reason: "deleted" }, OWN);
  }

  #arrived(post) {
    // What was deleted stays so; what left for another reason may come back.
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

  /** Puts a post where it belongs; of two versions the one edited last stays. */
  #merge(post) {
    const at = this.#place(post.id);
    const known = this.#posts[at];
    if (known?.id !== post.id) this.#posts.splice(at, 0, post);
    else if ((post.edited_at ?? 0) > (known.edited_at ?? 0)) this.#posts[at] = post;
  }

  /** The index of an id, or where it would stand. */
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
