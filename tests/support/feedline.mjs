// The client module against a real server, over a network that a test can cut.

import { after, afterEach, before } from "node:test";

import { Feedline, webSocket } from "../../web/feedline/index.js";
import { Network } from "./client.mjs";
import { Server } from "./server.mjs";
import { poll } from "./wait.mjs";

const PATIENCE_MS = 10_000;

/**
 * Starts a server for the tests of a file or suite. `setup.open(user)` opens clients, which are closed after each test.
 */
export function withFeedline(env = () => ({})) {
  const clients = new Set();
  const setup = {
    /** @type {Server} */
    server: null,

    /** Opens a live client of a user that has read its home timeline. */
    async open(user, options = {}) {
      const network = new Network();
      const transport = webSocket(network.WebSocket);
      const token = setup.server.token(user);
      const feedline = new Feedline({ url: setup.server.socketUrl, user, token, transport, ...options });
      clients.add(feedline);
      feedline.open();
      const { timeline, notifications } = feedline;
      await until(() => timeline.state === "ready" && notifications.state === "ready", "the client is not ready");
      return Object.assign(feedline, { network });
    },
  };
  before(async () => {
    setup.server = await Server.start(await env());
  });
  afterEach(() => {
    for (const feedline of clients) feedline.close();
    clients.clear();
  });
  after(() => setup.server?.stop());
  return setup;
}

/** Waits until a condition holds. */
export function until(holds, message = `not so: ${holds}`) {
  return poll(PATIENCE_MS, holds, message);
}
