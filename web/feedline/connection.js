// One connection that comes back by itself: commands, pings and tokens here, the channels in subscriptions.js.

import { Emitter } from "./emitter.js";
import { FeedlineError, backoff, isTerminal } from "./errors.js";
import { Subscriptions } from "./subscriptions.js";
import { webSocket } from "./transport.js";

/** @import { ChannelHandlers, Command, CommandOptions, SubscribeOptions } from "./types.js" */
/** @import { ConnectReply, Message } from "./types.js" */

const TIMEOUT_MS = 10_000;
const PROBE_TIMEOUT_MS = 5_000;
/** A connection that was silent for so long is asked for a sign of life when the page wakes up. */
const PROBE_AFTER_MS = 5_000;
/** How much later than announced a ping may come. */
const PING_GRACE_MS = 10_000;
/** A connection that held for so long ends a series of attempts. */
const STABLE_MS = 5_000;
const MAX_TIMER_MS = 2 ** 31 - 1;
const TOKEN_EXPIRED = 109;
const TOKEN_INVALID = 3500;

/** @extends {Emitter<import("./types.js").ConnectionEvents>} */
export class Connection extends Emitter {
  /** @type {import("./types.js").ConnectionState} */
  state;
  #options;
  #subscriptions = new Subscriptions(this);
  /** @type {import("./types.js").Transport | null} */
  #transport = null;
  /** @type {Map<number, Command>} */
  #commands = new Map();
  /** @type {string[]} commands of this task: they leave in one frame */
  #outgoing = [];
  #lastId = 0;
  #attempt = 0;
  /** Counts connections, so that a token that comes late is not used for a later one. */
  #generation = 0;
  #token;
  /** @type {Record<string, any>} */
  #timers = {};
  #ping = { ms: 0, pong: false };
  #heardAt = 0;
  #wasLiveAt = 0;

  /** @param {import("./types.js").ConnectionOptions} options */
  constructor(options) {
    super();
    this.#options = options;
    this.#token = options.token ?? "";
    this.state = { name: "offline", since: Date.now() };
  }

  get isLive() {
    return this.state.name === "live";
  }

  /** Connects and stays connected, until `close`. */
  open() {
    if (this.#isWanted) return;
    this.#setState({ name: "connecting" });
    this.#attempt = 0;
    this.#watchPage("addEventListener");
    this.#connect();
  }

  /** Goes offline. The positions stay, so that `open` recovers what happens meanwhile. */
  close() {
    if (this.#isWanted) this.#leave({ name: "offline" });
  }

  /** Loses the connection, as a tunnel would. */
  drop = () => {
    if (this.#transport) this.#lost(0, "dropped");
  };

  /** Retries at once. A live connection is asked for a sign of life: after sleep it may be dead without knowing. */
  nudge = () => {
    if (globalThis.document?.visibilityState === "hidden") return;
    if (this.#timers.retry) this.#connect();
    else if (this.isLive && Date.now() - this.#heardAt > PROBE_AFTER_MS) {
      const probed = this.#transport;
      // The reply is an error: as good a sign of life as any.
      this.command({ ping: {} }, { timeoutMs: PROBE_TIMEOUT_MS }).catch(({ reason }) => {
        if (reason === "timeout" && probed === this.#transport) this.#lost(0, "no answer");
      });
    }
  };

  /**
   * Calls an operation. Waits for the connection first; the timeout covers both. Rejects with a FeedlineError.
   * @param {string} method @param {object} [params] @param {CommandOptions} [options] @returns {Promise<any>}
   */
  async rpc(method, params = {}, options = {}) {
    return (await this.command({ rpc: { method, data: params } }, options)).rpc.data;
  }

  /**
   * Sends any command of the protocol, such as `{ presence: { channel } }`, and returns its reply.
   * @param {Record<string, any>} body @param {CommandOptions} [options] @returns {Promise<any>}
   */
  command(body, { timeoutMs = TIMEOUT_MS, first = false, answered } = {}) {
    return new Promise((resolve, failed) => {
      const id = ++this.#lastId;
      const timer = setTimeout(() => {
        this.#take(id)?.failed(failure("timeout", "the server does not answer", command.isSent));
      }, timeoutMs);
      const done = (/** @type {any} */ reply) => (answered?.(reply), resolve(reply));
      const command = { body, done, failed, timer, isSent: false };
      this.#commands.set(id, command);
      if (first || this.isLive) this.#send(id, command, first);
      else if (!this.#isWanted) this.#fail(() => true, "offline");
    });
  }

  /**
   * Joins a channel. `subscribed` with `recovered: false` asks to read its state, also of the second who joins.
   * @param {string} channel @param {ChannelHandlers} handlers @param {SubscribeOptions} [options]
   * @returns {() => void} leaves it
   */
  subscribe(channel, handlers, options = {}) {
    return this.#subscriptions.add(channel, handlers, options);
  }

  get #isWanted() {
    return this.state.name !== "offline" && this.state.name !== "ended";
  }

  /** The browser knows of the network and of sleep. @param {"addEventListener" | "removeEventListener"} how */
  #watchPage(how) {
    globalThis[how]?.("online", this.nudge);
    globalThis[how]?.("offline", this.drop);
    globalThis.document?.[how]("visibilitychange", this.nudge);
  }

  async #connect() {
    this.#timer("retry");
    const generation = ++this.#generation;
    if (this.state.name === "lost") this.#setState({ ...this.state, retryAt: null });
    try {
      if (!this.#token && this.#options.getToken && !(await this.#renewToken())) return;
      const url = new URL(this.#options.url, globalThis.location?.href);
      this.#timer("alive", TIMEOUT_MS, () => this.#lost(0, "no answer"));
      this.#transport = (this.#options.transport ?? webSocket())(url.href, {
        open: () => this.#hello(),
        frame: (frame) => this.#frame(frame),
        close: (code, reason) => this.#lost(code, reason),
      });
    } catch (error) {
      if (generation === this.#generation) this.#lost(0, FeedlineError.of(error).message);
    }
  }

  #hello() {
    const { name = "feedline-js" } = this.#options;
    const connect = { ...(this.#token && { token: this.#token }), name, subs: this.#subscriptions.requests() };
    const answered = (/** @type {any} */ reply) => this.#welcome(reply.connect);
    this.command({ connect }, { first: true, answered }).catch((error) => {
      if (!this.#transport) return;
      const canRenew = error.code === TOKEN_EXPIRED && this.#options.getToken;
      if (canRenew) this.#token = "";
      if (error.temporary || canRenew) this.#lost(0, error.message);
      else this.#end(error.code, error.message);
    });
  }

  /** @param {ConnectReply} reply */
  #welcome({ subs = {}, ping = 0, pong = false, expires, ttl = 0, session, node }) {
    this.#transport?.established?.({ session, node });
    this.#ping = { ms: ping * 1000, pong };
    this.#expectPing();
    if (expires) this.#refreshAfter(ttl);
    this.#setState({ name: "live" });
    this.#subscriptions.connected(subs, this.#wasLiveAt && Date.now() - this.#wasLiveAt);
    for (const [id, command] of this.#commands) if (!command.isSent) this.#send(id, command);
  }

  /** Asks for a token. @returns {Promise<boolean>} false: there is none, or the connection ended meanwhile */
  async #renewToken() {
    const generation = this.#generation;
    const token = await this.#options.getToken?.();
    if (generation !== this.#generation) return false;
    if (token) this.#token = token;
    else this.#end(TOKEN_INVALID, "no token");
    return Boolean(token);
  }

  /** A tenth ahead of the end: the server closes the connection soon after it. @param {number} ttl in seconds */
  #refreshAfter(ttl) {
    if (this.#options.getToken) this.#timer("refresh", Math.min(ttl * 900, MAX_TIMER_MS), () => this.#refresh());
  }

  async #refresh() {
    const generation = this.#generation;
    try {
      if (!(await this.#renewToken())) return;
      const { refresh } = await this.command({ refresh: { token: this.#token } });
      if (refresh.expires) this.#refreshAfter(refresh.ttl ?? 0);
    } catch (cause) {
      const { temporary, code, message } = FeedlineError.of(cause);
      if (generation !== this.#generation) return;
      if (!temporary) return this.#end(code, message);
      this.#timer("refresh", backoff(this.#attempt++), () => this.#refresh());
    }
  }

  /** @param {string} frame */
  #frame(frame) {
    this.#heardAt = Date.now();
    const generation = this.#generation;
    let messages;
    try {
      messages = frame.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    } catch {
      return this.#lost(0, "not the protocol");
    }
    // A message before may have ended the connection.
    for (const message of messages) if (generation === this.#generation) this.#message(message);
  }

  /** @param {Message} message */
  #message({ id, push, error, ...reply }) {
    if (id && error) this.#take(id)?.failed(new FeedlineError(error));
    else if (id) this.#take(id)?.done(reply);
    else if (push?.disconnect) this.#lost(push.disconnect.code, push.disconnect.reason);
    else if (push) this.#subscriptions.push(push);
    else {
      this.#expectPing();
      if (this.#ping.pong) this.#transport?.send("{}");
    }
  }

  /** Removes a command that is answered, or will not be. @param {number} id */
  #take(id) {
    const command = this.#commands.get(id);
    clearTimeout(command?.timer);
    this.#commands.delete(id);
    return command;
  }

  /** @param {number} id @param {Command} command @param {boolean} [alone] not with the other commands of this task */
  #send(id, command, alone = false) {
    command.isSent = true;
    const text = JSON.stringify({ ...command.body, id });
    if (alone) this.#transport?.send(text);
    else if (this.#outgoing.push(text) === 1) queueMicrotask(() => this.#flush());
  }

  #flush() {
    if (this.#outgoing.length > 0) this.#transport?.send(this.#outgoing.splice(0).join("\n"));
  }

  #expectPing() {
    const { ms } = this.#ping;
    this.#timer("alive", ms + PING_GRACE_MS, ms > 0 ? () => this.#lost(0, "no ping") : undefined);
  }

  /** @param {number} code @param {string} reason */
  #lost(code, reason) {
    if (isTerminal(code)) return this.#end(code, reason);
    const now = Date.now();
    if (this.isLive && now - this.state.since > STABLE_MS) this.#attempt = 0;
    const since = this.state.name === "lost" ? this.state.since : now;
    const wait = backoff(this.#attempt++);
    this.#leave({ name: "lost", since, attempt: this.#attempt, retryAt: now + wait, code, reason });
    // A listener may have closed it, or asked for a retry at once.
    if (this.state.name === "lost" && !this.#transport) this.#timer("retry", wait, () => this.#connect());
  }

  /** @param {number} code @param {string} reason */
  #end(code, reason) {
    this.#leave({ name: "ended", code, reason, signedOut: code === TOKEN_INVALID || code === TOKEN_EXPIRED });
  }

  /** Lets go of the transport and of what waits for it. @param {any} state */
  #leave(state) {
    if (this.isLive) this.#wasLiveAt = Date.now();
    this.#generation += 1;
    for (const name of Object.keys(this.#timers)) this.#timer(name);
    this.#transport?.close();
    this.#transport = null;
    this.#outgoing = [];
    this.#subscriptions.disconnected();
    this.#setState(state);
    // Commands that were not sent wait for the next connection, if there will be one.
    this.#fail(({ isSent }) => isSent || !this.#isWanted, "lost");
    if (!this.#isWanted) this.#watchPage("removeEventListener");
  }

  /** @param {(command: Command) => boolean} which @param {string} reason */
  #fail(which, reason) {
    for (const [id, command] of [...this.#commands]) {
      if (which(command)) this.#take(id)?.failed(failure(reason, "the connection is not there", command.isSent));
    }
  }

  /** @param {any} state */
  #setState(state) {
    this.state = { since: Date.now(), ...state };
    this.emit("state", this.state);
  }

  /** Sets a timer in place of the one of this name, or none. @param {string} name @param {() => void} [run] */
  #timer(name, ms = 0, run) {
    if (this.#timers[name]) clearTimeout(this.#timers[name]);
    const fire = () => {
      this.#timers[name] = null;
      run?.();
    };
    this.#timers[name] = run ? setTimeout(fire, ms) : null;
  }
}

/** @param {string} reason @param {string} message @param {boolean} isSent */
function failure(reason, message, isSent) {
  return new FeedlineError({ message, reason, temporary: true, outcome: isSent ? "unknown" : "unsent" });
}
