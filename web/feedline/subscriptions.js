// The channels of a connection: each has one position, from which it recovers after a lost connection.

import { isolate } from "./emitter.js";
/** @import { Channel, ChannelHandlers, Publication, Push, SubscribeOptions, SubscribeReply } from "./types.js" */

/** From this code on, an ended subscription is to be taken up again. */ const FIRST_RESUBSCRIBE = 2500;
/** The server's state of the channel is invalid: its positions are useless. */ const STATE_INVALIDATED = 2502;

export class Subscriptions {
  /** @type {Map<string, Channel>} */ #channels = new Map();
  #connection;
  /** @param {import("./connection.js").Connection} connection */
  constructor(connection) { this.#connection = connection; }
  /** @param {string} name @param {ChannelHandlers} handlers @param {SubscribeOptions} options */
  add(name, handlers, options) {
    const channel = this.#channels.get(name) ?? this.#create(name, options);
    channel.handlers.add(handlers);
    if (channel.state === "subscribed") {
      const event = { wasRecovering: false, recovered: false, missed: [], lostFor: 0 };
      queueMicrotask(() => channel.handlers.has(handlers) && handlers.subscribed?.(event));
    } else this.#subscribe(channel);
    return () => {
      channel.handlers.delete(handlers);
      const isCurrent = this.#channels.get(name) === channel;
      if (channel.byServer || channel.handlers.size > 0 || !isCurrent) return;
      this.#channels.delete(name);
      if (channel.state !== "idle") this.#connection.command({ unsubscribe: { channel: name } }).catch(() => {});
    };
  }
  /** The `subs` of a connect command: the positions of the channels that the server subscribes. */
  requests() {
    const known = [...this.#channels.values()].filter(({ byServer, position }) => byServer && position);
    return Object.fromEntries(known.map(({ name, position }) => [name, { recover: true, ...position }]));
  }
  /** Takes the channels of a connect reply, asks for the others. @param {Record<string, SubscribeReply>} subs */
  connected(subs) {
    for (const name of Object.keys(subs)) (this.#channels.get(name) ?? this.#create(name, {})).byServer = true;
    for (const channel of [...this.#channels.values()]) {
      if (subs[channel.name]) this.#subscribed(channel, subs[channel.name]);
      else if (channel.byServer) channel.position = null;
      else this.#subscribe(channel);
    }
  }
  disconnected() {
    for (const channel of this.#channels.values()) {
      if (channel.state === "subscribed") Object.assign(channel, { state: "idle", lostAt: Date.now() });
    }
  }
  /** @param {Push} push */
  push({ channel: name = "", pub, join, leave, subscribe, unsubscribe }) {
    const channel = this.#channels.get(name) ?? (subscribe && this.#create(name, { byServer: true }));
    if (!channel) return;
    if (pub) this.#publication(channel, pub);
    else if (subscribe) this.#subscribed(channel, subscribe);
    else if (unsubscribe) this.#ended(channel, unsubscribe);
    else if (join) this.#emit(channel, "join", join.info);
    else if (leave) this.#emit(channel, "leave", leave.info);
  }
  /** @param {string} name @param {SubscribeOptions} options */
  #create(name, { byServer = false, getToken }) {
    /** @type {Channel} */
    const channel = { name, handlers: new Set(), byServer, getToken, state: "idle", position: null, lostAt: 0 };
    this.#channels.set(name, channel);
    return channel;
  }
  /** A connection that ended for good asks when it is opened again. @param {Channel} channel */
  #subscribe(channel) {
    if (channel.byServer || channel.state !== "idle" || this.#connection.state.name === "ended") return;
    channel.state = "subscribing";
    const isWanted = () => channel.state === "subscribing" && this.#channels.get(channel.name) === channel;
    // `answered` is called at once: the channel's publications may stand right behind the reply.
    const answered = (/** @type {any} */ reply) => isWanted() && this.#subscribed(channel, reply.subscribe);
    const ask = async () => {
      const token = await channel.getToken?.();
      const recovery = channel.position && { recover: true, ...channel.position };
      const subscribe = { channel: channel.name, ...(token && { token }), ...recovery };
      if (isWanted()) await this.#connection.command({ subscribe }, { answered });
    };
    this.#connection.insist(ask, Infinity).catch(({ code, message: reason }) => {
      if (isWanted()) this.#ended(channel, { code, reason });
    });
  }
  /** @param {Channel} channel @param {SubscribeReply} reply */
  #subscribed(channel, reply) {
    const { was_recovering: wasRecovering = false, recovered = false, publications = [] } = reply;
    channel.state = "subscribed";
    channel.position = reply.recoverable ? { offset: reply.offset ?? 0, epoch: reply.epoch ?? "" } : null;
    const lostFor = channel.lostAt && Date.now() - channel.lostAt;
    channel.lostAt = 0;
    this.#emit(channel, "subscribed", { wasRecovering, recovered, missed: publications, lostFor });
    for (const publication of publications) this.#publication(channel, publication);
  }
  /** Passes it on, unless its offset was seen before. @param {Channel} channel @param {Publication} pub */
  #publication(channel, { data, offset = 0, epoch }) {
    if (channel.state !== "subscribed") return;
    if (channel.position && offset > 0) {
      if (offset <= channel.position.offset) return;
      channel.position = { offset, epoch: epoch || channel.position.epoch };
    }
    this.#emit(channel, "publication", { data, offset });
  }
  /** @param {Channel} channel @param {{code: number, reason: string}} end */
  #ended(channel, end) {
    channel.state = "idle";
    if (end.code === STATE_INVALIDATED || channel.byServer) channel.position = null;
    if (end.code >= FIRST_RESUBSCRIBE && !channel.byServer) return void this.#subscribe(channel);
    if (!channel.byServer) this.#channels.delete(channel.name);
    this.#emit(channel, "unsubscribed", end);
  }
  /** @param {Channel} channel @param {keyof ChannelHandlers} event @param {any} detail */
  #emit(channel, event, detail) {
    for (const handlers of [...channel.handlers]) isolate(() => handlers[event]?.(detail));
  }
}
