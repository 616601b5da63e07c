// The official SDK. Records its events in order and gives tests control over its transport.

import { EventSource } from "eventsource";
import WebSocket from "ws";

import { within } from "./wait.mjs";

// The newest version, or the package that the environment names.
const SDK = process.env.FEEDLINE_SDK ?? "centrifuge";
const { Centrifuge } = await import(SDK);
const { Centrifuge: ProtobufCentrifuge } = await import(`${SDK}/build/protobuf`);

const PATIENCE_MS = 10_000;

/** Records events, so that a test can inspect them later. */
export class Recorder {
  #events = [];
  #wakers = new Set();

  add(event) {
    this.#events.push(event);
    for (const wake of this.#wakers) wake();
  }

  /** All events so far. */
  get all() {
    return [...this.#events];
  }

  /** Waits until there are `count` events, and returns the first `count`. */
  async first(count, what = "events") {
    await this.#until(() => this.#events.length >= count, () => `${this.#events.length} of ${count} ${what}`);
    return this.#events.slice(0, count);
  }

  /** Waits for the first event that matches. */
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

/** A network between one client and the server, which a test can cut. */
export class Network {
  #sockets = new Set();
  #cut = false;
  #broken = new AbortController();
  /** The sent and received protocol messages, as `{out}` and `{in}`, one entry per message. */
  wire = new Recorder();
  /** The sent frames, unparsed. */
  frames = new Recorder();
  /** The sent and received binary frames, as `{out}` and `{in}`. */
  binary = new Recorder();

  /** A WebSocket class that runs over this network. */
  get WebSocket() {
    const network = this;
    return class extends WebSocket {
      constructor(url, protocols) {
        // While the network is cut, connections are refused, as if the server were down.
        super(network.#cut ? "ws://127.0.0.1:1" : url, protocols);
        network.#sockets.add(this);
        this.on("close", () => network.#sockets.delete(this));
        this.on("message", (frame, isBinary) => network.#saw("in", frame, isBinary));
      }

      send(frame, ...rest) {
        const isBinary = typeof frame !== "string";
        if (!isBinary) network.frames.add(frame);
        network.#saw("out", frame, isBinary);
        super.send(frame, ...rest);
      }
    };
  }

  /** `fetch` over this network. */
  fetch = (url, options = {}) => {
    if (this.#cut) return Promise.reject(new TypeError("the network is cut"));
    const signals = [options.signal, this.#broken.signal].filter(Boolean);
    return fetch(url, { ...options, signal: AbortSignal.any(signals) });
  };

  /** An EventSource class that runs over this network. */
  get EventSource() {
    const { fetch } = this;
    return class extends EventSource {
      constructor(url, options) {
        super(url, { ...options, fetch });
      }
    };
  }

  #saw(way, frame, isBinary) {
    if (isBinary) {
      this.binary.add({ [way]: frame });
      return;
    }
    for (const line of String(frame).split("\n").filter(Boolean)) this.wire.add({ [way]: JSON.parse(line) });
  }

  /** Breaks the connection without a close frame, and refuses new ones. */
  cut() {
    this.#cut = true;
    for (const socket of this.#sockets) socket.terminate();
    // An AbortError would be the end that the client itself wants.
    this.#broken.abort(new TypeError("the network is cut"));
  }

  mend() {
    this.#cut = false;
    this.#broken = new AbortController();
  }
}

/** An SDK client. Its events are in `connection`, those of server-side channels in `published` and `serverSide`. */
export class Client {
  network = new Network();
  connection = new Recorder();
  published = new Recorder();
  serverSide = new Recorder();

  constructor(url, options) {
    const Sdk = options.protocol === "protobuf" ? ProtobufCentrifuge : Centrifuge;
    this.sdk = new Sdk(url, {
      websocket: this.network.WebSocket,
      fetch: this.network.fetch,
      eventsource: this.network.EventSource,
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

  /** Connects, and waits for the connection. */
  async connected() {
    this.sdk.connect();
    await within(PATIENCE_MS, this.sdk.ready(PATIENCE_MS), "not connected");
    return this;
  }

  /** Connects, and waits for the refusal that closes the client. */
  refused() {
    this.sdk.connect();
    return this.connection.find((event) => event.name === "disconnected", "a refusal");
  }

  /** Creates a subscription that records its events, without subscribing yet. */
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

  /** Subscribes, and waits until the server accepts the subscription. */
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

/** Application data as the Protobuf mode of the SDK takes it. */
export const bytes = (data) => new TextEncoder().encode(JSON.stringify(data));

/** Application data as the Protobuf mode of the SDK returns it. */
export const parsed = (data) => JSON.parse(new TextDecoder().decode(data));

/** Returns the error with which a promise is rejected. */
export async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("this should have been refused");
}
