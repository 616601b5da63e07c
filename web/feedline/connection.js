// One connection that comes back by itself: commands, pings and tokens here, the channels in subscriptions.js.

import { Emitter } from "./emitter.js";
import { FeedlineError, TOKEN_EXPIRED, backoff, isTerminal } from "./errors.js";
import { Subscriptions } from "./subscriptions.js";
import { fallback, httpStream, webSocket } from "./transport.js";
/** @import { Arguments, ChannelEvent, ChannelHandlers, CommandOptions, ConnectReply } from "./types.js" */
/** @import { Message, OperationName, Output, SubscribeOptions } from "./types.js" */

const TIMEOUT_MS = 10_000;
const PROBE_TIMEOUT_MS = 5_000;
/** How much later than announced a ping may come, when nothing else does. */ const PING_GRACE_MS = 10_000;
/** A connection that held for so long ends a series of attempts. */ const STABLE_MS = 5_000;
/** How often an operation is tried that is refused for the moment. */ const MAX_ATTEMPTS = 6;
const MAX_TIMER_MS = 2 ** 31 - 1;
const TOKEN_INVALID = 3500;
const MESSAGES = { offline: "there is no connection", lost: "the connection was lost", timeout: "there is no answer" };

/** @extends {Emitter<import("./types.js").ConnectionEvents>} */
export class Connection extends Emitter {
  /** @type {import("./types.js").ConnectionState} */ state = { name: "offline", since: Date.now() };
  #options;
  #subscriptions = new Subscriptions(this);
  /** @type {import("./types.js").Transport | null} */ #transport = null;
  /** @type {Map<number, (error?: FeedlineError, reply?: any) => void>} what ends those that are not answered */
  #commands = new Map();
  #lastId = 0;
  #attempt = 0;
  /** Counts connections, so that a token that comes late is not used for a later one. */ #generation = 0;
  /** @type {Record<string, any>} */ #timers = {};
  #ping = { ms: 0, pong: false };
  /** @param {import("./types.js").ConnectionOptions} options */
  constructor(options) {
    super();
    this.#options = { ...options, transport: options.transport ?? fallback(webSocket(), httpStream()) };
  }

  get isLive() { return this.state.name === "live"; }
  /** Connects and stays connected, until `close`. */
  open() {
    if (isWanted(this.state)) return;
    this.#setState({ name: "connecting" });
    this.#attempt = 0;
    this.#watchPage("addEventListener");
    this.#connect();
  }
  /** Goes offline. The positions stay, so that `open` recovers what happens meanwhile. */
  close() { if (isWanted(this.state)) this.#leave({ name: "offline" }); }
  /** Loses the connection, as a tunnel would, for at least so many milliseconds. @param {any} [wait] */
  drop = (wait) => void (this.#transport && this.#lost(0, "dropped", false, wait > 0 ? wait : 0));
  /** Retries at once. A live connection is asked for a sign of life: after sleep it may be dead without knowing. */
  nudge = () => {
    if (globalThis.document?.visibilityState === "hidden") return;
    if (this.#timers.retry) this.#connect();
    if (!this.isLive) return;
    // The reply is an error: as good a sign of life as any.
    this.#send({ ping: {} }).catch(() => {});
    this.#timer("alive", PROBE_TIMEOUT_MS, () => this.#lost(0, "no answer"));
  };
  /** Calls an operation. Waits for the connection, and then for the answer. Rejects with a FeedlineError.
   * @template {OperationName} Name @param {Name} method @param {Arguments<Name>} input
   * @returns {Promise<Output<Name>>} */
  async rpc(method, ...input) {
    const [data = {}, options] = input;
    return (await this.command({ rpc: { method, data } }, options)).rpc.data;
  }
  /** Repeats an operation until it succeeds or is refused for good: after temporary errors with growing waits, after a
   * lost connection once that is back. Rejects with a FeedlineError.
   * @template Answer @param {() => Promise<Answer>} ask @param {number} [attempts] @returns {Promise<Answer>} */
  async insist(ask, attempts = MAX_ATTEMPTS) {
    for (let attempt = 1; ; attempt += 1) {
      await this.#whenLive();
      try {
        return await ask();
      } catch (cause) {
        const error = FeedlineError.of(cause);
        if (!error.temporary || attempt >= attempts) throw error;
        // A lost connection waits by itself before it comes back.
        if (error.reason !== "lost") await new Promise((resolve) => setTimeout(resolve, backoff(attempt - 1)));
      }
    }
  }
  /** Sends any command of the protocol, such as `{ presence: { channel } }`, and returns its reply.
   * @param {Record<string, any>} body @param {CommandOptions} [options] @returns {Promise<any>} */
  async command(body, options = {}) {
    if (!isWanted(this.state)) throw failure("offline", "unsent");
    if (!this.isLive) await this.#whenLive(options.timeoutMs ?? TIMEOUT_MS);
    return this.#send(body, options);
  }
  /** Joins a channel. `subscribed` with `recovered: false` asks to read its state, also of the second who joins.
   * @template {string} Name @param {Name} channel @param {ChannelHandlers<ChannelEvent<Name>>} handlers
   * @param {SubscribeOptions} [options] @returns {() => void} leaves it */
  subscribe(channel, handlers, options = {}) { return this.#subscriptions.add(channel, handlers, options); }
  /** @param {number} [timeoutMs] @returns {Promise<void>} */
  #whenLive(timeoutMs) {
    return new Promise((resolve, reject) => {
      const end = (/** @type {any} */ error) => (off(), clearTimeout(timer), error ? reject(error) : resolve());
      const timer = timeoutMs ? setTimeout(() => end(failure("timeout", "unsent")), timeoutMs) : undefined;
      const check = () => (this.isLive ? end(null) : this.state.name === "ended" && end(endOf(this.state)));
      const off = this.on("state", check);
      check();
    });
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
      if (!this.#options.token && this.#options.getToken && !(await this.#renewToken())) return;
      const url = new URL(this.#options.url, globalThis.location?.href);
      this.#timer("alive", TIMEOUT_MS, () => this.#lost(0, "no answer"));
      this.#transport = this.#options.transport(url.href, {
        open: () => this.#hello(),
        frame: (frame) => this.#frame(frame),
        close: (code, reason) => this.#lost(code, reason),
      });
    } catch (error) {
      if (generation === this.#generation) this.#lost(0, FeedlineError.of(error).message);
    }
  }

  #hello() {
    const { token, name = "feedline-js" } = this.#options;
    const connect = { ...(token && { token }), name, subs: this.#subscriptions.requests() };
    this.#send({ connect }, { answered: (reply) => this.#welcome(reply.connect) }).catch((error) => {
      if (!this.#transport) return;
      const isExpired = error.code === TOKEN_EXPIRED;
      if (isExpired) this.#options.token = "";
      this.#lost(error.code, error.message, isExpired ? !this.#options.getToken : !error.temporary);
    });
  }
  /** @param {ConnectReply} reply */
  #welcome({ subs = {}, ping = 0, pong = false, expires, ttl = 0, session, node }) {
    if (isOfAnother(this.#options.user, subs)) return this.#lost(TOKEN_INVALID, "the token is of another user", true);
    this.#transport?.established?.({ session, node });
    this.#ping = { ms: ping * 1000, pong };
    this.#expectPing();
    this.#refreshAfter({ expires, ttl });
    this.#setState({ name: "live" });
    this.#subscriptions.connected(subs);
  }
  /** Asks for a token. @returns {Promise<boolean>} false: there is none, or the connection ended meanwhile */
  async #renewToken() {
    const generation = this.#generation;
    const token = await this.#options.getToken?.();
    if (generation !== this.#generation) return false;
    if (token) this.#options.token = token;
    else this.#lost(TOKEN_INVALID, "no token");
    return Boolean(token);
  }
  /** A tenth ahead of the end: the server closes the connection soon after it. @param {ConnectReply} reply */
  #refreshAfter({ expires, ttl = 0 }) {
    const refresh = async () => {
      if (!(await this.#renewToken())) return;
      this.#refreshAfter((await this.command({ refresh: { token: this.#options.token } })).refresh);
    };
    if (!expires || !this.#options.getToken) return;
    this.#timer("refresh", Math.min(ttl * 900, MAX_TIMER_MS), () => void this.insist(refresh).catch(() => {}));
  }
  /** @param {Record<string, any>} body @param {CommandOptions} [options] @returns {Promise<any>} */
  #send(body, { timeoutMs = TIMEOUT_MS, answered = () => {} } = {}) {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      const timer = setTimeout(() => this.#commands.get(id)?.(failure("timeout", "unknown")), timeoutMs);
      this.#commands.set(id, (error, reply) => {
        clearTimeout(timer);
        this.#commands.delete(id);
        if (error) return reject(error);
        answered(reply);
        resolve(reply);
      });
      this.#transport?.send(JSON.stringify({ ...body, id }));
    });
  }
  /** @param {string} frame */
  #frame(frame) {
    this.#expectPing();
    const generation = this.#generation;
    try {
      const messages = frame.split("\n").filter(Boolean).map((line) => JSON.parse(line));
      // A message before may have ended the connection.
      for (const message of messages) if (generation === this.#generation) this.#message(message);
    } catch {
      this.#lost(0, "not the protocol");
    }
  }
  /** @param {Message} message */
  #message({ id, push, error, ...reply }) {
    if (id) this.#commands.get(id)?.(error && new FeedlineError(error), reply);
    else if (push?.disconnect) this.#lost(push.disconnect.code, push.disconnect.reason);
    else if (push) this.#subscriptions.push(push);
    else if (this.#ping.pong) this.#transport?.send("{}");
  }

  #expectPing() {
    const { ms } = this.#ping;
    this.#timer("alive", ms + PING_GRACE_MS, ms > 0 ? () => this.#lost(0, "no ping") : undefined);
  }
  /** @param {number} code @param {string} reason */
  #lost(code, reason, isOver = isTerminal(code), least = 0) {
    const signedOut = code === TOKEN_INVALID || code === TOKEN_EXPIRED;
    if (isOver) return this.#leave({ name: "ended", code, reason, signedOut });
    const now = Date.now();
    if (this.isLive && now - this.state.since > STABLE_MS) this.#attempt = 0;
    const since = this.state.name === "lost" ? this.state.since : now;
    const wait = Math.max(least, backoff(this.#attempt++));
    this.#leave({ name: "lost", since, attempt: this.#attempt, retryAt: now + wait, code, reason });
    // A listener may have closed it, or asked for a retry at once.
    if (this.state.name === "lost" && !this.#transport) this.#timer("retry", wait, () => this.#connect());
  }
  /** Lets go of the transport and of what waits for it. @param {any} state */
  #leave(state) {
    this.#generation += 1;
    for (const name of Object.keys(this.#timers)) this.#timer(name);
    this.#transport?.close();
    this.#transport = null;
    this.#subscriptions.disconnected();
    this.#setState(state);
    for (const done of [...this.#commands.values()]) done(failure("lost", "unknown"));
    if (!isWanted(this.state)) this.#watchPage("removeEventListener");
  }
  /** @param {any} state */
  #setState(state) { this.emit("state", (this.state = { since: Date.now(), ...state })); }
  /** Sets a timer in place of the one of this name, or none. @param {string} name @param {() => void} [run] */
  #timer(name, ms = 0, run) {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = run && setTimeout(run, ms);
  }
}

export const endOf = (/** @type {any} */ state) => new FeedlineError({ ...state, message: state.reason });
/** @param {import("./types.js").ConnectionState} state */
const isWanted = ({ name }) => name !== "offline" && name !== "ended";
/** The server subscribes each user to one home timeline. @param {string | undefined} user @param {object} subs */
const isOfAnother = (user, subs) =>
  user && Object.keys(subs).some((name) => name.startsWith("timeline:") && name !== `timeline:${user}`);
/** @param {"offline" | "lost" | "timeout"} reason @param {"unsent" | "unknown"} outcome */
const failure = (reason, outcome) => new FeedlineError({ message: MESSAGES[reason], reason, temporary: true, outcome });
