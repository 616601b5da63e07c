// One server per test file, and clients that are always closed after the test.

import { after, afterEach, before } from "node:test";

import { Client } from "./client.mjs";
import { Server } from "./server.mjs";

let names = 0;

/** Returns a user id that no other test uses. */
export function someone(name) {
  names += 1;
  return `${name}-${names}`;
}

/** Starts a server for the tests of a file or suite: `setup.server`, and `setup.client(user)` for SDK clients. */
export function withServer(env = () => ({})) {
  const clients = new Set();
  const setup = {
    /** @type {Server} */
    server: null,

    /**
     * Creates an SDK client of a user, not yet connected. `transport` is another one than WebSocket, and `emulation`
     * another server for its commands.
     */
    client(user, { transport, emulation = setup.server, ...options } = {}) {
      const token = user && { token: setup.server.token(user) };
      const endpoint = transport ? `${setup.server.origin}/connection/${transport}` : setup.server.socketUrl;
      const emulationEndpoint = `${emulation.origin}/emulation`;
      const url = transport ? [{ transport, endpoint }] : endpoint;
      const client = new Client(url, { emulationEndpoint, ...token, ...options });
      clients.add(client);
      return client;
    },

    /** Creates and connects an SDK client. */
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
