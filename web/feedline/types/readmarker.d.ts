/** @extends {Emitter<{change: void}>} */
export class ReadMarker extends Emitter<{
    change: void;
}> {
    /** @param {import("./client.js").Client} client */
    constructor({ connection, user, timeline }: import("./client.js").Client);
    /** The newest post that was seen. */ id: number;
    /** How many posts of others are newer. */ unread: number;
    /** Says that this post was on screen. @param {number} id */
    mark(id: number): void;
    #private;
}
import { Emitter } from "./emitter.js";
