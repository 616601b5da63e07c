// The topics that the user follows, as their views show them. The server does not say what other tabs change: they are
// read again with each visit, after each change, and when a lost connection is back.

import { Emitter } from "./emitter.js";

/** Client → the followed topics of its user. */
const stores = new WeakMap();

/** The followed topics of the signed-in user. */
export function followedTopicsOf({ client }) {
  if (!stores.has(client)) stores.set(client, new FollowedTopics(client.connection));
  return stores.get(client);
}

class FollowedTopics extends Emitter {
  #connection;
  /** The number of the last reading, and what it resolves to. */
  #turn = 0;
  #reading = null;
  /** Topic → whether it is to be followed: changes that the server has not answered. */
  #pending = new Map();
  /** In the order of the server, which is by name. */
  names = [];

  constructor(connection) {
    super();
    this.#connection = connection;
    connection.on("state", ({ name }) => name === "live" && this.refresh());
  }

  has(name) {
    return this.#pending.get(name) ?? this.names.includes(name);
  }

  /** Reads them anew. */
  read() {
    this.#turn += 1;
    this.#reading = this.#read(this.#turn);
    return this.#reading;
  }

  /** Reads them anew; if that fails, they stay as they are. */
  refresh() {
    return this.read().catch(() => {});
  }

  /** Follows a topic or unfollows it. It changes at once, and back if the server refuses. */
  async set(name, isWanted) {
    this.#pending.set(name, isWanted);
    this.emit();
    try {
      await this.#connection.rpc(`topics.${isWanted ? "" : "un"}follow`, { name });
      const others = this.names.filter((other) => other !== name);
      this.names = isWanted ? [...others, name].sort() : others;
      this.refresh();
    } finally {
      this.#pending.delete(name);
      this.emit();
    }
  }

  async #read(turn) {
    const { items } = await this.#connection.insist(() => this.#connection.rpc("topics.followed"));
    // What was asked for later knows better.
    if (turn !== this.#turn) return this.#reading;
    this.names = items.map(({ name }) => name);
    this.emit();
  }
}
