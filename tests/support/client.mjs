// The official SDK, with its events kept in order and its transport within reach.

import { Centrifuge } from "centrifuge";
import WebSocket from "ws";

import { within } from "./wait.mjs";

const PATIENCE_MS = 10_000;

/** Remembers what happened, for those who come to look later. */
export class Recorder {
  #events = [];
  #wakers = new Set();

  add(event) {
    this.#events.push(event);
    for (const wake of this.#wakers) wake();
  }

  /** Every event so far. */
  get all() {
    return [...this.#events];
  }

  /** The first `count` events, once there are so many. */
  async first(count, what = "events") {
    await this.#until(() => this.#events.length >= count, () => `${this.#events.length} of ${count} ${what}`);
    return this.#events.slice(0, count);
  }

  /** The first event that fits. */
  async find(fits, what = "an event") {
    await this.#until(() => this.#events.some(fits), () => `${what}: none among ${JSON.stringify(this.#events)}`);
    return this.#events.find(fits);
  }

  async #until(holds, message) {
    let wake;
    const reached = new Promise((resolve) => {
      wake = () => holds() && resolve();
      this.#wakers.add(wake);
      wake();
    });
    try {
      await within(PATIENCE_MS, reached, message);
    } finally {
      this.#wakers.delete(wake);
    }
  }
}

/** A network between one client and the server, which can be cut. */
export class Network {
  #sockets = new Set();
  #cut = false;
  /** The frames that left and came, as `{out}` and `{in}`, one entry a message of the protocol. */
  wire = new Recorder();
  /** Whole frames that left. */
  frames = new Recorder();

  /** A WebSocket class that runs over this network. */
  get WebSocket() {
    const network = this;
    return class extends WebSocket {
      constructor(url, protocols) {
        // While the network is cut, connections are refused, as by a server that is not there.
        super(network.#cut ? "ws://127.0.0.1:1" : url, protocols);
        network.#sockets.add(this);
        this.on("close", () => network.#sockets.delete(this));
        this.on("message", (frame) => network.#saw("in", String(frame)));
      }

      send(frame, ...rest) {
        network.frames.add(String(frame));
        network.#saw("out", String(frame));
        super.send(frame, ...rest);
      }
    };
  }

  #saw(way, frame) {
    for (const line of frame.split("\n").filter(Boolean)) this.wire.add({ [way]: JSON.parse(line) });
  }

  /** Tears the connection down without a goodbye and lets no other through. */
  cut() {
    this.#cut = true;
    for (const socket of this.#sockets) socket.terminate();
  }

  mend() {
    this.#cut = false;
  }
}

/** An SDK client. Its events are in `connection`, those of server-side channels in `published` and `serverSide`. */
export class Client {
  network = new Network();
  connection = new Recorder();
  published = new Recorder();
  serverSide = new Recorder();

  constructor(url, options) {
    this.sdk = new Centrifuge(url, {
      websocket: this.network.WebSocket,
      minReconnectDelay: 20,
      maxReconnectDelay: 200,
      timeout: 5_000,
      ...options,
    });
    for (const name of ["connecting", "connected", "disconnected", "error"]) {
      this.sdk.on(name, (context) => this.connection.add({ name, ...context }));
    }
    this.sdk.on("publication", (context) => this.published.add(context));
    for (const name of ["subscribed", "subscribing", "unsubscribed"]) {
      this.sdk.on(name, (context) => this.serverSide.add({ name, ...context }));
    }
  }

  /** Connects, and waits until it is. */
  async connected() {
    this.sdk.connect();
    await within(PATIENCE_MS, this.sdk.ready(PATIENCE_MS), "not connected");
    return this;
  }

  /** Connects, and waits for the refusal that ends it. */
  refused() {
    this.sdk.connect();
    return this.connection.find((event) => event.name === "disconnected", "a refusal");
  }

  /** A subscription with a record of its events; not subscribed yet. */
  channel(name, options) {
    const sub = this.sdk.newSubscription(name, options);
    const [published, joined, left, state] = Array.from({ length: 4 }, () => new Recorder());
    const record = { sub, published, joined, left, state };
    sub.on("publication", (context) => record.published.add(context));
    sub.on("join", (context) => record.joined.add(context));
    sub.on("leave", (context) => record.left.add(context));
    for (const event of ["subscribing", "subscribed", "unsubscribed", "error"]) {
      sub.on(event, (context) => record.state.add({ name: event, ...context }));
    }
    return record;
  }

  /** A subscription, once the server has agreed to it. */
  async subscribed(name, options) {
    const record = this.channel(name, options);
    record.sub.subscribe();
    await record.sub.ready(PATIENCE_MS);
    return record;
  }

  close() {
    this.sdk.disconnect();
  }
}

/** What a promise is rejected with. */
export async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("this should have been refused");
}
