// Generated from /api/openapi.json: FEEDLINE_BLESS=1 make client

export interface paths {
    "/api/v1/accounts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Creates an account and signs in. */
        post: operations["accounts.create"];
        /** Erases the caller and all their data. The id is never reused. */
        delete: operations["accounts.delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/accounts/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Exports all data of the caller as JSON, in pages. */
        get: operations["accounts.export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/accounts/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Changes the password and ends all other sessions. */
        put: operations["accounts.password"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/comments/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Deletes the caller's own comment, or a comment on the caller's post. */
        delete: operations["comments.delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/comments/{id}/like": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Likes a comment. Equivalent to likes.add with the object comment. */
        put: operations["comments.like"];
        post?: never;
        /** Removes a like of a comment. */
        delete: operations["comments.unlike"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/favourites/{type}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's favourites of a type, latest first. */
        get: operations["favourites.list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/favourites/{type}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Returns which of these objects are favourites of the caller. */
        post: operations["favourites.check"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/favourites/{type}/common/{user}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Counts and lists the favourites that the caller and another user share. */
        get: operations["favourites.common"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/favourites/{type}/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Counts the caller's favourites of a type. */
        get: operations["favourites.count"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/favourites/{type}/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Adds an object of any type to the caller's favourites. Adding again keeps the first time. */
        put: operations["favourites.add"];
        post?: never;
        /** Removes an object from the caller's favourites. */
        delete: operations["favourites.remove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's notifications in groups, latest first. */
        get: operations["notifications.list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Marks notifications as read or seen, up to one or all. */
        put: operations["notifications.mark_read"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/objects/{type}/{id}/favourites": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Counts and lists the users with an object among their favourites, latest first. */
        get: operations["favourites.holders"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publishes a post. */
        post: operations["posts.create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns a post. */
        get: operations["posts.get"];
        put?: never;
        post?: never;
        /** Deletes the caller's own post. */
        delete: operations["posts.delete"];
        options?: never;
        head?: never;
        /** Edits the caller's own post. Omitted members stay, null clears. */
        patch: operations["posts.edit"];
        trace?: never;
    };
    "/api/v1/posts/{id}/comments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the comments on a post, or the replies to a comment, newest first. */
        get: operations["comments.list"];
        put?: never;
        /** Creates a comment on a post, or a reply to a comment. */
        post: operations["comments.create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/like": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Likes a post. Acknowledged at once, settled shortly afterwards. */
        put: operations["likes.add"];
        post?: never;
        /** Removes a like of a post. */
        delete: operations["likes.remove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/likes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users who like a post, latest first. */
        get: operations["likes.list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Signs in. */
        post: operations["sessions.create"];
        /** Ends this session, or with `all` all sessions and tokens of the user. */
        delete: operations["sessions.delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns a page of the caller's timeline and the log position at which it was read. */
        get: operations["timeline.read"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/timeline/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Sets the read marker of the caller's timeline and pushes it to the user's other sockets. */
        put: operations["timeline.mark_read"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/timeline/updates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns the changes of the caller's timeline since a position. */
        get: operations["timeline.updates"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/topics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists topics of public posts, latest activity first. */
        get: operations["topics.list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/topics/{name}/posts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the newest 1,000 posts of a topic. */
        get: operations["topics.read"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Finds users by the beginning of their id or name, ignoring case. */
        get: operations["users.search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Changes the caller's name or picture. */
        patch: operations["users.update"];
        trace?: never;
    };
    "/api/v1/users/suggested": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Suggests users that the caller's followees follow, most mutual first. */
        get: operations["users.suggest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns a profile with counts and the relations to the caller. */
        get: operations["users.get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/block": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Hides both users from each other and ends follows in both directions. */
        put: operations["users.block"];
        post?: never;
        /** Ends blocking. Follows are not restored. */
        delete: operations["users.unblock"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/follow": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Follows a user. Their posts appear in the timeline at once. */
        put: operations["users.follow"];
        post?: never;
        /** Unfollows a user. Their posts disappear from the timeline at once. */
        delete: operations["users.unfollow"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/followers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the followers of a user, latest first. */
        get: operations["users.followers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/following": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users that a user follows, latest first. */
        get: operations["users.following"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/hide": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Hides the caller's posts from a user. */
        put: operations["users.hide"];
        post?: never;
        /** Shows them to the user again. */
        delete: operations["users.unhide"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/mute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Removes a user's posts from the caller's timeline, topics and notifications. */
        put: operations["users.mute"];
        post?: never;
        /** Ends muting. Posts of a followed user return. */
        delete: operations["users.unmute"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/notify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Enables alerts about a user's posts. */
        put: operations["users.notify"];
        post?: never;
        /** Disables alerts about a user's posts. */
        delete: operations["users.unnotify"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/posts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists all posts of an author, newest first. */
        get: operations["users.posts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        About: {
            id: components["schemas"]["PostId"];
            /** @constant */
            type: "post";
        } | {
            id: components["schemas"]["CommentId"];
            post: components["schemas"]["PostId"];
            /** @constant */
            type: "comment";
        };
        Accepted: {
            liked: boolean;
            /** Format: uint64 */
            likes?: number | null;
            state: components["schemas"]["State"];
        };
        AuthorList: {
            /** @default null */
            cursor?: string | null;
            id: components["schemas"]["UserId"];
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            /** @default null */
            with?: components["schemas"]["Part"][];
        };
        Change: {
            /** @default null */
            avatar?: string | null;
            /** @default null */
            name?: string | null;
        };
        Checked: {
            /** Format: uint64 */
            at?: number | null;
            favourited: boolean;
            id: string;
        };
        CheckedObjects: {
            items: components["schemas"]["Checked"][];
        };
        Comment: {
            author?: components["schemas"]["UserId"] | null;
            /** Format: uint64 */
            created_at: number;
            id: components["schemas"]["CommentId"];
            /** Format: uint64 */
            likes: number;
            mentions: components["schemas"]["UserId"][];
            parent?: components["schemas"]["CommentId"] | null;
            post: components["schemas"]["PostId"];
            /** Format: uint64 */
            replies: number;
            text?: string | null;
        };
        CommentDraft: {
            id: components["schemas"]["PostId"];
            /** @default null */
            reply_to?: components["schemas"]["CommentId"] | null;
            text: string;
        };
        CommentId: number;
        CommentList: {
            /** @default null */
            cursor?: string | null;
            id: components["schemas"]["PostId"];
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            /** @default null */
            under?: components["schemas"]["CommentId"] | null;
        };
        CommentPage: {
            items: components["schemas"]["Comment"][];
            next?: string | null;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        CommonList: {
            /** @default null */
            cursor?: string | null;
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            type: components["schemas"]["ObjectType"];
            user: components["schemas"]["UserId"];
            /** @default null */
            with?: components["schemas"]["Part"][];
        };
        CommonPage: {
            /** Format: uint64 */
            count?: number | null;
            items: components["schemas"]["FavouriteItem"][];
            next?: string | null;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        Count: {
            /** Format: uint64 */
            count: number;
        };
        Done: Record<string, never>;
        Draft: {
            /** @default null */
            data?: {
                [key: string]: unknown;
            } | null;
            /** @default null */
            location?: components["schemas"]["Location"] | null;
            /** @default [] */
            media?: components["schemas"]["Media"][];
            /** @default null */
            platform?: string | null;
            /** @default  */
            text?: string;
            /** @default [] */
            topics?: string[];
            /** @default public */
            visibility?: components["schemas"]["Visibility"];
        };
        Edges: {
            blocking: boolean;
            followed_by: boolean;
            following: boolean;
            hiding: boolean;
            muting: boolean;
            notify: boolean;
        };
        Edit: {
            /** @default null */
            data?: {
                [key: string]: unknown;
            } | null;
            id: components["schemas"]["PostId"];
            /** @default null */
            location?: components["schemas"]["Location"] | null;
            /** @default null */
            media?: components["schemas"]["Media"][] | null;
            /** @default null */
            text?: string | null;
            /** @default null */
            topics?: string[] | null;
            /** @default null */
            visibility?: components["schemas"]["Visibility"] | null;
        };
        ErasureRequest: Record<string, never>;
        Error: {
            error: {
                /** @enum {string} */
                code: "invalid" | "unauthorized" | "forbidden" | "not_found" | "conflict" | "in_progress" | "too_large" | "limit_exceeded" | "idempotency_conflict" | "rate_limited" | "too_many_requests" | "internal" | "busy" | "unavailable";
                field?: string;
                message: string;
            };
        };
        Export: {
            has_password?: boolean | null;
            next?: string | null;
            read?: components["schemas"]["PostId"] | null;
            user?: components["schemas"]["User"] | null;
        } & {
            [key: string]: unknown[];
        };
        ExportRequest: {
            /** @default null */
            cursor?: string | null;
        };
        FavouriteItem: {
            /** Format: uint64 */
            at: number;
            id: string;
            post?: components["schemas"]["PageItem"] | null;
        };
        FavouriteList: {
            /** @default null */
            cursor?: string | null;
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            type: components["schemas"]["ObjectType"];
            /** @default null */
            with?: components["schemas"]["Part"][];
        };
        FavouritePage: {
            items: components["schemas"]["FavouriteItem"][];
            next?: string | null;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        HolderItem: {
            /** Format: uint64 */
            at: number;
            avatar?: string | null;
            id: components["schemas"]["UserId"];
            name: string;
        };
        HolderList: {
            /** @default null */
            cursor?: string | null;
            id: components["schemas"]["ObjectId"];
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            type: components["schemas"]["ObjectType"];
        };
        HolderPage: {
            /** Format: uint64 */
            count: number;
            items: components["schemas"]["HolderItem"][];
            next?: string | null;
        };
        /** @enum {string} */
        Kind: "post" | "comment";
        Left: {
            /** Format: uint */
            unread: number;
            /** Format: uint */
            unseen: number;
        };
        Location: {
            /** Format: double */
            lat: number;
            /** Format: double */
            lon: number;
            name?: string | null;
        };
        LonePost: {
            author: components["schemas"]["UserId"];
            /** Format: uint64 */
            comments: number;
            /** Format: uint64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            } | null;
            /** Format: uint64 */
            edited_at?: number | null;
            favourited?: boolean;
            /** Format: uint64 */
            favourites: number;
            id: components["schemas"]["PostId"];
            liked?: boolean;
            likers?: components["schemas"]["UserId"][] | null;
            /** Format: uint64 */
            likes: number;
            location?: components["schemas"]["Location"] | null;
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            newest_comments?: components["schemas"]["Comment"][] | null;
            people?: {
                [key: string]: components["schemas"]["Person"];
            } | null;
            platform?: string | null;
            text: string;
            topics?: string[];
            /** @default public */
            visibility?: components["schemas"]["Visibility"];
        };
        Marking: {
            /** @default null */
            id?: components["schemas"]["NotificationId"] | null;
            /** @default false */
            seen?: boolean;
        };
        Media: {
            alt?: string | null;
            /** Format: uint32 */
            height?: number | null;
            type: components["schemas"]["MediaKind"];
            url: string;
            /** Format: uint32 */
            width?: number | null;
        };
        MediaKind: "image" | "video" | "audio";
        Notification: {
            /** Format: uint64 */
            count: number;
            /** Format: uint64 */
            created_at: number;
            id: components["schemas"]["NotificationId"];
            kind: string;
            object?: components["schemas"]["About"] | null;
            people: components["schemas"]["Person"][];
            read: boolean;
            seen: boolean;
            /** Format: uint64 */
            updated_at: number;
        };
        NotificationId: number;
        NotificationPage: {
            items: components["schemas"]["Notification"][];
            next?: string | null;
            /** Format: uint */
            unread: number;
            /** Format: uint */
            unseen: number;
        };
        /** @example a-17 */
        ObjectId: string | number;
        /**
         * @example post
         * @example video
         */
        ObjectType: string;
        Objects: {
            ids: components["schemas"]["ObjectId"][];
            type: components["schemas"]["ObjectType"];
        };
        OneComment: {
            id: components["schemas"]["CommentId"];
        };
        OneObject: {
            id: components["schemas"]["ObjectId"];
            type: components["schemas"]["ObjectType"];
        };
        OnePost: {
            id: components["schemas"]["PostId"];
        };
        OneType: {
            type: components["schemas"]["ObjectType"];
        };
        OneUser: {
            id: components["schemas"]["UserId"];
        };
        OwnList: {
            /** @default null */
            cursor?: string | null;
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
        };
        PageItem: {
            author: components["schemas"]["UserId"];
            /** Format: uint64 */
            comments: number;
            /** Format: uint64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            } | null;
            /** Format: uint64 */
            edited_at?: number | null;
            favourited?: boolean;
            /** Format: uint64 */
            favourites: number;
            id: components["schemas"]["PostId"];
            liked?: boolean;
            likers?: components["schemas"]["UserId"][] | null;
            /** Format: uint64 */
            likes: number;
            location?: components["schemas"]["Location"] | null;
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            newest_comments?: components["schemas"]["Comment"][] | null;
            platform?: string | null;
            text: string;
            topics?: string[];
            /** @default public */
            visibility?: components["schemas"]["Visibility"];
        };
        Part: "likers" | "comments" | "people";
        PasswordChange: {
            new: string;
            old: string;
        };
        Person: {
            avatar?: string | null;
            id: components["schemas"]["UserId"];
            name: string;
        };
        Position: {
            epoch: string;
            /** Format: uint64 */
            offset: number;
        };
        PostId: number;
        PostList: {
            /** @default null */
            cursor?: string | null;
            id: components["schemas"]["PostId"];
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
        };
        PostPage: {
            items: components["schemas"]["PageItem"][];
            next?: string | null;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        Profile: {
            avatar?: string | null;
            /** Format: uint64 */
            created_at: number;
            edges: components["schemas"]["Edges"];
            /** Format: uint64 */
            followers: number;
            /** Format: uint64 */
            following: number;
            id: components["schemas"]["UserId"];
            name: string;
            /** Format: uint64 */
            posts: number;
        };
        Read: {
            id: components["schemas"]["PostId"];
            /** Format: uint64 */
            unread: number;
        };
        ReadPost: {
            id: components["schemas"]["PostId"];
            /** @default null */
            with?: components["schemas"]["Part"][];
        };
        ReadUpTo: {
            id: components["schemas"]["PostId"];
        };
        Search: {
            /** @default null */
            cursor?: string | null;
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            q: string;
        };
        ShownPost: {
            author: components["schemas"]["UserId"];
            /** Format: uint64 */
            comments: number;
            /** Format: uint64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            } | null;
            /** Format: uint64 */
            edited_at?: number | null;
            favourited?: boolean;
            /** Format: uint64 */
            favourites: number;
            id: components["schemas"]["PostId"];
            liked?: boolean;
            /** Format: uint64 */
            likes: number;
            location?: components["schemas"]["Location"] | null;
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            platform?: string | null;
            text: string;
            topics?: string[];
            /** @default public */
            visibility?: components["schemas"]["Visibility"];
        };
        SignIn: {
            password: string;
            user: components["schemas"]["UserId"];
        };
        SignOut: {
            /** @default false */
            all?: boolean;
        };
        SignUp: {
            /** @default null */
            name?: string | null;
            password: string;
            user: components["schemas"]["UserId"];
        };
        SignedIn: {
            /** Format: uint64 */
            expires_at: number;
            token: string;
            user: components["schemas"]["UserId"];
        };
        Since: {
            epoch: string;
            /** Format: uint64 */
            offset: number;
        };
        /** @enum {string} */
        State: "accepted";
        Suggestion: {
            avatar?: string | null;
            /** Format: uint64 */
            created_at: number;
            id: components["schemas"]["UserId"];
            /** Format: uint64 */
            mutual: number;
            name: string;
        };
        SuggestionPage: {
            items: components["schemas"]["Suggestion"][];
            next?: string | null;
        };
        Target: {
            id: components["schemas"]["PostId"];
            object?: components["schemas"]["Kind"];
        };
        TimelineList: {
            /** @default null */
            cursor?: string | null;
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            /** @default null */
            with?: components["schemas"]["Part"][];
        };
        TimelinePage: {
            items: components["schemas"]["PageItem"][];
            next?: string | null;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
            position: components["schemas"]["Position"];
            read?: components["schemas"]["Read"] | null;
        };
        TopicItem: {
            /** Format: uint64 */
            active_at: number;
            name: string;
            /** Format: uint64 */
            posts: number;
        };
        TopicList: {
            /** @default null */
            cursor?: string | null;
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
            name: string;
            /** @default null */
            with?: components["schemas"]["Part"][];
        };
        TopicPage: {
            items: components["schemas"]["TopicItem"][];
            next?: string | null;
        };
        Update: {
            data: unknown;
            /** Format: uint64 */
            offset: number;
        };
        UpdatesPage: {
            items: components["schemas"]["Update"][];
            position: components["schemas"]["Position"];
            recovered: boolean;
        };
        User: {
            avatar?: string | null;
            /** Format: uint64 */
            created_at: number;
            id: components["schemas"]["UserId"];
            name: string;
        };
        /** @example ann */
        UserId: string;
        UserList: {
            /** @default null */
            cursor?: string | null;
            id: components["schemas"]["UserId"];
            /**
             * Format: uint64
             * @default 20
             */
            limit?: number;
        };
        UserPage: {
            items: components["schemas"]["User"][];
            next?: string | null;
        };
        Visibility: "public" | "followers" | "friends" | {
            only_to: components["schemas"]["UserId"][];
        } | {
            not_to: components["schemas"]["UserId"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "accounts.create": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @default null */
                    name?: string | null;
                    password: string;
                    user: components["schemas"]["UserId"];
                };
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedIn"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "accounts.delete": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "accounts.export": {
        parameters: {
            query?: {
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Export"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "accounts.password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    new: string;
                    old: string;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "comments.delete": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "comments.like": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "comments.unlike": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.list": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                with?: components["schemas"]["Part"][];
            };
            header?: never;
            path: {
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FavouritePage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.check": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    ids: components["schemas"]["ObjectId"][];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckedObjects"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.common": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                with?: components["schemas"]["Part"][];
            };
            header?: never;
            path: {
                type: components["schemas"]["ObjectType"];
                user: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommonPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.count": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Count"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.add": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["ObjectId"];
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FavouriteItem"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.remove": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["ObjectId"];
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "notifications.list": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotificationPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "notifications.mark_read": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @default null */
                    id?: components["schemas"]["NotificationId"] | null;
                    /** @default false */
                    seen?: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Left"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "favourites.holders": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                id: components["schemas"]["ObjectId"];
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HolderPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "posts.create": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @default null */
                    data?: {
                        [key: string]: unknown;
                    } | null;
                    /** @default null */
                    location?: components["schemas"]["Location"] | null;
                    /** @default [] */
                    media?: components["schemas"]["Media"][];
                    /** @default null */
                    platform?: string | null;
                    /** @default  */
                    text?: string;
                    /** @default [] */
                    topics?: string[];
                    /** @default public */
                    visibility?: components["schemas"]["Visibility"];
                };
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ShownPost"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "posts.get": {
        parameters: {
            query?: {
                with?: components["schemas"]["Part"][];
            };
            header?: never;
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LonePost"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "posts.delete": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "posts.edit": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @default null */
                    data?: {
                        [key: string]: unknown;
                    } | null;
                    /** @default null */
                    location?: components["schemas"]["Location"] | null;
                    /** @default null */
                    media?: components["schemas"]["Media"][] | null;
                    /** @default null */
                    text?: string | null;
                    /** @default null */
                    topics?: string[] | null;
                    /** @default null */
                    visibility?: components["schemas"]["Visibility"] | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ShownPost"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "comments.list": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                under?: components["schemas"]["CommentId"] | null;
            };
            header?: never;
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommentPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "comments.create": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @default null */
                    reply_to?: components["schemas"]["CommentId"] | null;
                    text: string;
                };
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comment"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "likes.add": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    object?: components["schemas"]["Kind"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "likes.remove": {
        parameters: {
            query?: {
                object?: components["schemas"]["Kind"];
            };
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "likes.list": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "sessions.create": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    password: string;
                    user: components["schemas"]["UserId"];
                };
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedIn"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "sessions.delete": {
        parameters: {
            query?: {
                all?: boolean;
            };
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "timeline.read": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                with?: components["schemas"]["Part"][];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TimelinePage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "timeline.mark_read": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: components["schemas"]["PostId"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Read"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "timeline.updates": {
        parameters: {
            query: {
                epoch: string;
                offset: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpdatesPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "topics.list": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TopicPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "topics.read": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                with?: components["schemas"]["Part"][];
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.search": {
        parameters: {
            query: {
                cursor?: string | null;
                limit?: number;
                q: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.update": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @default null */
                    avatar?: string | null;
                    /** @default null */
                    name?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.suggest": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SuggestionPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.get": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.block": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.unblock": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.follow": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.unfollow": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.followers": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.following": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.hide": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.unhide": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.mute": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.unmute": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.notify": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.unnotify": {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
    "users.posts": {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                with?: components["schemas"]["Part"][];
            };
            header?: never;
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Error"];
                };
            };
        };
    };
}
