// A list that is read page by page and kept live by a channel: what timelines, notifications and others have in common.

import { Emitter } from "./emitter.js";
import { FeedlineError } from "./errors.js";
/** @import { ChannelHandlers, ItemPage, List, Source } from "./types.js" */

const PAGE = 20;
/** The size of the pages that are read on, because the first one was not enough. */ const LONG_PAGE = 100;

/** @template {List} Kind @extends {Emitter<import("./types.js").ListEvents>} */
export class Pages extends Emitter {
  /** @type {"idle" | "loading" | "ready" | "failed"} */ state = "loading";
  /** @type {FeedlineError | null} why it is not read, or not further */ error = null;
  isLoadingOlder = false;
  #source;
  #newList;
  /** @protected @type {(() => void)[]} what ends with this store */
  stops = [];
  /** @protected @type {Kind | null} the list that is being read anew, beside the one that is shown */
  building = null;
  /** @param {import("./client.js").Client} client @param {Source<any>} source @param {() => Kind} newList */
  constructor(client, source, newList) {
    super();
    /** @protected */
    this.client = client;
    this.#source = source;
    this.#newList = newList;
    /** @protected what is shown */
    this.list = newList();
  }

  get hasOlder() { return this.list.isRead && this.list.next !== null; }

  close() {
    this.building = null;
    for (const stop of this.stops.splice(0)) stop();
  }
  /** Reads the list anew. What is shown stays until that is there. */
  async reload() {
    const list = (this.building = this.#newList());
    await this.client.connection.insist(() => this.#read(list), Infinity).catch(() => {});
    if (list !== this.building) return;
    this.building = null;
    if (list.isRead) Object.assign(this, { list, state: "ready", error: null });
    this.changed();
  }
  /** Reads the next page. What fails is asked for again with the next call. */
  async loadOlder() {
    if (this.isLoadingOlder || !this.hasOlder) return;
    Object.assign(this, { isLoadingOlder: true, error: null });
    this.changed();
    await this.#read(this.list).catch(() => {});
    this.isLoadingOlder = false;
    this.changed();
  }
  /** @protected Reads the list, and follows its channel. @param {ChannelHandlers} [handlers] */
  start(handlers) {
    const reload = () => void this.reload();
    if (!this.#source.channel) return reload();
    const subscribed = (/** @type {{recovered: boolean}} */ { recovered }) => recovered || reload();
    const all = { subscribed, unsubscribed: reload, ...handlers };
    this.stops.push(this.client.connection.subscribe(this.#source.channel, all, this.#source));
  }
  /** @protected Whether a list that is read anew has to reach further down. @param {Kind} _list */
  wantsMore(_list) { return false; }
  /** Reads pages until the list grew, and on as long as more is wanted: a page may be empty and not the last one, and a
   * trimmed end has no cursor, so that it is looked for from the top.
   * @param {Kind} list */
  async #read(list) {
    const { method, params } = this.#source;
    const isCurrent = () => list === this.building || list === this.list;
    let cursor = list.next;
    try {
      for (let limit = PAGE; isCurrent(); limit = LONG_PAGE) {
        const input = { ...params, limit, ...(cursor && { cursor }) };
        const page = /** @type {any} */ (await this.client.connection.rpc(method, input));
        this.client.people.add(page.people);
        this.emit("page", page);
        const grew = list.take(page);
        cursor = page.next;
        if (!cursor || (grew && !this.wantsMore(list))) return;
      }
    } catch (cause) {
      if (isCurrent()) this.error = FeedlineError.of(cause);
      if (isCurrent() && !this.list.isRead) this.state = "failed";
      this.changed();
      throw cause;
    }
  }
}

/** A list in the order of its pages. @template {{id: number | string}} Item */
export class ItemList {
  /** @type {Item[]} */ items = [];
  isRead = false;
  /** @type {string | null} the next page's cursor */ next = null;
  /** Takes the next page. @param {ItemPage<Item>} page @returns {boolean} whether there are more items */
  take({ items, next = null }) {
    const known = new Set(this.items.map(({ id }) => id));
    const more = items.filter(({ id }) => !known.has(id));
    this.items = [...this.items, ...more];
    this.isRead = true;
    this.next = next;
    return more.length > 0;
  }
}
