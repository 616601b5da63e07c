export class PostList {
    /** @param {boolean} [hidesRepeats] as Home and lists do, unlike other timelines
     * @param {string} [user] whose own reposts are not counted */
    constructor(hidesRepeats?: boolean, user?: string);
    /** @type {Map<number, Post>} by id, also those that are not shown */ posts: Map<number, Post>;
    isRead: boolean;
    /** Something may have to be shown that only the server knows: the list is to be read anew. */ isStale: boolean;
    /** @type {string | null | undefined} the next page's cursor; null at the end, undefined if the end was trimmed */
    next: string | null | undefined;
    /** Whether the newest posts were forgotten: they can only be read anew. */ isDetached: boolean;
    /** How many that were forgotten wait to be seen. */ forgotten: number;
    /** The posts without a gap, newest first. */
    get shown(): Post[];
    /** The id of the newest post that is shown. */
    get newest(): number;
    /** The id of the oldest post before the next page. */
    get oldest(): number;
    /** Takes a page: the first one, or the next. @param {Page} page @returns {boolean} whether there are older posts */
    take(page: Page): boolean;
    /** Applies what was pushed, or done here. @param {any} event */
    apply(event: any, offset?: number): undefined;
    /** Changes a post wherever it is, unless a later version of its counts is known.
     * @param {number} id @param {Partial<Post>} more */
    patch(id: number, more: Partial<Post>): boolean;
    /** A post of the list, or one that is reposted or quoted in it. @param {number} id @returns {Post | undefined} */
    find(id: number): Post | undefined;
    /** Forgets the oldest posts; a later page brings them back. @param {number} keep */
    trimOldest(keep: number): void;
    /** Forgets the newest posts.
     * @param {number} ceiling the id of the newest to keep @param {number} waiting how many wait to be seen then */
    trimNewest(ceiling: number, waiting: number): void;
    #private;
}
/**
 * null: it is gone
 */
export type Change = (post: Post) => Post | null;
import type { Post } from "../types.js";
import type { Page } from "../types.js";
