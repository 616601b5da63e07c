/** @import { Comment, CommentOptions, Page, PostEvent } from "../types.js" */
/** @extends {Pages<ItemList<Comment>>} */
export class Comments extends Pages<ItemList<{
    author?: import("../api.js").components["schemas"]["UserId"];
    created_at: number;
    edited_at?: number;
    filtered?: import("../api.js").components["schemas"]["FilterId"][];
    id: import("../api.js").components["schemas"]["CommentId"];
    liked?: boolean;
    likes: number;
    mentions?: import("../api.js").components["schemas"]["UserId"][];
    post: import("../api.js").components["schemas"]["PostId"];
    removed?: import("../api.js").components["schemas"]["Removal"];
    replies: number;
    reply_to?: import("../api.js").components["schemas"]["CommentId"];
    text?: string;
}>> {
    /** @param {import("./client.js").Client} client @param {number} post @param {CommentOptions} [options] */
    constructor(client: import("./client.js").Client, post: number, { replyTo, order }?: CommentOptions);
    /** In their order; a comment is a new object when it, or its like, changed. @returns {Comment[]} */
    get items(): Comment[];
    /** Publishes a comment, which is shown when it is stored. @param {string} text @returns {Promise<Comment>} */
    post(text: string, key?: string): Promise<Comment>;
    /** Applies an event. What is pushed comes here by itself. @param {PostEvent} event */
    apply(event: PostEvent): void;
    #private;
}
import { ItemList } from "./pages.js";
import { Pages } from "./pages.js";
import type { Comment } from "../types.js";
import type { PostEvent } from "../types.js";
import type { CommentOptions } from "../types.js";
