/** @extends {Pages<PostList>} */
export class Timeline extends Pages<PostList> {
    /** @param {import("./client.js").Client} client @param {Source<PostListName>} source */
    constructor(client: import("./client.js").Client, source: Source<PostListName>);
    /** @type {Mark[]} newest first */ marks: Mark[];
    /** What to show, newest first: the same array and the same entries until something of them changed. */
    get entries(): Entry[];
    /** How many new posts wait while the reader is not at the top. */
    get waiting(): number;
    /** Says whether the reader is at the top: then arrivals come in at once. */
    set atTop(atTop: boolean);
    get atTop(): boolean;
    showWaiting(): Promise<void>;
    /** Publishes a post, and shows it at once.
     * @param {NewPost} input @param {string} [key] its idempotency key @returns {string} that of its entry
     * @param {number} [after] the newest post that was known when it was written
     * @param {Post} [quoted] the post that it quotes, if the timeline does not have it */
    post(input: NewPost, key?: string, after?: number, quoted?: Post): string;
    /** Tries a failed post again. @param {string} key */
    retry(key: string): void;
    /** Takes a failed post away, and returns what was to be posted. @param {string} key @returns {NewPost | null} */
    discard(key: string): NewPost | null;
    /** Says which posts are on screen: their counts are live. @param {number[]} ids */
    watch(ids: number[]): void;
    /** Applies an event. What is pushed comes here by itself; what was done here, such as an edit, is shown sooner so.
     * @param {import("../types.js").TimelineEvent} event @param {number} [offset] where it is in the log */
    apply(event: import("../types.js").TimelineEvent, offset?: number): void;
    #private;
}
export function newKey(): string;
import { PostList } from "./posts.js";
import { Pages } from "./pages.js";
import type { Mark } from "../types.js";
import type { Entry } from "../types.js";
import type { NewPost } from "../types.js";
import type { Post } from "../types.js";
import type { PostListName } from "../types.js";
import type { Source } from "../types.js";
