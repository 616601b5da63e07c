// How far the home timeline was read: the same in every tab, never going back.

import { Emitter } from "./emitter.js";

/** @import { Connection } from "./connection.js" */
/** @import { Timeline } from "./timeline.js" */

const SEND_AFTER_MS = 500;
/** A count of this stands for as many or more. */
const MAX_COUNT = 100;

/** @extends {Emitter<{change: void}>} */
export class ReadMarker extends Emitter {
  /** The newest post that was seen. */
  id = 0;
  /** How many posts of others are newer. */
  unread = 0;
  #connection;
  #wanted = 0;
  /** @type {any} */
  #timer = null;

  /** @param {Connection} connection @param {string} user @param {Timeline} home the home timeline */
  constructor(connection, user, home) {
    super();
    this.#connection = connection;
    home.on("page", ({ read }) => read && this.#set(read));
    // The marker is pushed, but not part of the log: another tab may have moved it while this one was away.
    home.on("recovered", () => this.#send("timeline.read", { limit: 1 }));
    connection.on("state", ({ name }) => name === "live" && this.mark(this.#wanted));
    const publication = (/** @type {{data: any}} */ { data }) => {
      if (data.type === "read") this.#set(data);
      const isUnread = data.type === "post" && data.post.author !== user && data.post.id > this.id;
      if (isUnread) this.#set({ id: this.id, unread: Math.min(MAX_COUNT, this.unread + 1) });
    };
    connection.subscribe(`timeline:${user}`, { publication }, { byServer: true });
  }

  /** Says that this post was on screen. @param {number} id */
  mark(id) {
    this.#wanted = Math.max(this.#wanted, id);
    if (this.#wanted <= this.id || this.#timer || !this.#connection.isLive) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#send("timeline.mark_read", { id: this.#wanted });
    }, SEND_AFTER_MS);
  }

  /** @param {string} method @param {object} params */
  async #send(method, params) {
    // What fails is said again with the next post that is read, or the next connection.
    const answer = await this.#connection.rpc(method, params).catch(() => null);
    if (answer) this.#set(answer.read ?? answer);
  }

  /** @param {{id: number, unread: number}} marker */
  #set({ id, unread }) {
    if (id < this.id) return;
    this.id = id;
    this.unread = unread;
    this.changed();
  }
}
