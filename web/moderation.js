// The operations of moderators, with the API key of a backend. The key is in this tab, and goes to this server alone.

import { request } from "./api.js";

const STORED = "feedline.moderation";
const MAX_IDS = 100;

/** The key, should the browser forbid storage: it does not outlive a reload. */
let unstored = null;

/** The key belongs to who signed in when it was entered: `owner` is the name of the session in the page. */
export class ModerationApi {
  #owner;

  constructor(owner = "") {
    this.#owner = owner;
  }

  get key() {
    const kept = unstored ?? read();
    return kept?.owner === this.#owner ? kept.key : null;
  }

  set key(key) {
    unstored = null;
    const kept = { key, owner: this.#owner };
    try {
      if (key) sessionStorage.setItem(STORED, JSON.stringify(kept));
      else sessionStorage.removeItem(STORED);
    } catch {
      unstored = key && kept;
    }
  }

  /** Whether a text can be a key: it is sent in a header. */
  static isKey = (text) => /^[\x21-\x7e]+$/.test(text);

  call(method, path, body, key = this.key) {
    return request(method, path, { key, body });
  }

  /** A page of reports, each with `found`: what is reported, or null. */
  async reports(open, cursor, limit = 20) {
    const query = new URLSearchParams({ open, limit, ...(cursor && { cursor }) });
    const { items, next = null } = await this.call("GET", `/reports?${query}`);
    const find = await this.find(items);
    return { items: items.map((report) => ({ ...report, found: find(report) })), next };
  }

  /**
   * Reads posts, comments and users, each named as in a report. Returns a function that finds what one of them names.
   * A key alone reads what is public: neither what was removed, nor anything of a suspended user.
   */
  async find(named) {
    const ids = (kind) => [...new Set(named.map((one) => one[kind]).filter(Boolean))].slice(0, MAX_IDS);
    const many = async (path, wanted, more = "") =>
      wanted.length > 0 ? this.call("GET", `/${path}?ids=${wanted}${more}`) : { items: [] };
    const user = (id) => this.call("GET", `/users/${encodeURIComponent(id)}`).catch(unlessMissing);
    const [posts, comments, ...users] = await Promise.all([
      many("posts", ids("post"), "&with=people"),
      many("comments", ids("comment")),
      ...ids("user").map(user),
    ]);
    const people = { ...posts.people, ...comments.people };
    const all = { post: posts.items, comment: comments.items, user: users.filter(Boolean) };
    return (one) => {
      const kind = kindOf(one);
      const found = all[kind].find(({ id }) => id === one[kind]);
      // A comment that was removed is there without its author.
      const author = kind === "user" ? found : found?.author && (people[found.author] ?? person(found.author));
      return author ? { ...found, author } : null;
    };
  }
}

/** What a report is of: "post", "comment" or "user". */
export const kindOf = (report) => ["post", "comment", "user"].find((kind) => report[kind] !== undefined);

const person = (id) => ({ id, name: id });

function unlessMissing(error) {
  if (error.code !== 404) throw error;
  return null;
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED));
  } catch {
    return null;
  }
}
