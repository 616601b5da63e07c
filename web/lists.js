// The lists of the user, as tabs, dialogs and the settings show them. The server does not say what other tabs change:
// they are read again with each visit, after each change, and when a lost connection is back.

import { Emitter } from "./emitter.js";
import { updateSession } from "./session.js";

/** Client → the lists of its user. */
const stores = new WeakMap();

/** The lists of the signed-in user. */
export function listsOf(app) {
  const { client } = app;
  if (!stores.has(client)) stores.set(client, new Lists(app, client));
  return stores.get(client);
}

class Lists extends Emitter {
  #app;
  #client;
  /** The number of the last reading, and what it resolves to. */
  #turn = 0;
  #reading = null;
  /** Whether they were read: until then, names are those of the last visit. */
  isRead = false;
  /** Oldest first. */
  items;

  constructor(app, client) {
    super();
    this.#app = app;
    this.#client = client;
    this.items = app.session.lists ?? [];
    client.connection.on("state", ({ name }) => name === "live" && this.refresh());
  }

  find(id) {
    return this.items.find((list) => list.id === id);
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

  /** `{name, exclusive}` → the new list. */
  create(draft) {
    return this.#change("create", draft);
  }

  /** Changes the name, or whether its users are left out of Home. */
  update(id, change) {
    return this.#change("update", { id, ...change });
  }

  delete(id) {
    return this.#change("delete", { id });
  }

  /** Takes a member in or out: `{user}` or `{topic}`. */
  setMember(id, member, isWanted) {
    return this.#change(isWanted ? "add" : "remove", { id, ...member });
  }

  /** The ids of the lists that have a member. */
  async having({ user, topic }) {
    const { connection } = this.#client;
    if (user) return (await connection.rpc("users.lists", { id: user })).items.map(({ id }) => id);
    // Topics are on the first page of the members.
    const asked = this.items.filter(({ topics }) => topics > 0).map(({ id }) =>
      connection.rpc("lists.members", { id, limit: 1 }).then(({ topics }) => topics.includes(topic) && id),
    );
    return (await Promise.all(asked)).filter(Boolean);
  }

  async #read(turn) {
    const { connection } = this.#client;
    const { items } = await connection.insist(() => connection.rpc("lists.list"));
    if (this.#client !== this.#app.client) return;
    // What was asked for later knows better.
    if (turn !== this.#turn) return this.#reading;
    Object.assign(this, { items, isRead: true });
    // The next visit begins with the tabs at their place.
    this.#app.session = { ...this.#app.session, lists: items.map(({ id, name }) => ({ id, name })) };
    updateSession(this.#app.session);
    this.emit();
  }

  async #change(verb, input) {
    const reply = await this.#client.connection.rpc(`lists.${verb}`, input);
    await this.refresh();
    return reply;
  }
}
