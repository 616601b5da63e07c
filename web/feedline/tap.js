// The latest frames, for a look behind the curtain. Tokens never enter it.

import { Emitter } from "./emitter.js";

const MAX_ENTRIES = 200;
const MAX_LATENCIES = 60;
const MAX_LATENCY_MS = 60_000;
const MAX_TEXT = 300;
const BLANK = { channel: "", offset: 0, epoch: "", id: 0, method: "", text: "", ms: null };

/** @typedef {import("./types.js").TapEntry} TapEntry */
/** @extends {Emitter<{entry: TapEntry}>} */
export class Tap extends Emitter {
  /** @type {TapEntry[]} oldest first */
  entries = [];
  /** @type {{at: number, ms: number}[]} from publish to arrival, oldest first */
  latencies = [];
  recoveries = 0;
  framesIn = 0;
  framesOut = 0;
  /** @type {Map<string, import("./types.js").Position>} */
  positions = new Map();

  /** @param {TapEntry["way"]} way @param {string} kind @param {Partial<TapEntry>} [more] @param {any} [payload] */
  add(way, kind, more, payload) {
    const text = payload === undefined ? "" : (JSON.stringify(payload) ?? "").slice(0, MAX_TEXT);
    const entry = { ...BLANK, at: Date.now(), way, kind, text, ...more };
    if (this.entries.push(entry) > MAX_ENTRIES) this.entries.shift();
    this.emit("entry", entry);
  }

  /** The age of a post that arrives now; null for one that a new follow brings in. @param {number} createdAt */
  latency(createdAt, at = Date.now()) {
    // A clock behind the server's shows 0, not less.
    const ms = Math.max(0, at - createdAt);
    if (ms > MAX_LATENCY_MS) return null;
    if (this.latencies.push({ at, ms }) > MAX_LATENCIES) this.latencies.shift();
    return ms;
  }
}
