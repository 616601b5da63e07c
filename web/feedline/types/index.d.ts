export class Feedline extends Client {
    /** The operations by group: `api.comments.create({ id, text })`. @type {Api} */
    api: Api;
    /** The user's favourite posts. @type {Marked<Favourite>} */
    favourites: Marked<Favourite>;
    /** The users that the user follows. @type {Marked<User>} */
    follows: Marked<User>;
    /** The comments on a post. Close it in the end. @param {number} post @param {CommentOptions} [options] */
    openComments: (post: number, options?: CommentOptions) => Comments;
    /** Resolves when a store was read, the timeline if none is named. Rejects if it is refused, or the connection ended.
     * @template {Pages<any>} [Store=import("./timeline.js").Timeline] @param {Store} [store] @returns {Promise<Store>} */
    ready<Store extends Pages<any> = import("./timeline.js").Timeline>(store?: Store): Promise<Store>;
    /** The pages of a list, until the end: `for await (const { items } of feedline.pages("users.posts", { id: "bo" }))`.
     * @template {ListName} Name @param {Name} method
     * @param {ListInput<Name>} input @returns {AsyncGenerator<Output<Name>>} */
    pages<Name extends ListName>(method: Name, input: ListInput<Name>): AsyncGenerator<Output<Name>>;
    #private;
}
import { Comments } from "./comments.js";
import { Connection } from "./connection.js";
import { FeedlineError } from "./errors.js";
import { ItemList } from "./pages.js";
import { Marked } from "./marked.js";
import { Pages } from "./pages.js";
import { fallback } from "./transport.js";
import { httpStream } from "./transport.js";
import { newKey } from "./timeline.js";
import { remember } from "./bounded.js";
import { webSocket } from "./transport.js";
import { Client } from "./client.js";
import type { Api } from "../types.js";
import type { Favourite } from "../types.js";
import type { User } from "../types.js";
import type { CommentOptions } from "../types.js";
import type { ListName } from "../types.js";
import type { ListInput } from "../types.js";
import type { Output } from "../types.js";
export { Comments, Connection, FeedlineError, ItemList, Marked, Pages, fallback, httpStream, newKey, remember, webSocket };
export * from "../types.js";
