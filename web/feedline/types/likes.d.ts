/** @extends {Emitter<LikeEvents>} */
export class Likes extends Emitter<LikeEvents> {
    /** @param {import("./client.js").Client} client */
    constructor({ connection, user }: import("./client.js").Client);
    /** How to show the like of a post or comment. @param {Likeable} object @returns {LikeView} */
    view({ id, likes, liked }: Likeable): LikeView;
    /** Likes, or takes the like back. @param {Likeable} object @param {"post" | "comment"} [type] */
    toggle(object: Likeable, type?: "post" | "comment"): LikeView;
    /** The reason of a reversal was read. @param {number} id */
    dismiss(id: number): void;
    /** Reads the likes of posts anew: those on the user's other devices are pushed, but not recovered.
     * @param {number[]} ids */
    refresh(ids: number[]): Promise<void>;
    /** Takes what was read of a post or comment, unless a like of it is pending. @param {Likeable} object */
    refreshed({ id, liked, likes }: Likeable): void;
    #private;
}
export type Settling = Pick<PendingLike, "id" | "isAsking" | "open" | "final">;
import type { LikeEvents } from "../types.js";
import { Emitter } from "./emitter.js";
import type { Likeable } from "../types.js";
import type { LikeView } from "../types.js";
import type { PendingLike } from "../types.js";
