// A small client of the protocol: one socket, server-side subscriptions with recovery, rpc.

import { Positions } from "./positions.js";

const CONNECT_TIMEOUT_MS = 10_000;
const REPLY_TIMEOUT_MS = 10_000;
/** How late a ping may be. */
const PING_GRACE_MS = 10_000;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_MOST_MS = 20_000;
/** The code of a close by this client: the server sent none. */
const LOCAL = 0;

/** An error reply to a command, or the refusal of the connection. */
export class WireError extends Error {
  constructor({ code, message, temporary = false, field = null }) {
    super(message);
    Object.assign(this, { code, temporary, field });
  }
}

/** Whether the client must not reconnect after this close code. */
export function isTerminal(code) {
  return (code >= 3500 && code < 4000) || (code >= 4500 && code < 5000);
}

/** The wait before an attempt (0 is the first): full jitter below a ceiling that doubles. */
export function backoff(attempt, random = Math.random) {
  return random() * Math.min(BACKOFF_MOST_MS, BACKOFF_FIRST_MS * 2 ** attempt);
}

/**
 * A connection that reconnects automatically.
 *
 * It calls these handlers:
 * - `state({name, code, reason})`: "connecting", "online", "waiting" (for the next attempt), "offline" (requested) or
 *   "ended" (refused by the server for good);
 * - `subscribed(channel, {wasRecovering, recovered, missed})`: the state of a subscription after a connect;
 * - `publication(channel, {data, offset})`: each once, in order, missed ones first.
 */
export class Connection {
  #url;
  #token;
  #on;
  #env;
  #positions = new Positions();
  #socket = null;
  #wanted = false;
  #online = false;
  #attempt = 0;
  #lastId = 0;
  #waiting = new Map();
  #retryTimer = null;
  #aliveTimer = null;
  #pingMs = 0;
  #pong = false;

  /** Tests replace the browser's functions with `env`. */
  constructor({ url, token, on, env = {} }) {
    this.#url = url;
    this.#token = token;
    this.#on = on;
    this.#env = {
      WebSocket: globalThis.WebSocket,
      setTimeout: (run, ms) => globalThis.setTimeout(run, ms),
      clearTimeout: (timer) => globalThis.clearTimeout(timer),
      random: Math.random,
      ...env,
    };
  }

  get isOnline() {
    return this.#online;
  }

  /** Connects, and reconnects until `close`. */
  open() {
    if (this.#wanted) return;
    this.#wanted = true;
    this.#attempt = 0;
    this.#connect();
  }

  /** Goes offline. The positions are kept, so that `open` recovers missed publications. */
  close() {
    this.#wanted = false;
    this.#leave();
    this.#on.state({ name: "offline" });
  }

  /** Drops the connection, as a network failure would. */
  drop() {
    if (this.#socket) this.#lost(LOCAL, "dropped");
  }

  /** Ends the wait for a retry: the network is back, or the page became visible. */
  nudge() {
    if (this.#retryTimer !== null) this.#connect();
  }

  /** Calls an operation. Rejects with a `WireError`; its code is 0 if there is no connection, or it is lost. */
  rpc(method, data) {
    if (!this.#online) return Promise.reject(new WireError({ code: 0, message: "not connected", temporary: true }));
    return new Promise((resolve, reject) => {
      this.#command({ rpc: { method, data } }, (reply) => resolve(reply.rpc.data), reject);
    });
  }

  #connect() {
    this.#clearRetry();
    this.#on.state({ name: "connecting" });
    let socket;
    try {
      socket = new this.#env.WebSocket(this.#url);
    } catch {
      this.#retry();
      return;
    }
    this.#socket = socket;
    const current = (handle) => (event) => {
      if (socket === this.#socket) handle(event);
    };
    socket.onopen = current(() => this.#hello());
    socket.onmessage = current((event) => this.#frame(event.data));
    socket.onclose = current((event) => this.#lost(event.code, event.reason));
    this.#expectLife(CONNECT_TIMEOUT_MS);
  }

  #hello() {
    const connect = { token: this.#token(), name: "page", subs: this.#positions.requests() };
    this.#command({ connect }, (reply) => this.#welcome(reply.connect), (error) => this.#refused(error));
  }

  #welcome({ subs = {}, ping = 0, pong = false }) {
    this.#attempt = 0;
    this.#online = true;
    this.#pingMs = ping * 1000;
    this.#pong = pong;
    this.#expectPing();
    this.#on.state({ name: "online" });
    for (const [channel, sub] of Object.entries(subs)) this.#subscribed(channel, sub);
  }

  #subscribed(channel, sub) {
    const { was_recovering: wasRecovering = false, recovered = false, publications = [] } = sub;
    this.#positions.start(channel, sub);
    this.#on.subscribed(channel, { wasRecovering, recovered, missed: publications.length });
    for (const publication of publications) this.#publication(channel, publication);
  }

  #publication(channel, publication) {
    if (!this.#positions.advance(channel, publication)) return;
    this.#on.publication(channel, { data: publication.data, offset: publication.offset ?? 0 });
  }

  /** Handles an error reply to a connect: temporary errors are retried, others end the connection. */
  #refused(error) {
    if (!this.#socket) return;
    if (error.temporary) this.#lost(LOCAL, error.message);
    else this.#end(error.code, error.message);
  }

  #frame(text) {
    let messages;
    try {
      messages = String(text).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    } catch {
      this.#lost(LOCAL, "the server violated the protocol");
      return;
    }
    for (const message of messages) {
      // An earlier message may have ended the connection.
      if (this.#socket) this.#message(message);
    }
  }

  #message(message) {
    if (message.id) this.#settle(message);
    else if (message.push) this.#push(message.push);
    else this.#pinged();
  }

  #settle(reply) {
    const command = this.#waiting.get(reply.id);
    if (!command) return;
    this.#waiting.delete(reply.id);
    this.#env.clearTimeout(command.timer);
    if (reply.error) command.failed(new WireError(reply.error));
    else command.done(reply);
  }

  #push({ channel, pub, subscribe, unsubscribe, disconnect }) {
    if (pub) this.#publication(channel, pub);
    else if (subscribe) this.#subscribed(channel, subscribe);
    else if (unsubscribe) this.#positions.forget(channel);
    else if (disconnect) this.#lost(disconnect.code, disconnect.reason);
  }

  #pinged() {
    this.#expectPing();
    if (this.#pong) this.#socket.send("{}");
  }

  /**
   * Sends a command; `done` or `failed` is called with its reply. Callbacks, not promises: the reply to a connect must
   * be handled before the pushes that follow it in the same frame.
   */
  #command(command, done, failed) {
    const id = ++this.#lastId;
    const timer = this.#env.setTimeout(() => {
      this.#waiting.delete(id);
      failed(new WireError({ code: 0, message: "the server does not answer", temporary: true }));
    }, REPLY_TIMEOUT_MS);
    this.#waiting.set(id, { done, failed, timer });
    this.#socket.send(JSON.stringify({ ...command, id }));
  }

  #expectPing() {
    if (this.#pingMs > 0) this.#expectLife(this.#pingMs + PING_GRACE_MS);
    else this.#env.clearTimeout(this.#aliveTimer);
  }

  #expectLife(ms) {
    this.#env.clearTimeout(this.#aliveTimer);
    this.#aliveTimer = this.#env.setTimeout(() => this.#lost(LOCAL, "the server is silent"), ms);
  }

  #lost(code, reason) {
    if (isTerminal(code)) {
      this.#end(code, reason);
      return;
    }
    this.#leave();
    this.#retry(reason);
  }

  #end(code, reason) {
    this.#wanted = false;
    this.#leave();
    this.#on.state({ name: "ended", code, reason });
  }

  #retry(reason) {
    this.#on.state({ name: "waiting", reason });
    const wait = backoff(this.#attempt++, this.#env.random);
    this.#retryTimer = this.#env.setTimeout(() => this.#connect(), wait);
  }

  /** Drops the socket and fails all commands that wait for it. */
  #leave() {
    this.#clearRetry();
    this.#env.clearTimeout(this.#aliveTimer);
    this.#online = false;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { failed, timer } of waiting) {
      this.#env.clearTimeout(timer);
      failed(new WireError({ code: 0, message: "the connection was lost", temporary: true }));
    }
  }

  #clearRetry() {
    this.#env.clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
  }
}
