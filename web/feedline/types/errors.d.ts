/** @import { ErrorInit, Failure } from "../types.js" */
/** The code of the protocol for a token that is to be renewed. */
export const TOKEN_EXPIRED: 109;
/** An error of the server, or of the way to it. @implements {Failure} */
export class FeedlineError extends Error implements Failure {
    /** @param {unknown} cause */
    static of(cause: unknown): FeedlineError;
    /** @param {ErrorInit} init */
    constructor({ code, message, reason, field, temporary, outcome }: ErrorInit);
    /** The HTTP status or the code of the protocol; 0: no answer. */
    code: number;
    /** For example "not_found"; "timeout", "lost" and "offline" are local; "" if unknown. */
    reason: string;
    field: string | null;
    temporary: boolean;
    /** @type {"refused" | "unknown" | "unsent"} Unknown: it may have been executed, as after a 5xx other than busy. */
    outcome: "refused" | "unknown" | "unsent";
}
export function isTerminal(code: number): boolean;
export function backoff(attempt: number, random?: () => number): number;
import type { Failure } from "../types.js";
import type { ErrorInit } from "../types.js";
