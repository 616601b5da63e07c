/** @template {List} Kind @extends {Emitter<import("../types.js").ListEvents>} */
export class Pages<Kind extends List> extends Emitter<import("../types.js").ListEvents> {
    /** @param {import("./client.js").Client} client @param {Source<any>} source @param {() => Kind} newList */
    constructor(client: import("./client.js").Client, source: Source<any>, newList: () => Kind);
    /** @type {"idle" | "loading" | "ready" | "failed"} */ state: "idle" | "loading" | "ready" | "failed";
    /** @type {FeedlineError | null} why it is not read, or not further */ error: FeedlineError | null;
    isLoadingOlder: boolean;
    /** @protected @type {(() => void)[]} what ends with this store */
    protected stops: (() => void)[];
    /** @protected @type {Kind | null} the list that is being read anew, beside the one that is shown */
    protected building: Kind | null;
    /** @protected */
    protected client: import("./client.js").Client;
    /** @protected what is shown */
    protected list: Kind;
    get hasOlder(): boolean;
    close(): void;
    /** Reads the list anew. What is shown stays until that is there. */
    reload(): Promise<void>;
    /** Reads the next page. What fails is asked for again with the next call. */
    loadOlder(): Promise<void>;
    /** @protected Reads the list, and follows its channel. @param {ChannelHandlers} [handlers] */
    protected start(handlers?: ChannelHandlers): undefined;
    /** @protected Whether a list that is read anew has to reach further down. @param {Kind} _list */
    protected wantsMore(_list: Kind): boolean;
    #private;
}
/** A list in the order of its pages. @template {{id: number | string}} Item */
export class ItemList<Item extends {
    id: number | string;
}> {
    /** @type {Item[]} */ items: Item[];
    isRead: boolean;
    /** @type {string | null} the next page's cursor */ next: string | null;
    /** Takes the next page. @param {ItemPage<Item>} page @returns {boolean} whether there are more items */
    take({ items, next }: ItemPage<Item>): boolean;
}
import type { List } from "../types.js";
import { Emitter } from "./emitter.js";
import { FeedlineError } from "./errors.js";
import type { ChannelHandlers } from "../types.js";
import type { Source } from "../types.js";
import type { ItemPage } from "../types.js";
