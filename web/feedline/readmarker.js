// How far the home timeline was read: the same in every tab, never going back.

import { Emitter } from "./emitter.js";

const SEND_AFTER_MS = 500;
/** A count of this stands for as many or more. */ const MAX_COUNT = 100;

/** @extends {Emitter<{change: void}>} */
export class ReadMarker extends Emitter {
  /** The newest post that was seen. */ id = 0;
  /** How many posts of others are newer. */ unread = 0;
  #connection;
  #wanted = 0;
  /** @type {any} */ #timer = null;
  /** @param {import("./client.js").Client} client */
  constructor({ connection, user, timeline }) {
    super();
    this.#connection = connection;
    timeline.on("page", ({ read }) => read && this.#set(read));
    connection.on("state", ({ name }) => name === "live" && this.mark(this.#wanted));
    connection.subscribe(`timeline:${user}`, {
      // The marker is pushed, but not part of the log: another tab may have moved it while this one was away.
      subscribed: ({ recovered }) => void (recovered && this.#take(connection.rpc("timeline.read", { limit: 1 }))),
      publication: ({ data }) => {
        if (data.type === "read") this.#set(data);
        const { author, id = 0 } = (data.type === "post" && data.post) || {};
        if (id > this.id && author !== user) this.#set({ unread: Math.min(MAX_COUNT, this.unread + 1) });
      },
    }, { byServer: true });
  }
  /** Says that this post was on screen. @param {number} id */
  mark(id) {
    this.#wanted = Math.max(this.#wanted, id);
    if (this.#wanted <= this.id || !this.#connection.isLive) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#take(this.#connection.rpc("timeline.mark_read", { id: this.#wanted }));
    }, SEND_AFTER_MS);
  }
  /** @param {Promise<any>} asked */
  async #take(asked) {
    // What fails is said again with the next post that is read, or the next connection.
    const answer = await asked.catch(() => null);
    if (answer) this.#set(answer.read ?? answer);
  }
  /** @param {{id?: number, unread: number}} marker */
  #set({ id = this.id, unread }) {
    if (id < this.id) return;
    Object.assign(this, { id, unread });
    this.changed();
  }
}
