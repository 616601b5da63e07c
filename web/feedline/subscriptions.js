// The channels of a connection: each has one position, from which it recovers after a lost connection.

import { isolate } from "./emitter.js";
import { FeedlineError, backoff } from "./errors.js";

/** @import { Channel, ChannelHandlers, Publication, Push, SubscribeOptions, SubscribeReply } from "./types.js" */

/** From this code on, an ended subscription is to be taken up again. */
const FIRST_RESUBSCRIBE = 2500;
/** The server's state of the channel is invalid: its positions are useless. */
const STATE_INVALIDATED = 2502;
const TOKEN_EXPIRED = 109;

export class Subscriptions {
  /** @type {Map<string, Channel>} */
  #channels = new Map();
  #connection;

  /** @param {import("./connection.js").Connection} connection */
  constructor(connection) {
    this.#connection = connection;
  }

  /** @param {string} name @param {ChannelHandlers} handlers @param {SubscribeOptions} options */
  add(name, handlers, options) {
    const channel = this.#channels.get(name) ?? this.#create(name, options);
    channel.handlers.add(handlers);
    if (channel.state === "subscribed") {
      const event = { wasRecovering: false, recovered: false, missed: 0, lostFor: 0 };
      queueMicrotask(() => channel.handlers.has(handlers) && handlers.subscribed?.(event));
    } else this.#subscribe(channel);
    return () => {
      channel.handlers.delete(handlers);
      if (channel.byServer || channel.handlers.size > 0 || !this.#forget(channel) || channel.state === "idle") return;
      this.#connection.command({ unsubscribe: { channel: name } }).catch(() => {});
    };
  }

  /** The `subs` of a connect command: the positions of the channels that the server subscribes. */
  requests() {
    const known = [...this.#channels.values()].filter(({ byServer, position }) => byServer && position);
    return known.length > 0 ? Object.fromEntries(known.map((channel) => [channel.name, request(channel)])) : undefined;
  }

  /** Takes the channels of a connect reply, asks for the others. @param {Record<string, SubscribeReply>} subs */
  connected(subs, lostFor = 0) {
    for (const channel of this.#channels.values()) if (channel.byServer && !subs[channel.name]) channel.position = null;
    for (const [name, reply] of Object.entries(subs)) {
      const channel = this.#channels.get(name) ?? this.#create(name, {});
      channel.byServer = true;
      this.#subscribed(channel, reply, lostFor);
    }
    for (const channel of [...this.#channels.values()]) this.#subscribe(channel, lostFor);
  }

  disconnected() {
    for (const channel of this.#channels.values()) channel.state = "idle";
  }

  /** @param {Push} push */
  push({ channel: name = "", pub, join, leave, subscribe, unsubscribe }) {
    const channel = this.#channels.get(name) ?? (subscribe && this.#create(name, { byServer: true }));
    if (!channel) return;
    if (pub) this.#publication(channel, pub);
    else if (subscribe) this.#subscribed(channel, subscribe, 0);
    else if (unsubscribe) this.#ended(channel, unsubscribe);
    else if (join) this.#tell(channel, "join", join.info);
    else if (leave) this.#tell(channel, "leave", leave.info);
  }

  /** @param {string} name @param {SubscribeOptions} options @returns {Channel} */
  #create(name, { byServer = false, getToken }) {
    const channel = { name, handlers: new Set(), byServer, getToken, state: "idle", position: null, attempt: 0 };
    this.#channels.set(name, /** @type {Channel} */ (channel));
    return /** @type {Channel} */ (channel);
  }

  /** @param {Channel} channel @returns {boolean} whether it was known */
  #forget(channel) {
    return this.#channels.get(channel.name) === channel && this.#channels.delete(channel.name);
  }

  /** @param {Channel} channel */
  async #subscribe(channel, lostFor = 0) {
    const isCurrent = () => this.#channels.get(channel.name) === channel;
    if (!this.#connection.isLive || channel.byServer || channel.state !== "idle" || !isCurrent()) return;
    channel.state = "subscribing";
    try {
      const token = await channel.getToken?.();
      if (!isCurrent() || channel.state !== "subscribing") return;
      const subscribe = { channel: channel.name, ...(token && { token }), ...(channel.position && request(channel)) };
      // `answered` is called at once: the channel's publications may stand right behind the reply.
      const answered = (/** @type {any} */ reply) => isCurrent() && this.#subscribed(channel, reply.subscribe, lostFor);
      await this.#connection.command({ subscribe }, { answered });
    } catch (cause) {
      const { code, message, temporary } = FeedlineError.of(cause);
      if (!isCurrent() || channel.state !== "subscribing") return;
      channel.state = "idle";
      if (temporary || (code === TOKEN_EXPIRED && channel.getToken)) {
        setTimeout(() => this.#subscribe(channel), backoff(channel.attempt++));
      } else this.#dropped(channel, { code, reason: message });
    }
  }

  /** @param {Channel} channel @param {SubscribeReply} reply @param {number} lostFor */
  #subscribed(channel, reply, lostFor) {
    const { was_recovering: wasRecovering = false, recovered = false, publications = [] } = reply;
    channel.state = "subscribed";
    channel.attempt = 0;
    channel.position = reply.recoverable ? { offset: reply.offset ?? 0, epoch: reply.epoch ?? "" } : null;
    this.#tell(channel, "subscribed", { wasRecovering, recovered, missed: publications.length, lostFor });
    for (const publication of publications) this.#publication(channel, publication);
  }

  /** Passes it on, unless its offset was seen before. @param {Channel} channel @param {Publication} pub */
  #publication(channel, { data, offset = 0, epoch }) {
    if (channel.state !== "subscribed") return;
    if (channel.position && offset > 0) {
      if (offset <= channel.position.offset) return;
      channel.position.offset = offset;
      if (epoch) channel.position.epoch = epoch;
    }
    this.#tell(channel, "publication", { data, offset });
  }

  /** @param {Channel} channel @param {{code: number, reason: string}} end */
  #ended(channel, end) {
    channel.state = "idle";
    if (end.code === STATE_INVALIDATED || channel.byServer) channel.position = null;
    if (end.code >= FIRST_RESUBSCRIBE && !channel.byServer) this.#subscribe(channel);
    else this.#dropped(channel, end);
  }

  /** @param {Channel} channel @param {{code: number, reason: string}} end */
  #dropped(channel, end) {
    if (!channel.byServer) this.#forget(channel);
    this.#tell(channel, "unsubscribed", end);
  }

  /** @param {Channel} channel @param {keyof ChannelHandlers} event @param {any} detail */
  #tell(channel, event, detail) {
    for (const handlers of [...channel.handlers]) isolate(() => handlers[event]?.(detail));
  }
}

/** @param {Channel} channel */
function request({ position }) {
  const { offset, epoch } = position ?? {};
  return { recover: true, ...(offset && { offset }), ...(epoch && { epoch }) };
}
