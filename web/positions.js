// The position of this client in the log of each channel.

/** The positions that a reconnect asks to recover from. */
export class Positions {
  #seen = new Map();

  /** Sets the position of a subscription that begins, or begins again. */
  start(channel, { recoverable, offset = 0, epoch = "" }) {
    if (recoverable) this.#seen.set(channel, { offset, epoch });
    else this.#seen.delete(channel);
  }

  /** Advances to a publication. False if it was processed before. */
  advance(channel, { offset, epoch }) {
    const seen = this.#seen.get(channel);
    if (!seen || !offset) return true;
    if (offset <= seen.offset) return false;
    seen.offset = offset;
    if (epoch) seen.epoch = epoch;
    return true;
  }

  /** Forgets a channel. */
  forget(channel) {
    this.#seen.delete(channel);
  }

  /** The `subs` of a connect command: undefined the first time, when there is nothing to recover. */
  requests() {
    if (this.#seen.size === 0) return undefined;
    const request = ({ offset, epoch }) => ({ recover: true, ...(offset && { offset }), ...(epoch && { epoch }) });
    return Object.fromEntries([...this.#seen].map(([channel, seen]) => [channel, request(seen)]));
  }
}
