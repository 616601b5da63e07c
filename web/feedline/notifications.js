// Notifications in groups, latest first, with their counts; live in every tab.

import { ItemList, Pages } from "./pages.js";
/** @import { Notification } from "./types.js" */
/** @typedef {{position?: number, id?: number, seen?: boolean}} Marking */

const MAX_ITEMS = 200;
/** A count of this stands for as many or more. */ const MAX_COUNT = 100;

/** @extends {Pages<ItemList<Notification>>} */
export class Notifications extends Pages {
  unread = 0;
  unseen = 0;
  /** @param {import("./client.js").Client} client */
  constructor(client) {
    const source = { method: "notifications.list", channel: `notifications:${client.user}`, byServer: true };
    super(client, source, () => new ItemList());
    this.on("page", (page) => this.#count(page));
    this.stops.push(client.connection.on("filters", () => void this.reload()));
    this.start({ publication: ({ data }) => this.#apply(data) });
  }
  /** The latest updated first. @returns {Notification[]} */
  get items() { return this.list.items; }
  get hasOlder() { return super.hasOlder && this.items.length < MAX_ITEMS; }
  /** The list was looked at. */
  markSeen = () => this.#mark({ position: this.#positionOf(), seen: true });
  /** Read up to a group as it is listed, or all that is listed. @type {(id?: number) => Promise<void>} */
  markRead = (id) => this.#mark({ position: this.#positionOf(id), id });
  /** The position of a group, or the greatest one; undefined if it is not listed. @param {number} [id] */
  #positionOf(id) {
    const listed = this.items.filter((item) => id === undefined || item.id === id);
    return listed.length > 0 ? Math.max(...listed.map(({ position }) => position)) : undefined;
  }
  /** At once here, and in the other tabs when the server knows. @param {Marking} marking */
  #mark(marking) {
    this.#marked(marking);
    const asked = this.client.connection.rpc("notifications.mark_read", marking);
    return asked.then((counts) => this.#count(counts), () => this.reload());
  }
  /** @param {any} event */
  #apply(event) {
    const { type, notification = {}, id = notification.id } = event;
    if (type === "filters.changed") return this.client.connection.emit("filters", event);
    if (!/^notification(.gone)?$/.test(type)) return type === "notifications.read" && this.#marked(event);
    const others = this.items.filter((item) => item.id !== id);
    // Whether one that is further down is counted already, only the server knows.
    const isCounted = others.length === this.items.length && notification.created_at !== notification.updated_at;
    // A group that lost somebody stays at its place.
    const at = this.items.findIndex((item) => item.id === id && item.updated_at === notification.updated_at);
    if (type === "notification") others.splice(Math.max(0, at), 0, notification);
    this.#set(others);
    if (isCounted || this.building) this.reload();
  }
  /** @param {Marking & {unread?: number, unseen?: number}} marking */
  #marked({ position = 0, seen, unread, unseen }) {
    const mark = seen ? { seen: true } : { seen: true, read: true };
    this.#set(this.items.map((item) => (item.position > position ? item : { ...item, ...mark })));
    this.#count({ unread, unseen });
  }
  /** Replaces the groups, and moves the counts by the difference. @param {Notification[]} items */
  #set(items) {
    const moved = (/** @type {number} */ count, /** @type {"read" | "seen"} */ flag) =>
      count < MAX_COUNT ? count + countOpen(items, flag) - countOpen(this.items, flag) : count;
    this.#count({ unread: moved(this.unread, "read"), unseen: moved(this.unseen, "seen") });
    this.list.items = items.slice(0, MAX_ITEMS);
  }
  /** @param {{unread?: number, unseen?: number}} counts */
  #count({ unread = this.unread, unseen = this.unseen }) {
    this.unread = Math.max(0, unread);
    this.unseen = Math.max(0, unseen);
    this.changed();
  }
}

/** @param {Notification[]} items @param {"read" | "seen"} flag */
const countOpen = (items, flag) => items.filter((item) => !item.read && !item[flag]).length;
