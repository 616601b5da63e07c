/** @extends {Pages<ItemList<Notification>>} */
export class Notifications extends Pages<ItemList<{
    body?: string;
    comment?: import("../api.js").components["schemas"]["CommentId"];
    count: number;
    created_at: number;
    data?: {
        [key: string]: unknown;
    };
    filtered?: import("../api.js").components["schemas"]["FilterId"][];
    id: import("../api.js").components["schemas"]["NotificationId"];
    key?: string;
    kind: string;
    object?: import("../api.js").components["schemas"]["NotificationSubject"];
    people: import("../api.js").components["schemas"]["Person"][];
    position: import("../api.js").components["schemas"]["NotificationPosition"];
    read: boolean;
    seen: boolean;
    title?: string;
    updated_at: number;
    url?: string;
}>> {
    /** @param {import("./client.js").Client} client */
    constructor(client: import("./client.js").Client);
    unread: number;
    unseen: number;
    /** The latest updated first. @returns {Notification[]} */
    get items(): Notification[];
    /** The list was looked at. */
    markSeen: () => Promise<void>;
    /** Read up to a group as it is listed, or all that is listed. @type {(id?: number) => Promise<void>} */
    markRead: (id?: number) => Promise<void>;
    #private;
}
export type Marking = {
    position?: number;
    id?: number;
    seen?: boolean;
};
import { ItemList } from "./pages.js";
import { Pages } from "./pages.js";
import type { Notification } from "../types.js";
