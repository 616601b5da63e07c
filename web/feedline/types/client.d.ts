/** @import { FeedlineOptions, PostListName, Source } from "../types.js" */
export class Client {
    /** @param {FeedlineOptions} options */
    constructor({ user, keep, ...options }: FeedlineOptions);
    open: () => void;
    /** Goes offline. `open` recovers what happens meanwhile. */
    close: () => void;
    /** A profile, a topic or any list of posts. Close it in the end. @param {Source<PostListName>} source */
    openTimeline: (source: Source<PostListName>) => Timeline;
    user: string;
    keep: number;
    connection: Connection;
    likes: Likes;
    people: People;
    timeline: Timeline;
    notifications: Notifications;
    readMarker: ReadMarker;
}
import { Timeline } from "./timeline.js";
import type { PostListName } from "../types.js";
import type { Source } from "../types.js";
import { Connection } from "./connection.js";
import { Likes } from "./likes.js";
import { People } from "./people.js";
import { Notifications } from "./notifications.js";
import { ReadMarker } from "./readmarker.js";
import type { FeedlineOptions } from "../types.js";
