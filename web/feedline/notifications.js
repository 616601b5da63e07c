// Notifications in groups, latest first, with their counts; live in every tab.

import { Emitter } from "./emitter.js";

/** @import { Notification } from "./types.js" */

const PAGE = 20;
const MAX_ITEMS = 200;
/** A count of this stands for as many or more. */
const MAX_COUNT = 100;

/** @extends {Emitter<{change: void}>} */
export class Notifications extends Emitter {
  /** @type {Notification[]} the latest updated first */
  items = [];
  unread = 0;
  unseen = 0;
  /** @type {"loading" | "ready" | "failed"} */
  state = "loading";
  /** @type {string | null} */
  #next = null;
  #reads = 0;
  #isReading = false;
  #connection;

  /** @param {import("./connection.js").Connection} connection @param {string} user */
  constructor(connection, user) {
    super();
    this.#connection = connection;
    connection.subscribe(`notifications:${user}`, {
      subscribed: ({ recovered }) => void ((!recovered || this.state !== "ready") && this.reload()),
      publication: ({ data }) => this.#apply(data),
    }, { byServer: true });
  }

  get hasOlder() {
    return this.#next !== null && this.items.length < MAX_ITEMS;
  }

  /** Reads the first page again; once more, if something arrives meanwhile. */
  async reload() {
    const read = ++this.#reads;
    this.#isReading = true;
    try {
      const page = await this.#connection.rpc("notifications.list", { limit: PAGE });
      if (read !== this.#reads) return;
      this.items = page.items;
      this.state = "ready";
      this.#count(page);
      this.#next = page.next ?? null;
    } catch {
      // Without a connection, the next one reads again.
      if (read === this.#reads && this.state === "loading") this.state = "failed";
    }
    if (read === this.#reads) this.#isReading = false;
    this.changed();
  }

  async loadOlder() {
    const read = this.#reads;
    if (!this.#next) return;
    const params = { limit: PAGE, cursor: this.#next };
    const page = await this.#connection.rpc("notifications.list", params).catch(() => null);
    if (read !== this.#reads || !page) return;
    const known = new Set(this.items.map(({ id }) => id));
    this.items = [...this.items, ...page.items.filter((/** @type {Notification} */ { id }) => !known.has(id))];
    this.#next = page.next ?? null;
    this.changed();
  }

  /** The list was looked at. */
  markSeen() {
    return this.#mark({ seen: true });
  }

  /** Read up to a group in the order of the list, or all. @param {number} [id] */
  markRead(id) {
    return this.#mark({ ...(id !== undefined && { id }) });
  }

  /** At once here, and in the other tabs when the server knows. @param {{id?: number, seen?: boolean}} marking */
  async #mark(marking) {
    this.#marked(marking);
    try {
      this.#count(await this.#connection.rpc("notifications.mark_read", marking));
    } catch {
      await this.reload();
    }
  }

  /** @param {any} event */
  #apply(event) {
    const { type, notification = {}, id = notification.id } = event;
    if (type === "notifications.read") {
      this.#marked(event);
      this.#count(event);
    }
    if (type !== "notification" && type !== "notification.gone") return;
    const others = this.items.filter((item) => item.id !== id);
    // Whether one that is further down is counted already, only the server knows.
    const isCounted = others.length === this.items.length && notification.created_at !== notification.updated_at;
    this.#set(type === "notification" ? [notification, ...others] : others);
    if (isCounted || this.#isReading) this.reload();
  }

  /** @param {{id?: number, seen?: boolean}} marking */
  #marked({ id, seen }) {
    const from = id === undefined ? 0 : this.items.findIndex((item) => item.id === id);
    const mark = seen ? { seen: true } : { seen: true, read: true };
    if (from >= 0) this.#set(this.items.map((item, at) => (at < from ? item : { ...item, ...mark })));
  }

  /** Replaces the groups, and moves the counts by the difference. @param {Notification[]} items */
  #set(items) {
    const moved = (/** @type {"unread" | "unseen"} */ count, /** @type {"read" | "seen"} */ flag) => {
      const marked = (/** @type {Notification} */ item) => item.read || item[flag];
      const more = items.filter((item) => !marked(item)).length - this.items.filter((item) => !marked(item)).length;
      return this[count] < MAX_COUNT ? this[count] + more : this[count];
    };
    this.#count({ unread: moved("unread", "read"), unseen: moved("unseen", "seen") });
    this.items = items.slice(0, MAX_ITEMS);
  }

  /** @param {{unread: number, unseen: number}} counts */
  #count({ unread, unseen }) {
    this.unread = Math.max(0, unread);
    this.unseen = Math.max(0, unseen);
    this.changed();
  }
}
