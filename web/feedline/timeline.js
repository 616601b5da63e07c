// A timeline to show: the posts with what is pending, what waits, and what happened to the connection.

import { BoundedMap } from "./bounded.js";
import { Emitter } from "./emitter.js";
import { FeedlineError, backoff } from "./errors.js";
import { PostList } from "./posts.js";

/** @import { Draft, Entry, Mark, NewPost, Page, Post, Source, SubscribedEvent, TimelineContext } from "./types.js" */

const PAGE = 20;
const LONG_PAGE = 100;
const MAX_MARKS = 5;
const MAX_WATCHED = 30;
const MAX_KEYS = 200;

/** @extends {Emitter<{change: void, page: Page, recovered: void}>} */
export class Timeline extends Emitter {
  /** @type {"loading" | "ready" | "failed"} */
  state = "loading";
  /** @type {FeedlineError | null} */
  error = null;
  /** @type {Mark[]} newest first */
  marks = [];
  isLoadingOlder = false;
  #context;
  #source;
  #list = new PostList();
  /** @type {PostList | null} the list that is being read anew, beside the one that is shown */
  #building = null;
  #isStale = true;
  /** @type {Entry[] | null} */
  #entries = null;
  /** @type {WeakMap<Post, Entry>} */
  #known = new WeakMap();
  #atTop = true;
  /** Newer posts wait. */
  #ceiling = Infinity;
  /** Whether posts above the ceiling were forgotten: they can only be read anew. */
  #isDetached = false;
  #forgotten = 0;
  #recovering = 0;
  #attempt = 0;
  /** @type {Draft[]} oldest first */
  #drafts = [];
  /** @type {BoundedMap<number, string>} id → key of what was written here */
  #keys = new BoundedMap(MAX_KEYS);
  /** @type {Map<number, () => void>} */
  #watched = new Map();
  /** @type {(() => void)[]} */
  #offs;

  /** @param {TimelineContext} context @param {Source} source */
  constructor(context, source) {
    super();
    this.#context = context;
    this.#source = source;
    const { connection, likes } = context;
    this.#offs = [
      likes.on("change", (id) => this.#patch(id, {})),
      likes.on("settled", ({ id, liked, ...counts }) => (this.#patch(id, { liked }), this.#patch(id, counts))),
      connection.on("state", ({ name }) => name === "live" && this.#sendDrafts()),
    ];
    const handlers = {
      subscribed: (/** @type {SubscribedEvent} */ event) => this.#subscribed(event),
      publication: (/** @type {any} */ { data, offset }) => this.#apply(data, offset),
      unsubscribed: () => this.reload(),
    };
    if (source.channel) this.#offs.push(connection.subscribe(source.channel, handlers, source));
    else this.reload();
  }

  close() {
    this.watch([]);
    this.#building = null;
    for (const off of this.#offs.splice(0)) off();
  }

  /** What to show, newest first: an entry is a new object when anything of it changed. */
  get entries() {
    if (this.#entries) return this.#entries;
    const drafts = this.#drafts.map(({ entry }) => entry).reverse();
    const stored = this.#list.shown.filter((post) => this.#isShown(post)).map((post) => this.#entry(post));
    return (this.#entries = [...drafts, ...stored]);
  }

  get hasOlder() {
    return this.#list.isRead && this.#list.next !== null;
  }

  /** How many new posts wait while the reader is not at the top. */
  get waiting() {
    return this.#forgotten + this.#waitingPosts().length;
  }

  get atTop() {
    return this.#atTop;
  }

  /** Says whether the reader is at the top: then arrivals come in at once. */
  set atTop(atTop) {
    if (atTop === this.#atTop) return;
    this.#atTop = atTop;
    if (atTop) this.showWaiting();
    else this.#ceiling = this.#list.shown[0]?.id ?? Infinity;
  }

  async showWaiting() {
    this.#ceiling = Infinity;
    this.#forgotten = 0;
    this.#atTop = true;
    if (this.#isDetached) await this.reload();
    this.#list.trimOldest(this.#context.keep);
    this.#touch();
  }

  /** Reads the timeline anew, as far down as the reader is. What is shown stays until that is there. */
  async reload() {
    const list = (this.#building = new PostList());
    const down = this.#atTop ? Infinity : this.#list.oldest;
    this.#isStale = true;
    try {
      do {
        const page = await this.#read(list.next, this.#atTop ? PAGE : LONG_PAGE);
        if (list !== this.#building) return;
        list.take(page);
      } while (list.next && list.oldest > down && list.size < this.#context.keep);
      this.#list = list;
      this.#isStale = this.#isDetached = false;
      this.#forgotten = this.#attempt = 0;
      this.state = "ready";
      this.error = null;
    } catch (cause) {
      if (list !== this.#building) return;
      this.error = FeedlineError.of(cause);
      if (!this.#list.isRead) this.state = "failed";
      // Without a connection, the next one asks again.
      const again = () => this.#isStale && !this.#building && this.#offs.length > 0 && this.reload();
      const wait = 1_000 + backoff(this.#attempt++);
      if (this.error.temporary && this.#context.connection.isLive) setTimeout(again, wait);
    }
    this.#building = null;
    this.#touch();
  }

  async loadOlder() {
    const list = this.#list;
    if (this.isLoadingOlder || !this.hasOlder) return;
    this.isLoadingOlder = true;
    this.#touch();
    const { oldest } = list;
    try {
      // A trimmed end has no cursor: then it is looked for from the top. A page may be empty and not the last one.
      let cursor = list.next;
      const limit = cursor === undefined ? LONG_PAGE : PAGE;
      do {
        const page = await this.#read(cursor, limit);
        if (list !== this.#list) return;
        list.take(page);
        cursor = page.next;
      } while (cursor && list.oldest >= oldest);
      const excess = list.shown.length - this.#context.keep;
      if (excess > 0) this.#detach(list.shown[excess].id);
      this.error = null;
    } catch (error) {
      // It is asked for again with the next scroll.
      this.error = FeedlineError.of(error);
    }
    this.isLoadingOlder = false;
    this.#touch();
  }

  /** Publishes a post, and shows it at once. @param {NewPost} input @returns {string} the key of its entry */
  post(input) {
    const key = newKey();
    const { user: author } = this.#context;
    const counts = { likes: 0, comments: 0, favourites: 0 };
    const visibility = input.visibility ?? "public";
    const post = { id: 0, author, text: "", created_at: Date.now(), ...counts, ...input, visibility, isLive: true };
    const entry = this.#newEntry(post, key, "pending");
    this.#drafts.push({ input, entry, idempotencyKey: key, isAsking: false, wasSent: false, after: 0, attempt: 0 });
    this.#sendDrafts();
    this.#touch();
    return key;
  }

  /** Tries a failed post again. @param {string} key */
  retry(key) {
    const draft = this.#drafts.find(({ entry }) => entry.key === key && entry.state === "failed");
    if (!draft) return;
    // What was refused is answered in the same way again; what is unknown must not be done twice.
    if (draft.entry.error?.outcome === "refused") draft.idempotencyKey = newKey();
    draft.attempt = 0;
    this.#show(draft, { state: "pending", error: null });
    this.#sendDrafts();
  }

  /** Takes a failed post away, and returns what was to be posted. @param {string} key @returns {NewPost | null} */
  discard(key) {
    const at = this.#drafts.findIndex(({ entry }) => entry.key === key && entry.state === "failed");
    this.#touch();
    return at < 0 ? null : this.#drafts.splice(at, 1)[0].input;
  }

  /** @param {number} id @param {object} change @returns {Promise<Post>} */
  async edit(id, change) {
    const post = await this.#context.connection.rpc("posts.edit", { ...change, id });
    this.#apply({ type: "edited", post });
    return post;
  }

  /** @param {number} id */
  async delete(id) {
    await this.#context.connection.rpc("posts.delete", { id });
    this.#apply({ type: "gone", id, reason: "deleted" });
  }

  /** Says which posts are on screen: their counts are live. @param {number[]} ids */
  watch(ids) {
    const wanted = new Set(ids.slice(0, MAX_WATCHED));
    for (const [id, off] of [...this.#watched]) if (!wanted.has(id) && this.#watched.delete(id)) off();
    for (const id of wanted) {
      if (!this.#watched.has(id)) this.#watched.set(id, this.#context.connection.subscribe(`post:${id}`, {
        publication: ({ data: { type, id, ...counts } }) => type === "counts" && this.#patch(id, counts),
      }));
    }
  }

  /** @param {string | null | undefined} cursor @param {number} limit @returns {Promise<Page>} */
  async #read(cursor, limit) {
    const { method, params } = this.#source;
    const page = await this.#context.connection.rpc(method, { ...params, limit, ...(cursor && { cursor }) });
    this.#context.people.add(page.people);
    this.emit("page", page);
    return page;
  }

  /** @param {SubscribedEvent} event */
  #subscribed({ wasRecovering, recovered, missed, lostFor }) {
    this.#recovering = recovered ? missed : 0;
    if (wasRecovering && this.#list.isRead) {
      const [at, below] = [Date.now(), this.#list.shown[0]?.id ?? 0];
      const kind = recovered ? "recovered" : "reloaded";
      this.marks = [{ key: `mark-${at}`, kind, below, at, lostFor, posts: 0 }, ...this.marks.slice(0, MAX_MARKS - 1)];
    }
    if (!recovered || this.#isStale) this.reload();
    else this.emit("recovered", undefined);
    this.#touch();
  }

  /** @param {any} event @param {number} [offset] */
  #apply(event, offset) {
    if (event.type === "post") event = { ...event, post: { ...event.post, isLive: true } };
    this.#building?.apply(event, offset);
    const isNew = this.#list.isRead && this.#list.apply(event, offset);
    if (this.#recovering > 0 && this.#recovering-- && isNew) this.marks[0].posts += 1;
    if (this.#isDetached) {
      this.#forgotten += Number(isNew && event.post.id > this.#ceiling);
      this.#list.trimNewest(this.#ceiling);
    } else if (this.#atTop) this.#list.trimOldest(this.#context.keep);
    else if (this.#list.size > 2 * this.#context.keep) this.#detach(this.#ceiling);
    this.#touch();
  }

  /** @param {number} id @param {Partial<Post>} more */
  #patch(id, more) {
    if (this.#list.patch(id, more)) this.#touch();
  }

  /** Forgets what is above: it can be read anew. @param {number} ceiling */
  #detach(ceiling) {
    this.#forgotten = this.waiting;
    this.#isDetached = true;
    this.#atTop = false;
    this.#ceiling = ceiling;
    this.#list.trimNewest(ceiling);
  }

  #waitingPosts() {
    return this.#list.shown.filter(({ id }) => id > this.#ceiling && !this.#keys.has(id));
  }

  /** Whether a post is not above the ceiling, and not a pending one that came before its reply. @param {Post} post */
  #isShown({ id, author }) {
    if (this.#keys.has(id)) return true;
    const isOwn = author === this.#context.user;
    return id <= this.#ceiling && !(isOwn && this.#drafts.some(({ wasSent, after }) => wasSent && id > after));
  }

  /** @param {Post} post @returns {Entry} */
  #entry(post) {
    const key = this.#keys.get(post.id) ?? String(post.id);
    const entry = this.#known.get(post) ?? this.#newEntry(post, key, "stored");
    this.#known.set(post, entry);
    return entry;
  }

  /** @param {Post} post @param {string} key @param {Entry["state"]} state @returns {Entry} */
  #newEntry(post, key, state) {
    const like = this.#context.likes.view(post);
    const shown = { ...post, likes: like.likes, liked: like.liked };
    return { key, id: post.id, post: shown, state, isSending: false, error: null, isLive: post.isLive ?? false, like };
  }

  /** Sends what was written, in its order, one at a time. */
  async #sendDrafts() {
    const draft = this.#drafts.find(({ entry }) => entry.state === "pending");
    if (!draft || draft.isAsking || !this.#context.connection.isLive) return;
    if (!draft.wasSent) draft.after = this.#list.shown[0]?.id ?? 0;
    draft.isAsking = draft.wasSent = true;
    this.#show(draft, { isSending: true });
    try {
      const input = { ...draft.input, idempotency_key: draft.idempotencyKey };
      const post = await this.#context.connection.rpc("posts.create", input);
      this.#keys.set(post.id, draft.entry.key);
      this.#drafts.splice(this.#drafts.indexOf(draft), 1);
      this.#apply({ type: "post", post });
    } catch (cause) {
      const error = FeedlineError.of(cause);
      draft.isAsking = false;
      if (error.outcome === "refused") draft.wasSent = false;
      const isOver = !error.temporary || ++draft.attempt > 8;
      this.#show(draft, { isSending: false, ...(isOver && { state: "failed", error }) });
      // Without a connection, the next one sends again.
      if (!isOver && error.reason !== "lost") setTimeout(() => this.#sendDrafts(), backoff(draft.attempt));
      if (!isOver) return;
    }
    this.#sendDrafts();
  }

  /** @param {Draft} draft @param {Partial<Entry>} more */
  #show(draft, more) {
    draft.entry = { ...draft.entry, ...more };
    this.#touch();
  }

  #touch() {
    this.#entries = null;
    this.changed();
  }
}

/** A new idempotency key. (`randomUUID` exists only in secure contexts.) */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-");
}
