// Errors, close codes and waiting times.
/** @import { ErrorInit, Failure } from "./types.js" */

/** The code of the protocol for a token that is to be renewed. */
export const TOKEN_EXPIRED = 109;

/** An error of the server, or of the way to it. @implements {Failure} */
export class FeedlineError extends Error {
  /** @param {ErrorInit} init */
  constructor({ code = 0, message, reason = "", field = null, temporary = false, outcome }) {
    // Over the socket, the message of an operation begins with the reason.
    const [prefix, named] = (!reason && code >= 400 && /^([a-z_]+): /.exec(message)) || ["", ""];
    super(message.slice(prefix.length));
    reason ||= named;
    /** The HTTP status or the code of the protocol; 0: no answer. */
    this.code = code;
    /** For example "not_found"; "timeout", "lost" and "offline" are local; "" if unknown. */
    this.reason = reason;
    this.field = field;
    this.temporary = temporary || code === TOKEN_EXPIRED || code === 429 || code >= 500;
    /** @type {"refused" | "unknown" | "unsent"} Unknown: it may have been executed, as after a 5xx other than busy. */
    this.outcome = outcome ?? (code >= 500 && reason !== "busy" ? "unknown" : "refused");
  }
  /** @param {unknown} cause */
  static of(cause) {
    return cause instanceof FeedlineError ? cause : new FeedlineError({ message: String(cause), temporary: true });
  }
}

/** Whether a close code forbids to connect again. @param {number} code */
export const isTerminal = (code) => (code >= 3500 && code < 4000) || (code >= 4500 && code < 5000);
/** The wait before an attempt (0 is the first): full jitter below a ceiling that doubles. @param {number} attempt */
export const backoff = (attempt, random = Math.random) => random() * Math.min(20_000, 500 * 2 ** attempt);
