// One server for a test file, and clients that are closed whatever happens.

import { after, afterEach, before } from "node:test";

import { Client } from "./client.mjs";
import { Server } from "./server.mjs";

let names = 0;

/** A user id that no other test uses. */
export function someone(name) {
  names += 1;
  return `${name}-${names}`;
}

/** A server for the tests of a file or suite: `setup.server`, and `setup.client(user)` for SDK clients. */
export function withServer(env = () => ({})) {
  const clients = new Set();
  const setup = {
    /** @type {Server} */
    server: null,

    /** An SDK client of a user, not connected yet. */
    client(user, options = {}) {
      const token = user && { token: setup.server.token(user) };
      const client = new Client(setup.server.socketUrl, { ...token, ...options });
      clients.add(client);
      return client;
    },

    /** A connected one. */
    connected: (user, options) => setup.client(user, options).connected(),
  };
  before(async () => {
    setup.server = await Server.start(await env());
  });
  afterEach(() => {
    for (const client of clients) client.close();
    clients.clear();
  });
  after(() => setup.server?.stop());
  return setup;
}
