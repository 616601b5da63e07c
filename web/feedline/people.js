// Names and pictures of users. Pages bring them along; those of live posts are asked for.

import { BoundedMap } from "./bounded.js";
import { Emitter } from "./emitter.js";

const MAX_PEOPLE = 1000;

/** @typedef {import("./types.js").Person} Person */
/** @extends {Emitter<{change: void}>} */
export class People extends Emitter {
  /** @type {BoundedMap<string, Person>} the one asked for last is the last */
  #people = new BoundedMap(MAX_PEOPLE);
  #connection;

  /** @param {import("./connection.js").Connection} connection */
  constructor(connection) {
    super();
    this.#connection = connection;
  }

  /** A person as far as known: a "change" tells when more is. @param {string} id @returns {Person} */
  get(id) {
    const known = this.#people.get(id);
    this.add({ [id]: known ?? { id, name: id } });
    const failed = (/** @type {{outcome: string}} */ { outcome }) => {
      // One who is not there is not asked for again; after a lost connection, the next `get` asks.
      if (outcome !== "refused") this.#people.delete(id);
    };
    if (!known) this.#connection.rpc("users.get", { id }).then((person) => this.#learn(person), failed);
    return known ?? { id, name: id };
  }

  /** @param {Record<string, Person>} [people] */
  add(people = {}) {
    for (const [id, person] of Object.entries(people)) this.#people.set(id, person);
  }

  /** @param {Person} person */
  #learn({ id, name, avatar }) {
    this.add({ [id]: { id, name, avatar } });
    this.changed();
  }
}
