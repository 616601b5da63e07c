export class Subscriptions {
    /** @param {import("./connection.js").Connection} connection */
    constructor(connection: import("./connection.js").Connection);
    /** @param {string} name @param {ChannelHandlers} handlers @param {SubscribeOptions} options */
    add(name: string, handlers: ChannelHandlers, options: SubscribeOptions): () => void;
    /** The `subs` of a connect command: the positions of the channels that the server subscribes. */
    requests(): {
        [k: string]: {
            epoch?: string | undefined;
            offset?: number | undefined;
            recover: boolean;
        };
    };
    /** Takes the channels of a connect reply, asks for the others. @param {Record<string, SubscribeReply>} subs */
    connected(subs: Record<string, SubscribeReply>): void;
    disconnected(): void;
    /** @param {Push} push */
    push({ channel: name, pub, join, leave, subscribe, unsubscribe }: Push): void;
    #private;
}
import type { ChannelHandlers } from "../types.js";
import type { SubscribeOptions } from "../types.js";
import type { SubscribeReply } from "../types.js";
import type { Push } from "../types.js";
