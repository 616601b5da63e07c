/** @extends {Emitter<import("../types.js").ConnectionEvents>} */
export class Connection extends Emitter<import("../types.js").ConnectionEvents> {
    /** @param {import("../types.js").ConnectionOptions} options */
    constructor(options: import("../types.js").ConnectionOptions);
    /** @type {import("../types.js").ConnectionState} */ state: import("../types.js").ConnectionState;
    get isLive(): boolean;
    /** Connects and stays connected, until `close`. */
    open(): void;
    /** Goes offline. The positions stay, so that `open` recovers what happens meanwhile. */
    close(): void;
    /** Loses the connection, as a tunnel would, for at least so many milliseconds. @param {any} [wait] */
    drop: (wait?: any) => undefined;
    /** Retries at once. A live connection is asked for a sign of life: after sleep it may be dead without knowing. */
    nudge: () => void;
    /** Calls an operation. Waits for the connection, and then for the answer. Rejects with a FeedlineError.
     * @template {OperationName} Name @param {Name} method @param {Arguments<Name>} input
     * @returns {Promise<Output<Name>>} */
    rpc<Name extends OperationName>(method: Name, ...input: Arguments<Name>): Promise<Output<Name>>;
    /** Repeats an operation until it succeeds or is refused for good: after temporary errors with growing waits, after a
     * lost connection once that is back. Rejects with a FeedlineError.
     * @template Answer @param {() => Promise<Answer>} ask @param {number} [attempts] @returns {Promise<Answer>} */
    insist<Answer>(ask: () => Promise<Answer>, attempts?: number): Promise<Answer>;
    /** Sends any command of the protocol, such as `{ presence: { channel } }`, and returns its reply.
     * @param {Record<string, any>} body @param {CommandOptions} [options] @returns {Promise<any>} */
    command(body: Record<string, any>, options?: CommandOptions): Promise<any>;
    /** Joins a channel. `subscribed` with `recovered: false` asks to read its state, also of the second who joins.
     * @template {string} Name @param {Name} channel @param {ChannelHandlers<ChannelEvent<Name>>} handlers
     * @param {SubscribeOptions} [options] @returns {() => void} leaves it */
    subscribe<Name extends string>(channel: Name, handlers: ChannelHandlers<ChannelEvent<Name>>, options?: SubscribeOptions): () => void;
    #private;
}
export function endOf(state: any): FeedlineError;
import { Emitter } from "./emitter.js";
import type { OperationName } from "../types.js";
import type { Arguments } from "../types.js";
import type { Output } from "../types.js";
import type { CommandOptions } from "../types.js";
import type { ChannelEvent } from "../types.js";
import type { ChannelHandlers } from "../types.js";
import type { SubscribeOptions } from "../types.js";
import { FeedlineError } from "./errors.js";
