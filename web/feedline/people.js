// Names and pictures of users. Pages bring them along; those of live posts are asked for.

import { remember } from "./bounded.js";
import { Emitter } from "./emitter.js";
/** @import { Person } from "./types.js" */

const MAX_PEOPLE = 1000;

/** @extends {Emitter<{change: void}>} */
export class People extends Emitter {
  /** @type {Map<string, Person>} the one asked for last is the last */ #people = new Map();
  #connection;
  /** @param {import("./client.js").Client} client */
  constructor({ connection }) {
    super();
    this.#connection = connection;
  }
  /** A person as far as known: a "change" follows when more is. @param {string} id @returns {Person} */
  get(id) {
    const known = this.#people.get(id);
    const person = known ?? { id, name: id };
    this.add({ [id]: person });
    // Who is not there keeps the id as a name.
    if (!known) this.#ask(id).catch(() => {});
    return person;
  }
  /** @param {Record<string, Person>} [people] */
  add(people = {}) {
    for (const [id, person] of Object.entries(people)) remember(this.#people, id, person, MAX_PEOPLE);
  }
  /** @param {string} id */
  async #ask(id) {
    const { name, avatar } = await this.#connection.insist(() => this.#connection.rpc("users.get", { id }));
    this.add({ [id]: { id, name, avatar } });
    this.changed();
  }
}
