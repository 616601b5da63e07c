// The posts of a timeline by id, newest first, each once, whatever order pages and pushes come in.
//
// Pages are read while the log moves on. Every event has an offset, and every page the offset at which it was read, so
// that the later of two truths wins, whichever comes first.
//
// Home and lists hide reposts that repeat what they have: those within a day after the post itself, or after an earlier
// repost of it. They are kept, because the next one is shown if what it repeats leaves.

import { remember } from "./bounded.js";
/** @import { Page, Post, Told } from "./types.js" */
/** @typedef {(post: Post) => Post | null} Change null: it is gone */

/** How many departed posts are remembered, lest an older page brings them back. */ const MAX_GONE = 1000;
/** The offset of a deletion, and of what this client did: no page is newer. */ const FINAL = Infinity;
/** A timeline shows a post once in this time, in milliseconds. */ const DAY = 86_400_000;
/** Ids begin with their time. */ const timeOf = (/** @type {number} */ id) => Math.floor(id / 4096);
/** How many of those who reposted a post are named. */ const MAX_NAMED = 3;

export class PostList {
  /** @type {Map<number, Post>} by id, also those that are not shown */ posts = new Map();
  /** @type {Map<number | string, number>} id, or author of all → offset at which it left */ #gone = new Map();
  /** @type {Map<number, Told>} id → who else reposted it, as a page said */ #told = new Map();
  #hidesRepeats;
  #user;
  isRead = false;
  /** Something may have to be shown that only the server knows: the list is to be read anew. */ isStale = false;
  /** The offset at which the first page was read. */ #readAt = 0;
  /** @type {[any, number][]} events that came before the first page */ #meanwhile = [];
  /** Posts older than this belong to pages that are not loaded: kept, but not shown below a gap. */ #floor = Infinity;
  /** @type {string | null | undefined} the next page's cursor; null at the end, undefined if the end was trimmed */
  next = null;
  /** Whether the newest posts were forgotten: they can only be read anew. */ isDetached = false;
  /** How many that were forgotten wait to be seen. */ forgotten = 0;
  /** @param {boolean} [hidesRepeats] as Home and lists do, unlike other timelines
   * @param {string} [user] whose own reposts are not counted */
  constructor(hidesRepeats = false, user = "") { this.#hidesRepeats = hidesRepeats; this.#user = user; }
  /** The posts without a gap, newest first. */
  get shown() { return newestFirst(this.posts).filter(({ id, isRepeat }) => id >= this.#floor && !isRepeat); }
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
    const isNews = (/** @type {number | string | undefined} */ key) => (this.#gone.get(key ?? "") ?? 0) <= offset;
    for (const post of page.items) {
      if (![post.id, post.author, post.repost?.author].every(isNews)) continue;
      this.#told.delete(post.id);
      if (post.reposted_by) remember(this.#told, post.id, { ...post.reposted_by, at: offset }, MAX_GONE);
      // What a page shows it does not count as a repeat.
      this.#merge(post, offset + 0.5);
    }
    this.next = page.next ?? null;
    this.#floor = this.next === null ? 0 : Math.min(this.#floor, ...page.items.map(({ id }) => id));
    for (const [event, at] of this.#meanwhile.splice(0)) this.apply(event, at);
    return this.oldest < oldest;
  }
  /** Applies what was pushed, or done here. @param {any} event */
  apply(event, offset = FINAL) {
    if (!this.isRead) return void this.#meanwhile.push([event, offset]);
    if (offset > 0 && offset <= this.#readAt) return;
    const { type, post, id, repost, reason, author, by } = event;
    // A deleted post stays so; one that left for another reason may come back.
    const isFinal = this.#gone.get(post?.id ?? repost) === FINAL;
    if (type === "post" && !isFinal) this.#merge(post, offset);
    if (type === "reposted" && !isFinal) {
      this.#merge(/** @type {any} */ ({ id: repost, author: by.id, repost: { id } }), offset);
    }
    if (type === "edited") this.#replace(post.id, (known) => merged(known, post));
    if (type === "gone" && id) {
      this.#remove(id, reason);
      remember(this.#gone, id, reason === "deleted" ? FINAL : offset, MAX_GONE);
    } else if (type === "gone" && author) {
      const all = [...this.posts.values()].flatMap(parts);
      for (const one of all) if (one.author === author) this.#remove(one.id, reason);
      this.isStale ||= this.#told.size > 0;
      remember(this.#gone, author, offset, MAX_GONE);
    }
  }
  /** Changes a post wherever it is, unless a later version of its counts is known.
   * @param {number} id @param {Partial<Post>} more */
  patch(id, more) {
    const isLate = ({ version = 0 }) => more.version !== undefined && more.version < version;
    return this.#replace(id, (post) => (isLate(post) ? post : { ...post, ...more }));
  }
  /** A post of the list, or one that is reposted or quoted in it. @param {number} id @returns {Post | undefined} */
  find(id) {
    return [...this.posts.values()].flatMap(parts).find((one) => one.id === id);
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
  /** @param {Post} post @param {number} offset */
  #merge(post, offset) {
    const known = this.posts.get(post.id);
    if (post.repost) {
      const { at = offset, repost = post.repost } = known ?? {};
      const inner = isStub(post) ? repost : merged(repost, post.repost);
      post = { ...post, at: Math.min(at, offset), repost: inner };
    }
    this.posts.set(post.id, known ? merged(known, post) : post);
    this.#fold(postOf(post));
  }
  /** Changes a post wherever it is: by itself, in reposts, in quotes. @param {number} id @param {Change} change */
  #replace(id, change) {
    let isChanged = false;
    for (const [key, post] of this.posts) {
      const now = replaced(post, id, change);
      if (now && now !== post) this.posts.set(key, now);
      isChanged ||= now !== post;
    }
    return isChanged;
  }
  /** @param {number} id @param {string} reason */
  #remove(id, reason) {
    const left = this.posts.get(id);
    this.posts.delete(id);
    // It left this list only.
    const isHere = ["unfollowed", "unlisted"].includes(reason);
    if (!isHere) {
      // What the reader cannot see is shown to them neither as a repost nor as a quote.
      for (const one of [...this.posts.values()]) if (one.repost?.id === id) this.posts.delete(one.id);
      this.#replace(id, () => null);
    }
    // A filter takes all reposts of a post away.
    if (!this.#hidesRepeats || reason === "filtered" || (left && !left.repost && !isHere)) return;
    const isSame = (/** @type {number} */ of) => !left || postOf(this.posts.get(of) ?? { id: of }) === postOf(left);
    const isCounted = [...this.#told].some(([of, { at }]) => of < id && (left?.at ?? 0) <= at && isSame(of));
    const isRoot = !left && [...this.posts.values()].some((one) => isStub(one) && isWithin(id, one.id));
    this.isStale ||= isRoot || this.#told.has(id) || (isCounted && left?.isRepeat !== false);
    if (left) this.#promote(left);
    if (left) this.isStale ||= this.#mayHideOwn(left);
  }
  /** Shows the repost that a post or repost kept from being shown, now that this one has left. @param {Post} left */
  #promote(left) {
    const all = this.#sourcesOf(postOf(left));
    const next = all.find(({ id }) => id > left.id);
    const before = all.findLast(({ id }) => id < left.id);
    // If it is older than what is loaded, its page will say whether it is shown.
    const isLoaded = next && next.id >= this.#floor;
    if (isLoaded && isStub(next) && isWithin(left.id, next.id) && !isWithin(before?.id, next.id)) {
      const content = [left, ...all].flatMap(parts).find(({ id }) => id === postOf(left));
      // Another may hide it that is not loaded, or is only counted.
      const isCounted = all.some(({ id }) => this.#told.has(id));
      const isKnown = content && !isCounted && !isStub(all[0].id < left.id ? all[0] : left);
      if (isKnown) this.#merge({ ...next, repost: content }, FINAL);
      else this.isStale = true;
    }
    this.#fold(postOf(left));
  }
  /** Whether the reader's own repost may repeat what left: pages do not name it. @param {Post} left */
  #mayHideOwn(left) {
    const { reposts = 0 } = left.repost ?? left;
    const isKnown = [left, ...this.#sourcesOf(postOf(left))].some((one) => one.repost && one.author === this.#user);
    return this.#user !== "" && !isKnown && reposts > (left.repost ? 1 : 0);
  }
  /** What brings a post into the list, oldest first: itself, and reposts of it. @param {number} id */
  #sourcesOf(id) { return newestFirst(this.posts).filter((post) => postOf(post) === id).reverse(); }
  /** Hides the reposts of a post that repeat others, and says who made them. @param {number} id */
  #fold(id) {
    if (!this.#hidesRepeats) return;
    /** @type {Told & {id: number, counted: number} | null} */ let root = null;
    let last = 0;
    for (const post of this.#sourcesOf(id)) {
      const isRepeat = Boolean(post.repost) && (isStub(post) || isWithin(last, post.id));
      const { people = [], count = 0, at = -1 } = this.#told.get(post.id) ?? {};
      last = post.id;
      // The page that was read at `at` has counted everything up to `counted` that was there then.
      if (!isRepeat) root = { id: last, people: [...people], count, at, counted: last };
      else if (root) {
        // What is known in full was shown once: it is counted only if it had become a repeat before the page was read.
        const wasRepeat = isStub(post) || isWithin(root.counted, last);
        const isCounted = wasRepeat && (post.at ?? FINAL) <= root.at;
        if (isCounted || root.people.includes(post.author)) root.counted = last;
        else {
          // The reader's own is not counted, but those that repeat it are.
          const by = post.author === this.#user ? [] : [post.author];
          root.people.push(...by, ...people);
          root.count += by.length + count;
          // What follows was counted for the one that was shown, if at all.
          if (!isStub(post)) Object.assign(root, { at, counted: last });
        }
      }
      if (isRepeat !== Boolean(post.isRepeat)) this.posts.set(post.id, { ...post, isRepeat });
      if (root) this.#sayWho(root);
    }
  }
  /** @param {Told & {id: number}} root */
  #sayWho({ id, people, count }) {
    const post = /** @type {Post} */ (this.posts.get(id));
    const by = count > 0 ? { people: people.slice(0, MAX_NAMED), count } : undefined;
    if (JSON.stringify(by) !== JSON.stringify(post.reposted_by)) this.posts.set(id, { ...post, reposted_by: by });
  }
}

/** The post that a post shows: itself, or the one that it reposts. @param {Pick<Post, "id" | "repost">} post */
const postOf = ({ id, repost }) => repost?.id ?? id;

/** Whether only the ids of a repost are known: it was pushed as one that repeats another. @param {Post} post */
const isStub = ({ repost }) => Boolean(repost && !repost.author);

/** Whether an earlier post or repost keeps a repost from being shown.
 * @param {number | undefined} source @param {number} repost */
const isWithin = (source = 0, repost) =>
  source > 0 && source < repost && timeOf(repost) - timeOf(source) < DAY;

/** A post, the one that it reposts, and the one that is quoted, as far as they are known.
 * @param {Post} post @returns {Post[]} */
function parts({ repost, ...post }) {
  const quoted = (repost ?? post).quote?.post;
  return [post, repost, quoted].flatMap((one) => (one?.author ? [one] : []));
}

/** Of two versions the one edited last, with what is the reader's own: what is pushed is the same for everyone.
 * @template {Post} Kind @param {Kind} known @param {Kind} post @returns {Kind} */
function merged(known, post) {
  const { liked, favourited, can_comment, reposted_by, version } = known;
  const isLater = (post.edited_at ?? 0) >= (known.edited_at ?? 0);
  return isLater ? { liked, favourited, can_comment, reposted_by, version, ...post } : known;
}

/** Changes one post in another: that itself, the one that it reposts, or the one that it quotes.
 * @param {Post} post @param {number} id @param {Change} change @returns {Post | null} */
function replaced(post, id, change) {
  if (post.id === id) return change(post);
  const { repost, quote } = post;
  const inner = repost?.author && replaced(repost, id, change);
  if (inner && inner !== repost) return { ...post, repost: inner };
  const quoted = quote?.post && replaced(quote.post, id, change);
  if (!quote || quoted === quote.post) return post;
  return { ...post, quote: quoted ? { ...quote, post: quoted } : { id: quote.id, state: "unavailable" } };
}

/** @param {Map<number, Post>} posts */
const newestFirst = (posts) => [...posts.values()].sort((a, b) => b.id - a.id);
