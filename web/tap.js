// The latest frames, for a look behind the curtain. They are read where they travel, in front of the transport; tokens
// are never kept.

import { Emitter } from "./emitter.js";

const MAX_ENTRIES = 200;
const MAX_LATENCIES = 60;
const MAX_LATENCY_MS = 60_000;
const MAX_TEXT = 300;
const BLANK = { channel: "", offset: 0, epoch: "", id: 0, method: "", text: "", ms: null };

export class Tap extends Emitter {
  /** Frames, and states of the connection, oldest first. */
  entries = [];
  /** From publishing a post to its arrival, oldest first: `{at, ms}`. */
  latencies = [];
  framesIn = 0;
  framesOut = 0;
  /** The positions of channels that can be recovered: name → `{offset, epoch}`. */
  positions = new Map();
  /** Commands without a reply: id → `{method, channel, at}`. */
  #sent = new Map();

  /** A transport whose frames are shown here. */
  transport(connect) {
    return (url, on) => {
      this.#sent.clear();
      const frame = (text) => {
        this.framesIn += 1;
        this.#each(text, (message) => this.#received(message));
        on.frame(text);
      };
      const transport = connect(url, { ...on, frame });
      const send = (text) => {
        this.framesOut += 1;
        this.#each(text, (command) => this.#sending(command));
        transport.send(text);
      };
      return { ...transport, send };
    };
  }

  /** Notes each state of a connection. */
  watch(connection) {
    connection.on("state", ({ name, reason = "" }) => this.#add("note", name, { text: reason }));
  }

  #each(frame, show) {
    try {
      for (const line of frame.split("\n").filter(Boolean)) show(JSON.parse(line));
    } catch {
      // The connection reports what is not the protocol.
    }
  }

  #sending({ id, ...command }) {
    const [kind] = Object.keys(command);
    if (!kind) return this.#add("out", "pong");
    const { token, data, ...shown } = command[kind];
    const { method = "", channel = "" } = shown;
    this.#sent.set(id, { method, channel, at: Date.now() });
    if (kind === "unsubscribe") this.positions.delete(channel);
    this.#add("out", kind, { id, method, channel }, kind === "rpc" ? data : shown);
  }

  #received({ id, error, push, ...reply }) {
    if (push) return this.#pushed(push);
    if (!id) return this.#add("in", "ping");
    const { method = "", channel, at = Date.now() } = this.#sent.get(id) ?? {};
    this.#sent.delete(id);
    const { rpc, connect, subscribe } = reply;
    this.#add("in", error ? "error" : "reply", { id, method, ms: Date.now() - at }, error ?? rpc?.data ?? connect);
    if (subscribe) this.#joined(channel, subscribe);
    for (const [name, joined] of Object.entries(connect?.subs ?? {})) this.#joined(name, joined);
  }

  #pushed(push) {
    const { channel = "", pub, subscribe } = push;
    const kind = pub ? "publication" : (Object.keys(push).find((key) => key !== "channel") ?? "push");
    const { data, offset = 0, epoch = "" } = pub ?? {};
    const ms = data?.type === "post" ? this.#latency(data.post.created_at) : null;
    const position = this.positions.get(channel);
    if (position && offset > position.offset) position.offset = offset;
    this.#add("in", kind, { channel, offset, epoch, ms }, data ?? push);
    if (subscribe) this.#joined(channel, subscribe);
  }

  /** A channel was subscribed: where its log is now, and what was recovered. */
  #joined(channel, { was_recovering, recovered, recoverable, offset = 0, epoch = "", publications = [] }) {
    const from = this.positions.get(channel)?.offset ?? 0;
    if (recoverable) this.positions.set(channel, { offset, epoch });
    if (!was_recovering) return;
    const text = recovered ? `from ${from}: ${publications.length} publications, 0 lost` : `not from ${from}`;
    this.#add("note", recovered ? "recovered" : "unrecovered", { channel, offset: from, text });
  }

  /** The age of a post that arrives now in ms; null for an old one that a new follow adds. */
  #latency(createdAt) {
    const at = Date.now();
    // A clock behind the server's shows 0, not less.
    const ms = Math.max(0, at - createdAt);
    if (ms > MAX_LATENCY_MS) return null;
    if (this.latencies.push({ at, ms }) > MAX_LATENCIES) this.latencies.shift();
    return ms;
  }

  #add(way, kind, more, payload) {
    const text = payload === undefined ? "" : JSON.stringify(payload).slice(0, MAX_TEXT);
    const entry = { ...BLANK, at: Date.now(), way, kind, text, ...more };
    if (this.entries.push(entry) > MAX_ENTRIES) this.entries.shift();
    this.emit();
  }
}
