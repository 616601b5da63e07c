// A timeline to show: the posts with what is pending, what waits, and what happened to the connection.

import { remember } from "./bounded.js";
import { Pages } from "./pages.js";
import { PostList } from "./posts.js";
/** @import { Draft, Entry, Mark, NewPost, Post, PostListName, Source, SubscribedEvent } from "./types.js" */
/** @import { FeedlineError } from "./errors.js" */

const MAX_MARKS = 5;
const MAX_WATCHED = 30;
const MAX_KEYS = 200;
const NO_COUNTS = { likes: 0, comments: 0, favourites: 0, reposts: 0, quotes: 0 };

/** @extends {Pages<PostList>} */
export class Timeline extends Pages {
  /** @type {Mark[]} newest first */ marks = [];
  /** @type {Draft[]} posts written here that are not stored, oldest first */ #drafts = [];
  /** They are sent one at a time. */
  #sending = Promise.resolve();
  /** @type {Map<number, string>} id → key of what was written here */ #keys = new Map();
  /** @type {Entry[]} what was shown last */ #entries = [];
  /** @type {WeakMap<Post, Entry>} */ #known = new WeakMap();
  /** The newest post that is shown while the reader is further down: newer ones wait. */ #ceiling = Infinity;
  /** @type {Map<number, () => void>} */ #watched = new Map();
  /** @param {import("./client.js").Client} client @param {Source<PostListName>} source */
  constructor(client, source) {
    super(client, source, () => new PostList(["timeline.read", "lists.read"].includes(source.method), client.user));
    this.stops.push(
      client.likes.on("change", (id) => this.#patch(id, {})),
      client.likes.on("settled", ({ id, liked, ...counts }) => (this.#patch(id, { liked }), this.#patch(id, counts))),
      client.connection.on("filters", () => void this.reload()),
      // What was missed is applied first.
      client.connection.on("state", ({ name }) => name === "live" && queueMicrotask(() => this.#refreshLikes())),
      () => this.watch([]),
    );
    const publication = (/** @type {any} */ { data, offset }) => this.apply(data, offset);
    this.start({ subscribed: (event) => this.#subscribed(event), publication });
  }
  /** What to show, newest first: the same array and the same entries until something of them changed. */
  get entries() {
    const drafts = this.#drafts.map(({ entry }) => entry).reverse();
    const stored = this.list.shown.filter((post) => this.#isShown(post)).map((post) => this.#entry(post));
    const entries = [...drafts, ...stored];
    const isSame = entries.length === this.#entries.length && entries.every((one, at) => one === this.#entries[at]);
    return (this.#entries = isSame ? this.#entries : entries);
  }
  /** How many new posts wait while the reader is not at the top. */
  get waiting() {
    return this.list.forgotten + this.list.shown.filter(({ id }) => id > this.#ceiling && !this.#keys.has(id)).length;
  }
  get atTop() { return this.#ceiling === Infinity; }
  /** Says whether the reader is at the top: then arrivals come in at once. */
  set atTop(atTop) {
    if (atTop && !this.atTop) this.showWaiting();
    if (!atTop && this.atTop) this.#ceiling = this.list.newest || Infinity;
  }

  async showWaiting() {
    this.#ceiling = Infinity;
    this.list.forgotten = 0;
    if (this.list.isDetached) await this.reload();
    this.list.trimOldest(this.client.keep);
    this.changed();
  }

  async loadOlder() {
    await super.loadOlder();
    const { shown } = this.list;
    const ceiling = shown.at(-this.client.keep)?.id ?? Infinity;
    if (ceiling >= this.list.newest) return;
    this.list.trimNewest(ceiling, this.waiting);
    this.#ceiling = ceiling;
    this.changed();
  }
  /** Publishes a post, and shows it at once.
   * @param {NewPost} input @param {string} [key] its idempotency key @returns {string} that of its entry
   * @param {number} [after] the newest post that was known when it was written
   * @param {Post} [quoted] the post that it quotes, if the timeline does not have it */
  post(input, key = newKey(), after = this.list.newest, quoted = this.list.find(input.quote ?? 0)) {
    const known = { id: 0, author: this.client.user, text: "", created_at: Date.now(), isLive: true, ...NO_COUNTS };
    /** @type {Post["quote"]} */ const quote = quoted && { id: quoted.id, state: "shown", post: quoted };
    const post = { ...known, ...input, visibility: input.visibility ?? "public", quote };
    const draft = { input, entry: this.#entry(post, key, "pending"), after };
    this.#drafts.push(draft);
    this.#sending = this.#sending.then(() => this.#send(draft));
    this.changed();
    return key;
  }
  /** Tries a failed post again. @param {string} key */
  retry(key) {
    const draft = this.#drafts.find(({ entry }) => entry.key === key);
    // What was refused is answered in the same way again; what is unknown must not be done twice.
    const isRefused = draft?.entry.error?.outcome === "refused";
    const quoted = draft?.entry.post.quote?.post;
    if (draft && this.discard(key)) this.post(draft.input, isRefused ? newKey() : key, draft.after, quoted);
  }
  /** Takes a failed post away, and returns what was to be posted. @param {string} key @returns {NewPost | null} */
  discard(key) {
    const at = this.#drafts.findIndex(({ entry }) => entry.key === key && entry.state === "failed");
    this.changed();
    return at < 0 ? null : this.#drafts.splice(at, 1)[0].input;
  }
  /** Says which posts are on screen: their counts are live. @param {number[]} ids */
  watch(ids) {
    const posts = ids.slice(0, MAX_WATCHED).map((id) => this.list.posts.get(id)?.repost ?? { id, liked: false });
    const wanted = new Set(posts.map(({ id }) => id));
    // A repost that was pushed does not say what the reader likes.
    const unknown = posts.filter(({ liked }) => liked === undefined).map(({ id }) => id);
    if (unknown.length > 0) this.#refresh(unknown).catch(() => {});
    for (const [id, off] of [...this.#watched]) if (!wanted.has(id) && this.#watched.delete(id)) off();
    const join = (/** @type {number} */ id) => this.client.connection.subscribe(`post:${id}`, {
      publication: (/** @type {{data: any}} */ { data }) => {
        const { type, ...counts } = data;
        const { filtered, via } = this.list.find(id) ?? {};
        // No filter applies where a post is followed by its id, and no topic brings it there.
        if (type === "edited" && data.post) this.apply({ ...data, post: { ...data.post, filtered, via } });
        else if (type === "counts") this.#patch(id, counts);
      },
    });
    for (const id of wanted) if (!this.#watched.has(id)) this.#watched.set(id, join(id));
  }
  /** @protected As far down as the reader is. @param {PostList} list */
  wantsMore(list) { return !this.atTop && list.oldest > this.list.oldest && list.posts.size < this.client.keep; }
  /** @param {SubscribedEvent} event */
  #subscribed({ wasRecovering, recovered, missed, lostFor }) {
    if (wasRecovering && this.list.isRead) {
      const posts = missed.filter(({ data }) => data.type === "post" && !this.list.posts.has(data.post.id)).length;
      const [at, kind] = [Date.now(), /** @type {Mark["kind"]} */ (recovered ? "recovered" : "reloaded")];
      const mark = { key: `mark-${at}`, kind, below: this.list.newest, at, lostFor, posts };
      this.marks = [mark, ...this.marks.slice(0, MAX_MARKS - 1)];
    }
    if (!recovered) this.reload();
    this.changed();
  }
  /** Applies an event. What is pushed comes here by itself; what was done here, such as an edit, is shown sooner so.
   * @param {import("./types.js").TimelineEvent} event @param {number} [offset] where it is in the log */
  apply(event, offset) {
    if (event.type === "post") event = { ...event, post: { ...event.post, isLive: true } };
    if (event.type === "reposted") this.client.people.add({ [event.by.id]: event.by });
    this.building?.apply(event, offset);
    const { list } = this;
    if (list.isRead) list.apply(event, offset);
    const isFull = !this.atTop && list.posts.size > 2 * this.client.keep;
    if (list.isDetached || isFull) list.trimNewest(this.#ceiling, this.waiting);
    else if (this.atTop) list.trimOldest(this.client.keep);
    if (list.isStale && !this.building) this.reload();
    this.changed();
  }
  async reload() {
    this.list.isStale = false;
    await super.reload();
    if (this.list.isStale && !this.building) await this.reload();
  }
  /** Reads the counts and the user's flags of posts. @param {number[]} ids */
  async #refresh(ids) {
    const { items } = await this.client.connection.rpc("posts.many", { ids });
    for (const post of items) this.#patch(post.id, post);
  }
  #refreshLikes = () => void this.client.likes.refresh(this.list.shown.map(({ id, repost }) => repost?.id ?? id));
  /** @param {number} id @param {Partial<Post>} more */
  #patch(id, more) { if (this.list.patch(id, more)) this.changed(); }
  /** Whether a post is not above the ceiling, and not a pending one that came before its reply. @param {Post} post */
  #isShown({ id, author, repost }) {
    if (this.#keys.has(id)) return true;
    const isOwn = author === this.client.user && !repost;
    const mayBe = (/** @type {Draft} */ { after, entry }) => id > after && entry.error?.outcome !== "refused";
    return id <= this.#ceiling && !(isOwn && this.#drafts.some(mayBe));
  }
  /** @param {Post} post @param {Entry["state"]} [state] @returns {Entry} */
  #entry(post, key = this.#keys.get(post.id) ?? String(post.id), state = "stored") {
    const { id, isLive = false, repost } = post;
    const like = this.client.likes.view(repost ?? post);
    const counted = { ...(repost ?? post), likes: like.likes, liked: like.liked };
    const shown = repost ? { ...post, repost: counted } : counted;
    const entry = this.#known.get(post) ?? { key, id, post: shown, state, error: null, isLive, like };
    this.#known.set(post, entry);
    return entry;
  }
  /** @param {Draft} draft */
  async #send(draft) {
    const { connection } = this.client;
    const input = { ...draft.input, idempotency_key: draft.entry.key };
    try {
      const post = await connection.insist(() => connection.rpc("posts.create", input));
      this.#drafts.splice(this.#drafts.indexOf(draft), 1);
      remember(this.#keys, post.id, draft.entry.key, MAX_KEYS);
      this.apply({ type: "post", post });
    } catch (error) {
      draft.entry = { ...draft.entry, state: "failed", error: /** @type {FeedlineError} */ (error) };
      this.changed();
    }
  }
}

/** A new idempotency key. (`randomUUID` exists only in secure contexts.) */
export const newKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("-");
