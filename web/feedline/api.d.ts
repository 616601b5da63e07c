// Generated from /api/openapi.json: FEEDLINE_BLESS=1 make client

export interface paths {
    "/api": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Runs commands, one after another. The body has one or more of these objects, the response one line for each. */
        post: operations["server.commands"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Runs many commands in one request. */
        post: operations["server.batch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/block_user": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends all access of a user. */
        post: operations["server.block_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/broadcast": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publishes to several channels of the application. */
        post: operations["server.broadcast"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/channels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lists the channels with subscribers on all nodes. */
        post: operations["server.channels"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/delete_user": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Erases a user and all their data. */
        post: operations["server.delete_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/disconnect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Closes connections. */
        post: operations["server.disconnect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Acknowledges events of the outlet, and returns the next ones. */
        get: operations["outlet.poll"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/export_user": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Exports all data of a user, in pages. */
        post: operations["server.export_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Reads the log of a channel. */
        post: operations["server.history"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/history_remove": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Removes the log of a channel of the application. Its position stays. */
        post: operations["server.history_remove"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/info": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Describes all nodes. */
        post: operations["server.info"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/invalidate_user_tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends all tokens and sessions of a user. */
        post: operations["server.invalidate_user_tokens"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/presence": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lists the clients in a channel. */
        post: operations["server.presence"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/presence_stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Counts the clients and users in a channel. */
        post: operations["server.presence_stats"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/publish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publishes to a channel of the application. */
        post: operations["server.publish"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Changes when connections expire. */
        post: operations["server.refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/revoke_token": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends one token. */
        post: operations["server.revoke_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rpc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Runs an operation of the feed, for the user in X-User or for nobody. */
        post: operations["server.rpc"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns the live nodes, the state of the stores, and the work that waits. */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Subscribes connections to a channel. */
        post: operations["server.subscribe"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/unblock_user": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Allows access again. */
        post: operations["server.unblock_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/unsubscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends subscriptions of connections. */
        post: operations["server.unsubscribe"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
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
    "/api/v1/comments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns comments by id, in this order, without those that the caller cannot see. */
        get: operations["comments.many"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/comments/{comment}/like": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Likes a post or a comment. Acknowledged at once, settled shortly afterwards. */
        put: operations["likes.add.comment"];
        post?: never;
        /** Removes a like of a post or a comment. */
        delete: operations["likes.remove.comment"];
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
        /** Returns a comment. */
        get: operations["comments.get"];
        put?: never;
        post?: never;
        /** Deletes the caller's own comment, or a comment on the caller's post. */
        delete: operations["comments.delete"];
        options?: never;
        head?: never;
        /** Edits the caller's own comment. */
        patch: operations["comments.edit"];
        trace?: never;
    };
    "/api/v1/comments/{id}/likes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users who like a comment, latest first. */
        get: operations["comments.likers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/comments/{id}/removal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Removes a comment. It is shown as a deleted one, with its replies. Its author still sees it, with the reason. */
        put: operations["comments.remove"];
        post?: never;
        /** Restores a removed comment. */
        delete: operations["comments.restore"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's devices, ordered by id. */
        get: operations["devices.list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Registers a device for pushes, or updates it. Its address is taken from any other device that has it. */
        put: operations["devices.register"];
        post?: never;
        /** Removes a device of the caller. */
        delete: operations["devices.remove"];
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
    "/api/v1/filters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's filters, oldest first. */
        get: operations["filters.list"];
        put?: never;
        /** Creates a filter: content with one of its words is left out or marked. */
        post: operations["filters.create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/filters/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Deletes a filter. */
        delete: operations["filters.delete"];
        options?: never;
        head?: never;
        /** Changes a filter. */
        patch: operations["filters.update"];
        trace?: never;
    };
    "/api/v1/lists": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's lists, oldest first. */
        get: operations["lists.list"];
        put?: never;
        /** Creates a list of users and topics. */
        post: operations["lists.create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/lists/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns a list of the caller. */
        get: operations["lists.get"];
        put?: never;
        post?: never;
        /** Deletes a list. */
        delete: operations["lists.delete"];
        options?: never;
        head?: never;
        /** Changes a list. */
        patch: operations["lists.update"];
        trace?: never;
    };
    "/api/v1/lists/{id}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the members of a list: its users, latest first, and its topics. */
        get: operations["lists.members"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/lists/{id}/posts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Reads the posts of a list, newest first. */
        get: operations["lists.read"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/lists/{id}/topics/{topic}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Adds a user or a topic to a list. Users need not be followed, and are not informed. */
        put: operations["lists.add.id"];
        post?: never;
        /** Removes a user or a topic from a list. */
        delete: operations["lists.remove.id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/lists/{id}/updates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the updates of a list since a position in its log. */
        get: operations["lists.updates"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/lists/{id}/users/{user}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Adds a user or a topic to a list. Users need not be followed, and are not informed. */
        put: operations["lists.add"];
        post?: never;
        /** Removes a user or a topic from a list. */
        delete: operations["lists.remove"];
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
        /** Sends a notification of the application to users. */
        post: operations["notifications.send"];
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
        /** Marks notifications as read or seen, up to a position or all. */
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
        /** Returns posts by id, in this order, without those that the caller cannot see. */
        get: operations["posts.many"];
        put?: never;
        /** Publishes a post. */
        post: operations["posts.create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/explore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the public posts of all users, newest first. */
        get: operations["posts.explore"];
        put?: never;
        post?: never;
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
        /** Edits the caller's own post. Omitted members stay, null clears media, location and data. */
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
        /** Lists the comments on a post, or the replies to a comment, newest first or oldest first. */
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
    "/api/v1/posts/{id}/mute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Stops notifications about comments and likes under a post. Existing ones stay. */
        put: operations["conversations.mute"];
        post?: never;
        /** Resumes notifications about a post. */
        delete: operations["conversations.unmute"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/quote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Detaches a quote from the caller's post for good: the quote stays, without the post. */
        delete: operations["quotes.detach"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/quotes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the posts that quote a post, newest first. */
        get: operations["posts.quotes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/removal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Removes a post. Only its author still sees it, with the reason. */
        put: operations["posts.remove"];
        post?: never;
        /** Restores a removed post at its old place. */
        delete: operations["posts.restore"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/repost": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Reposts a post to the caller's followers. Repeated: returns the first repost. */
        put: operations["posts.repost"];
        post?: never;
        /** Ends the caller's repost of a post. */
        delete: operations["posts.unrepost"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{id}/reposts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users who reposted a post, latest first. */
        get: operations["posts.reposters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/posts/{post}/like": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Likes a post or a comment. Acknowledged at once, settled shortly afterwards. */
        put: operations["likes.add"];
        post?: never;
        /** Removes a like of a post or a comment. */
        delete: operations["likes.remove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/push/key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns the key with which browsers subscribe to pushes of this server. */
        get: operations["push.key"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/push/preferences": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns the pushes that the caller wants. */
        get: operations["push.preferences"];
        /** Replaces the pushes that the caller wants. Omitted members get their defaults. */
        put: operations["push.set_preferences"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/quotes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Detaches all quotes of the caller's posts by a user. */
        delete: operations["quotes.detach_all"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/reports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the open reports, or with `open=false` the closed ones, latest first. */
        get: operations["reports.list"];
        put?: never;
        /** Reports a user, a post or a comment. Reporting the same again returns the open report. */
        post: operations["reports.create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/reports/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Closes a report with what was done about it. */
        put: operations["reports.close"];
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
    "/api/v1/topics/followed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the topics that the caller follows, by name. */
        get: operations["topics.followed"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/topics/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Finds topics by the beginning of their name, ignoring case and accents. `GET /topics?q=` does the same. */
        get: operations["topics.search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/topics/{name}/follow": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Follows a topic: its public posts come into the caller's timeline. */
        put: operations["topics.follow"];
        post?: never;
        /** Ends a follow of a topic. Posts that the timeline also has from their authors stay. */
        delete: operations["topics.unfollow"];
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
        /** Finds users by the beginning of their id or of a word of their name, ignoring case and accents. */
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
        /** Changes the caller's profile. Omitted members stay, null clears avatar, bio and data. */
        patch: operations["users.update"];
        trace?: never;
    };
    "/api/v1/users/me/blocked": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users that the caller blocks, latest first. */
        get: operations["users.blocked"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/followers/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes a follower, or the request of a user, without a notification. */
        delete: operations["users.remove_follower"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/friends": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's friends: users who follow each other, latest first. */
        get: operations["users.friends"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/hidden": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users that the caller hides posts from, latest first. */
        get: operations["users.hidden"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/muted": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users that the caller mutes, latest first. */
        get: operations["users.muted"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/requested": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users that the caller has requested to follow, latest first. */
        get: operations["users.requested"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/requests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users with a request to follow the caller, latest first. */
        get: operations["users.requests"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/me/requests/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Accepts a request to follow. The user follows the caller from then on. */
        put: operations["users.accept"];
        post?: never;
        /** Rejects a request to follow, without a notification. A new request of that user is listed 24 hours later. */
        delete: operations["users.reject"];
        options?: never;
        head?: never;
        patch?: never;
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
    "/api/v1/users/{id}/comments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the comments that a user wrote, newest first. */
        get: operations["users.comments"];
        put?: never;
        post?: never;
        delete?: never;
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
        /** Follows a user. Their posts appear in the timeline at once. For a locked account, creates a request. */
        put: operations["users.follow"];
        post?: never;
        /** Unfollows a user, or withdraws the request to follow. Their posts disappear from the timeline at once. */
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
    "/api/v1/users/{id}/likes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the posts that a user likes, newest post first. */
        get: operations["users.likes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/lists": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the caller's lists that have a user. */
        get: operations["users.lists"];
        put?: never;
        post?: never;
        delete?: never;
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
        /** Removes a user's posts from the caller's timeline, topics and notifications, until a time or for good. */
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
        /** Lists the posts of an author, newest first. */
        get: operations["users.posts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/reposts/mute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Removes a user's reposts from the caller's timeline. */
        put: operations["users.reposts_off"];
        post?: never;
        /** Shows them again. */
        delete: operations["users.reposts_on"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/shared": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the users that the caller follows and that follow a user, latest first. */
        get: operations["users.shared"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{id}/suspend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Limits or suspends a user. The last level applies. A limited user's posts are seen by followers and by id, in no topic, search or suggestion. Of a suspended user, nobody sees anything. */
        put: operations["users.suspend"];
        post?: never;
        /** Ends the suspension of a user. Posts return to all pages. */
        delete: operations["users.unsuspend"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    comment: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A new comment or reply. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["CommentCreatedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    counts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The counts of a post. Ignore those whose version is lower than the last one. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["CountsEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    edited: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A post was edited. Or: A comment was edited. Ignore it if its `edited_at` is lower than the last one. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PostEditedEvent"] | components["schemas"]["CommentEditedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "filters.changed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The user's filters changed: what was hidden or marked may be shown now, and the other way round. Reload the timeline and other lists. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["FiltersChangedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    gone: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A post was removed, or the reader cannot see it any more. Or: An author was suspended: remove all posts of the author. Or: A comment was removed. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PostGoneEvent"] | components["schemas"]["AuthorGoneEvent"] | components["schemas"]["CommentGoneEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "like.changed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The user liked an object, or took a like back, over another connection or the HTTP API. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["LikeChangedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "like.reverted": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A like that was acknowledged could not be settled, and is undone. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["LikeRevertedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "like.settled": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A like is in the ledger. Only the connection that requested it receives this, once for each object. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["LikeSettledEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    notification: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A group of notifications in its current state: it replaces the group with the same id. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NotificationUpdatedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "notification.gone": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A group of notifications was removed, or has nothing that the user can see. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NotificationGoneEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "notifications.read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Notifications were marked as read or seen on another device. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NotificationsReadEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A new post. Its counts are those of that moment, without the reader's flags. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PostCreatedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    read: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The timeline was read on another device. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["TimelineReadEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    reposted: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A user that the reader follows reposted a post that the timeline has. It may arrive before the event of the post. */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PostRepostedEvent"];
                };
            };
            responses: {
                204: {
                    headers: {
                        [name: string]: string | number | undefined;
                    };
                    content?: never;
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        AcceptedLike: {
            liked: boolean;
            /** Format: int64 */
            likes?: number;
            state: components["schemas"]["LikeState"];
        };
        /** @enum {string} */
        ApnsEnvironment: "production" | "sandbox";
        AppNotificationDraft: {
            /** @example 2 of 912 tests are red. */
            body: string;
            data?: {
                [key: string]: unknown;
            };
            from?: components["schemas"]["UserId"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            key?: string;
            /** @example app.build */
            kind: string;
            /** @default true */
            push?: boolean;
            /** @example The build failed */
            title: string;
            to: components["schemas"]["UserId"][];
            url?: string;
        };
        AppNotified: {
            /** Format: int64 */
            accepted: number;
            unknown: components["schemas"]["UserId"][];
        };
        ApplicationInfo: unknown;
        /**
         * @example {
         *       "author": "ann",
         *       "reason": "hidden",
         *       "type": "gone"
         *     }
         */
        AuthorGoneEvent: {
            author: components["schemas"]["UserId"];
            reason: components["schemas"]["GoneReason"];
            /** @constant */
            type: "gone";
        };
        /**
         * @example {
         *       "publish": {
         *         "channel": "chat:lobby",
         *         "data": {
         *           "hello": "all"
         *         }
         *       }
         *     }
         */
        BatchCommand: {
            [key: string]: Record<string, never>;
        };
        /**
         * @example {
         *       "publish": {}
         *     }
         */
        BatchCommandReply: {
            [key: string]: Record<string, never>;
        };
        BatchReply: {
            error?: components["schemas"]["ServerError"];
            replies?: components["schemas"]["BatchCommandReply"][];
        };
        BatchRequest: {
            commands: components["schemas"]["BatchCommand"][];
            parallel?: boolean;
        };
        BlockUserReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        BlockUserRequest: {
            /** Format: int64 */
            expire_at?: number;
            user: components["schemas"]["UserId"];
        };
        BroadcastReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["BroadcastResult"];
        };
        BroadcastRequest: {
            /** @default  */
            b64data?: string;
            channels: string[];
            data?: unknown;
            /** @default  */
            idempotency_key?: string;
            /** @default false */
            skip_history?: boolean;
            /** @default {} */
            tags?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @default 0
             */
            version?: number;
            /** @default  */
            version_epoch?: string;
        };
        BroadcastResponse: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["PublishResult"];
        };
        BroadcastResult: {
            responses: components["schemas"]["BroadcastResponse"][];
        };
        ChannelInfo: {
            /** Format: int64 */
            num_clients: number;
        };
        ChannelRequest: {
            channel: string;
        };
        ChannelsReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["ChannelsResult"];
        };
        ChannelsRequest: {
            /** @default  */
            pattern?: string;
        };
        ChannelsResult: {
            channels: {
                [key: string]: components["schemas"]["ChannelInfo"];
            };
        };
        ClientInfo: {
            chan_info?: components["schemas"]["ApplicationInfo"];
            client: string;
            conn_info?: components["schemas"]["ApplicationInfo"];
            user: string;
        };
        Command: {
            /** Format: int64 */
            id?: number;
            /** @example publish */
            method: string;
            /**
             * @example {
             *       "channel": "chat:lobby",
             *       "data": {
             *         "hello": "all"
             *       }
             *     }
             */
            params?: Record<string, never>;
        };
        /**
         * @example {
         *       "id": 1,
         *       "result": {}
         *     }
         */
        CommandReply: {
            error?: components["schemas"]["ServerError"];
            /** Format: int64 */
            id?: number;
            /** @example {} */
            result?: Record<string, never>;
        };
        Comment: {
            author?: components["schemas"]["UserId"];
            /** Format: int64 */
            created_at: number;
            /** Format: int64 */
            edited_at?: number;
            filtered?: components["schemas"]["FilterId"][];
            id: components["schemas"]["CommentId"];
            liked?: boolean;
            /** Format: int64 */
            likes: number;
            mentions?: components["schemas"]["UserId"][];
            post: components["schemas"]["PostId"];
            removed?: components["schemas"]["Removal"];
            /** Format: int64 */
            replies: number;
            reply_to?: components["schemas"]["CommentId"];
            text?: string;
        };
        /**
         * @example {
         *       "comment": {
         *         "author": "ann",
         *         "created_at": 1795236768000,
         *         "id": 2699932336111616,
         *         "likes": 0,
         *         "mentions": [
         *           "bo"
         *         ],
         *         "post": 2699932278243328,
         *         "replies": 0,
         *         "text": "Welcome, @bo"
         *       },
         *       "people": {
         *         "ann": {
         *           "id": "ann",
         *           "name": "Ann"
         *         }
         *       },
         *       "type": "comment"
         *     }
         */
        CommentCreatedEvent: {
            comment: components["schemas"]["Comment"];
            people: {
                [key: string]: components["schemas"]["Person"];
            };
            /** @constant */
            type: "comment";
        };
        CommentDraft: {
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            reply_to?: components["schemas"]["CommentId"];
            text: string;
        };
        CommentEdit: {
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            text: string;
        };
        /**
         * @example {
         *       "comment": {
         *         "author": "ann",
         *         "created_at": 1795236768000,
         *         "edited_at": 1795236774872,
         *         "id": 2699932336111616,
         *         "likes": 0,
         *         "mentions": [
         *           "bo"
         *         ],
         *         "post": 2699932278243328,
         *         "replies": 0,
         *         "text": "Welcome, @bo"
         *       },
         *       "people": {
         *         "ann": {
         *           "id": "ann",
         *           "name": "Ann"
         *         }
         *       },
         *       "type": "edited"
         *     }
         */
        CommentEditedEvent: {
            comment: components["schemas"]["Comment"];
            people: {
                [key: string]: components["schemas"]["Person"];
            };
            /** @constant */
            type: "edited";
        };
        /**
         * @example {
         *       "comment": 2699932336111616,
         *       "stays": false,
         *       "type": "gone"
         *     }
         */
        CommentGoneEvent: {
            comment: components["schemas"]["CommentId"];
            stays: boolean;
            /** @constant */
            type: "gone";
        };
        /** Format: int64 */
        CommentId: number;
        /** @enum {string} */
        CommentOrder: "newest" | "oldest";
        CommentPage: {
            items: components["schemas"]["Comment"][];
            next?: string;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        /** @enum {string} */
        CommentPolicy: "everyone" | "followers" | "mentioned" | "nobody";
        CommentRemoval: {
            reason?: string;
        };
        CommonFavouritePage: {
            /** Format: int64 */
            count?: number;
            items: components["schemas"]["Favourite"][];
            next?: string;
            people?: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        /**
         * @example {
         *       "comments": 1,
         *       "id": 2699932278243328,
         *       "likes": 3,
         *       "type": "counts",
         *       "version": 4
         *     }
         */
        CountsEvent: {
            /** Format: int64 */
            comments: number;
            id: components["schemas"]["PostId"];
            /** Format: int64 */
            likes: number;
            /** Format: int64 */
            quotes?: number;
            /** Format: int64 */
            reposts?: number;
            /** @constant */
            type: "counts";
            /** Format: int64 */
            version: number;
        };
        DeleteUserReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        DeleteUserRequest: {
            user: components["schemas"]["UserId"];
        };
        DeploymentStatus: {
            failover: string;
            nodes: components["schemas"]["NodeStatus"][] | null;
            /** Format: int64 */
            quarantine: number | null;
            stores: {
                [key: string]: string;
            };
            work: {
                [key: string]: components["schemas"]["WorkStatus"];
            } | null;
        };
        Device: {
            app_version?: string;
            id: components["schemas"]["DeviceId"];
            locale?: string;
            platform: components["schemas"]["Platform"];
            /** Format: int64 */
            registered_at: number;
            /** Format: int64 */
            seen_at: number;
            time_zone?: string;
        };
        /** @example phone-1 */
        DeviceId: string;
        DeviceList: {
            items: components["schemas"]["Device"][];
        };
        DeviceRegistration: {
            app_version?: string;
            auth?: string;
            endpoint?: string;
            environment?: components["schemas"]["ApnsEnvironment"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            locale?: string;
            p256dh?: string;
            platform: components["schemas"]["Platform"];
            time_zone?: string;
            token?: string;
            topic?: string;
        };
        DisconnectCode: {
            /** Format: int32 */
            code: number;
            /** @default  */
            reason?: string;
        };
        DisconnectReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        DisconnectRequest: {
            /** @default  */
            client?: string;
            disconnect?: components["schemas"]["DisconnectCode"];
            /** @default  */
            session?: string;
            user: string;
            /** @default [] */
            whitelist?: string[];
        };
        Edges: {
            blocking: boolean;
            followed_by: boolean;
            following: boolean;
            hiding: boolean;
            muting: boolean;
            notify: boolean;
            reposts_off: boolean;
            requested: boolean;
            requested_by: boolean;
        };
        Empty: Record<string, never>;
        Error: {
            error: components["schemas"]["ErrorDetail"];
        };
        /** @enum {string} */
        ErrorCode: "invalid" | "unauthorized" | "forbidden" | "locked" | "not_found" | "conflict" | "in_progress" | "too_large" | "limit_exceeded" | "idempotency_conflict" | "rate_limited" | "too_many_requests" | "internal" | "busy" | "unavailable" | "method_not_allowed" | "timeout";
        ErrorDetail: {
            code: components["schemas"]["ErrorCode"];
            field?: string;
            message: string;
        };
        ExportUserReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["UserExport"];
        };
        ExportUserRequest: {
            cursor?: string;
            user: components["schemas"]["UserId"];
        };
        ExportedCommentRow: {
            /** Format: int64 */
            at: number;
            comment: components["schemas"]["CommentId"];
        };
        ExportedFavourite: {
            /** Format: int64 */
            at: number;
            id: components["schemas"]["ObjectId"];
            private?: boolean;
            type: components["schemas"]["ObjectType"];
        };
        ExportedFollower: {
            user: components["schemas"]["UserId"];
        };
        ExportedKey: {
            /** Format: int64 */
            at: number;
            key: string;
            operation: string;
        };
        ExportedList: {
            /** Format: int64 */
            created_at: number;
            exclusive: boolean;
            id: components["schemas"]["ListId"];
            name: string;
            topics: string[];
            users: components["schemas"]["UserId"][];
        };
        ExportedPost: {
            author: components["schemas"]["UserId"];
            comment_policy?: components["schemas"]["CommentPolicy"];
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            /** Format: int64 */
            edited_at?: number;
            id: components["schemas"]["PostId"];
            location?: components["schemas"]["Location"];
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            platform?: string;
            quote?: components["schemas"]["PostId"];
            removed?: components["schemas"]["Removal"];
            repost?: components["schemas"]["PostId"];
            text: string;
            topics?: string[];
            visibility: components["schemas"]["Visibility"];
        };
        ExportedPostRow: {
            /** Format: int64 */
            at: number;
            post: components["schemas"]["PostId"];
        };
        ExportedReport: {
            /** Format: int64 */
            at: number;
            id: components["schemas"]["ReportId"];
            kind: components["schemas"]["ExportedReportKind"];
            object: string;
            reason: components["schemas"]["ReportReason"];
            text?: string;
        };
        /** @enum {string} */
        ExportedReportKind: "user" | "post" | "comment";
        ExportedRestriction: {
            /** Format: int64 */
            at: number;
            kind: components["schemas"]["ExportedRestrictionKind"];
            /** Format: int64 */
            until?: number;
            user: components["schemas"]["UserId"];
        };
        /** @enum {string} */
        ExportedRestrictionKind: "hide" | "mute" | "block" | "reposts";
        ExportedTopicRow: {
            /** Format: int64 */
            at: number;
            topic: string;
        };
        ExportedUserRow: {
            /** Format: int64 */
            at: number;
            user: components["schemas"]["UserId"];
        };
        Favourite: {
            /** Format: int64 */
            created_at: number;
            id: string;
            post?: components["schemas"]["PostWithPreview"];
            private?: boolean;
        };
        FavouriteCount: {
            /** Format: int64 */
            count: number;
        };
        FavouriteHolder: {
            avatar?: string;
            /** Format: int64 */
            created_at: number;
            id: components["schemas"]["UserId"];
            name: string;
        };
        FavouriteHolderPage: {
            /** Format: int64 */
            count: number;
            items: components["schemas"]["FavouriteHolder"][];
            next?: string;
        };
        FavouriteIds: {
            ids: components["schemas"]["ObjectId"][];
        };
        FavouritePage: {
            items: components["schemas"]["Favourite"][];
            next?: string;
            people?: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        FavouriteStatus: {
            /** Format: int64 */
            created_at?: number;
            favourited: boolean;
            id: string;
        };
        FavouriteStatusList: {
            items: components["schemas"]["FavouriteStatus"][];
        };
        Filter: {
            action: components["schemas"]["FilterAction"];
            /** Format: int64 */
            created_at: number;
            id: components["schemas"]["FilterId"];
            in: components["schemas"]["FilterContext"][];
            /** Format: int64 */
            until?: number;
            whole_word: boolean;
            words: string[];
        };
        /** @enum {string} */
        FilterAction: "hide" | "warn";
        /** @enum {string} */
        FilterContext: "home" | "lists" | "topics" | "comments" | "notifications";
        FilterDraft: {
            /** @default hide */
            action?: components["schemas"]["FilterAction"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            /**
             * @default [
             *       "home",
             *       "lists",
             *       "topics",
             *       "comments",
             *       "notifications"
             *     ]
             */
            in?: components["schemas"]["FilterContext"][];
            /** Format: int64 */
            until?: number;
            /** @default true */
            whole_word?: boolean;
            words: string[];
        };
        /** Format: int64 */
        FilterId: number;
        FilterPage: {
            items: components["schemas"]["Filter"][];
        };
        FilterUpdate: {
            action?: components["schemas"]["FilterAction"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            in?: components["schemas"]["FilterContext"][];
            /** Format: int64 */
            until?: number | null;
            whole_word?: boolean;
            words?: string[];
        };
        /**
         * @example {
         *       "type": "filters.changed"
         *     }
         */
        FiltersChangedEvent: {
            /** @constant */
            type: "filters.changed";
        };
        Follow: {
            state: components["schemas"]["FollowState"];
        };
        /** @enum {string} */
        FollowState: "following" | "requested";
        FollowedTopic: {
            /** Format: int64 */
            followed_at: number;
            name: string;
        };
        FollowedTopics: {
            items: components["schemas"]["FollowedTopic"][];
        };
        /** @enum {string} */
        GoneReason: "deleted" | "unfollowed" | "hidden" | "filtered" | "unlisted";
        HistoryPosition: {
            /** @default  */
            epoch?: string;
            /**
             * Format: int64
             * @default 0
             */
            offset?: number;
        };
        HistoryRemoveReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        HistoryReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["HistoryResult"];
        };
        HistoryRequest: {
            channel: string;
            /**
             * Format: int64
             * @default 0
             */
            limit?: number;
            /** @default false */
            reverse?: boolean;
            since?: components["schemas"]["HistoryPosition"];
        };
        HistoryResult: {
            epoch: string;
            /** Format: int64 */
            offset: number;
            publications: components["schemas"]["Publication"][];
        };
        InfoReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["InfoResult"];
        };
        InfoResult: {
            nodes: components["schemas"]["Node"][];
        };
        InvalidateUserTokensReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        InvalidateUserTokensRequest: {
            /** Format: int64 */
            issued_before?: number;
            user: components["schemas"]["UserId"];
        };
        /**
         * @example {
         *       "id": 2699932278243328,
         *       "liked": true,
         *       "likes": 3,
         *       "type": "like.changed",
         *       "version": 4
         *     }
         */
        LikeChangedEvent: {
            /** Format: int64 */
            id: number;
            liked: boolean;
            /** Format: int64 */
            likes: number;
            /** @constant */
            type: "like.changed";
            /** Format: int64 */
            version: number;
        };
        /**
         * @example {
         *       "id": 2699932278243328,
         *       "reason": "gone",
         *       "type": "like.reverted"
         *     }
         */
        LikeRevertedEvent: {
            /** Format: int64 */
            id: number;
            reason: components["schemas"]["RevertReason"];
            /** @constant */
            type: "like.reverted";
        };
        /**
         * @example {
         *       "asks": 1,
         *       "id": 2699932278243328,
         *       "liked": true,
         *       "likes": 3,
         *       "type": "like.settled",
         *       "version": 4
         *     }
         */
        LikeSettledEvent: {
            /** Format: int64 */
            asks: number;
            /** Format: int64 */
            id: number;
            liked: boolean;
            /** Format: int64 */
            likes: number;
            /** @constant */
            type: "like.settled";
            /** Format: int64 */
            version: number;
        };
        /** @enum {string} */
        LikeState: "accepted";
        List: {
            /** Format: int64 */
            created_at: number;
            exclusive: boolean;
            id: components["schemas"]["ListId"];
            name: string;
            /** Format: int64 */
            topics: number;
            /** Format: int64 */
            users: number;
        };
        ListDraft: {
            /** @default false */
            exclusive?: boolean;
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            name: string;
        };
        /** Format: int64 */
        ListId: number;
        ListMemberPage: {
            items: components["schemas"]["User"][];
            next?: string;
            topics?: string[];
        };
        ListUpdate: {
            exclusive?: boolean;
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            name?: string;
        };
        Lists: {
            items: components["schemas"]["List"][];
        };
        Location: {
            /** Format: double */
            lat: number;
            /** Format: double */
            lon: number;
            name?: string;
        };
        MarkNotificationsRead: {
            id?: components["schemas"]["NotificationId"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            position?: components["schemas"]["NotificationPosition"];
            /** @default false */
            seen?: boolean;
        };
        MarkTimelineRead: {
            id: components["schemas"]["PostId"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
        };
        Media: {
            alt?: string;
            /** Format: int32 */
            height?: number;
            type: components["schemas"]["MediaKind"];
            url: string;
            /** Format: int32 */
            width?: number;
        };
        /** @enum {string} */
        MediaKind: "image" | "video" | "audio";
        Mute: {
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            /** Format: int64 */
            until?: number;
        };
        NewFavourite: {
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            /** @default false */
            private?: boolean;
        };
        Node: {
            name: string;
            /** Format: int64 */
            num_channels: number;
            /** Format: int64 */
            num_clients: number;
            /** Format: int64 */
            num_subs: number;
            /** Format: int64 */
            num_users: number;
            process: components["schemas"]["NodeProcess"];
            uid: string;
            /** Format: int64 */
            uptime: number;
            version: string;
        };
        NodeProcess: {
            /** Format: double */
            cpu: number;
            /** Format: int64 */
            rss: number;
        };
        NodeStatus: {
            /** Format: int64 */
            clock_skew: number;
            id: string;
            /** Format: int64 */
            lease_until: number;
            name: string;
            /** Format: uint8 */
            number?: number;
            /** Format: int64 */
            partitions: number;
            /** Format: int64 */
            started_at: number;
            version: string;
        };
        Notification: {
            body?: string;
            comment?: components["schemas"]["CommentId"];
            /** Format: int64 */
            count: number;
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            filtered?: components["schemas"]["FilterId"][];
            id: components["schemas"]["NotificationId"];
            key?: string;
            /** @example like */
            kind: string;
            object?: components["schemas"]["NotificationSubject"];
            people: components["schemas"]["Person"][];
            position: components["schemas"]["NotificationPosition"];
            read: boolean;
            seen: boolean;
            title?: string;
            /** Format: int64 */
            updated_at: number;
            url?: string;
        };
        /**
         * @example {
         *       "id": 5301,
         *       "type": "notification.gone"
         *     }
         */
        NotificationGoneEvent: {
            id: components["schemas"]["NotificationId"];
            /** @constant */
            type: "notification.gone";
        };
        /** Format: int64 */
        NotificationId: number;
        NotificationPage: {
            items: components["schemas"]["Notification"][];
            next?: string;
            /** Format: int64 */
            unread: number;
            /** Format: int64 */
            unseen: number;
        };
        /** Format: int64 */
        NotificationPosition: number;
        NotificationSubject: {
            id: components["schemas"]["PostId"];
            /** @constant */
            type: "post";
        } | {
            id: components["schemas"]["CommentId"];
            post: components["schemas"]["PostId"];
            /** @constant */
            type: "comment";
        };
        /**
         * @example {
         *       "notification": {
         *         "count": 1,
         *         "created_at": 1795236770000,
         *         "id": 5301,
         *         "kind": "like",
         *         "object": {
         *           "id": 2699932278243328,
         *           "type": "post"
         *         },
         *         "people": [
         *           {
         *             "id": "ann",
         *             "name": "Ann"
         *           }
         *         ],
         *         "position": 412,
         *         "read": false,
         *         "seen": false,
         *         "updated_at": 1795236770000
         *       },
         *       "type": "notification"
         *     }
         */
        NotificationUpdatedEvent: {
            notification: components["schemas"]["Notification"];
            /** @constant */
            type: "notification";
        };
        /**
         * @example {
         *       "id": 5301,
         *       "position": 412,
         *       "seen": false,
         *       "type": "notifications.read",
         *       "unread": 2,
         *       "unseen": 1
         *     }
         */
        NotificationsReadEvent: {
            id?: components["schemas"]["NotificationId"];
            position: components["schemas"]["NotificationPosition"];
            seen: boolean;
            /** @constant */
            type: "notifications.read";
            /** Format: int64 */
            unread: number;
            /** Format: int64 */
            unseen: number;
        };
        /** @example a-17 */
        ObjectId: string | number;
        /**
         * @example post
         * @example video
         */
        ObjectType: string;
        OutletEvent: {
            /** Format: int64 */
            at: number;
            id: string;
            notification: components["schemas"]["OutletNotification"];
            /** @constant */
            type: "notification";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            mentions: components["schemas"]["UserId"][];
            post: components["schemas"]["PostId"];
            quote?: components["schemas"]["PostId"];
            repost?: components["schemas"]["PostId"];
            /** @constant */
            type: "post.created";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            mentions: components["schemas"]["UserId"][];
            post: components["schemas"]["PostId"];
            /** @constant */
            type: "post.edited";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            post: components["schemas"]["PostId"];
            /** @constant */
            type: "post.deleted";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            post: components["schemas"]["PostId"];
            /** @constant */
            type: "post.removed";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            comment: components["schemas"]["CommentId"];
            id: string;
            post: components["schemas"]["PostId"];
            /** @constant */
            type: "comment.removed";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            level: components["schemas"]["Standing"];
            /** @constant */
            type: "user.suspended";
            /** Format: int64 */
            until?: number;
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            reason: components["schemas"]["ReportReason"];
            report: components["schemas"]["ReportId"];
            target: components["schemas"]["ReportTarget"];
            /** @constant */
            type: "report.created";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            followee: components["schemas"]["UserId"];
            id: string;
            /** @constant */
            type: "follow.created";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            followee: components["schemas"]["UserId"];
            id: string;
            /** @constant */
            type: "follow.deleted";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            /** @constant */
            type: "user.connected";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            id: string;
            /** @constant */
            type: "user.away";
            user: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            channel: string;
            id: string;
            /** @constant */
            type: "channel.subscribed";
            user?: components["schemas"]["UserId"];
        } | {
            /** Format: int64 */
            at: number;
            channel: string;
            id: string;
            /** @constant */
            type: "channel.vacated";
        };
        OutletEventPage: {
            cursor: string;
            events: components["schemas"]["OutletEvent"][];
            missed: number;
        };
        OutletNotification: {
            by: components["schemas"]["UserId"][];
            /** Format: int64 */
            count: number;
            id: components["schemas"]["NotificationId"];
            /** @example like */
            kind: string;
            object?: components["schemas"]["OutletObject"];
            /** Format: int64 */
            updated_at: number;
        };
        OutletObject: {
            /** Format: int64 */
            id: number;
            /** @enum {string} */
            type: "post" | "comment";
        };
        OverrideValue: {
            /** @default false */
            value?: boolean;
        };
        PasswordChange: {
            new: string;
            old: string;
        };
        Person: {
            avatar?: string;
            id: components["schemas"]["UserId"];
            name: string;
        };
        /** @enum {string} */
        Platform: "fcm" | "apns" | "webpush" | "unifiedpush" | "webhook";
        Position: {
            epoch: string;
            /** Format: int64 */
            offset: number;
        };
        Post: {
            author: components["schemas"]["UserId"];
            can_comment?: boolean;
            comment_policy?: components["schemas"]["CommentPolicy"];
            /** Format: int64 */
            comments: number;
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            /** Format: int64 */
            edited_at?: number;
            favourited?: boolean;
            /** Format: int64 */
            favourites: number;
            filtered?: components["schemas"]["FilterId"][];
            id: components["schemas"]["PostId"];
            liked?: boolean;
            /** Format: int64 */
            likes: number;
            location?: components["schemas"]["Location"];
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            muted?: boolean;
            platform?: string;
            quote?: components["schemas"]["QuotedPost"];
            /** Format: int64 */
            quotes: number;
            removed?: components["schemas"]["Removal"];
            repost?: components["schemas"]["Post"];
            /** Format: int64 */
            reposts: number;
            text: string;
            topics?: string[];
            via?: components["schemas"]["PostVia"];
            visibility: components["schemas"]["Visibility"];
        };
        /**
         * @example {
         *       "post": {
         *         "author": "bo",
         *         "comments": 0,
         *         "created_at": 1795236753868,
         *         "favourites": 0,
         *         "id": 2699932278243328,
         *         "likes": 0,
         *         "quotes": 0,
         *         "reposts": 0,
         *         "text": "Hello from Bo. #rust",
         *         "topics": [
         *           "rust"
         *         ],
         *         "visibility": "public"
         *       },
         *       "type": "post"
         *     }
         */
        PostCreatedEvent: {
            post: components["schemas"]["Post"];
            /** @constant */
            type: "post";
        };
        PostDraft: {
            /** @default everyone */
            comment_policy?: components["schemas"]["CommentPolicy"];
            data?: {
                [key: string]: unknown;
            };
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            location?: components["schemas"]["Location"];
            /** @default [] */
            media?: components["schemas"]["Media"][];
            platform?: string;
            quote?: components["schemas"]["PostId"];
            /** @default  */
            text?: string;
            /** @default [] */
            topics?: string[];
            /** @default public */
            visibility?: components["schemas"]["Visibility"];
        };
        PostEdit: {
            comment_policy?: components["schemas"]["CommentPolicy"];
            data?: {
                [key: string]: unknown;
            } | null;
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            location?: components["schemas"]["Location"] | null;
            media?: components["schemas"]["Media"][] | null;
            text?: string;
            topics?: string[];
            visibility?: components["schemas"]["Visibility"];
        };
        /**
         * @example {
         *       "post": {
         *         "author": "bo",
         *         "comments": 0,
         *         "created_at": 1795236753868,
         *         "edited_at": 1795236791004,
         *         "favourites": 0,
         *         "id": 2699932278243328,
         *         "likes": 0,
         *         "quotes": 0,
         *         "reposts": 0,
         *         "text": "Hello again. #rust",
         *         "topics": [
         *           "rust"
         *         ],
         *         "visibility": "public"
         *       },
         *       "type": "edited"
         *     }
         */
        PostEditedEvent: {
            post: components["schemas"]["Post"];
            /** @constant */
            type: "edited";
        };
        /**
         * @example {
         *       "id": 2699932278243328,
         *       "reason": "deleted",
         *       "type": "gone"
         *     }
         */
        PostGoneEvent: {
            id: components["schemas"]["PostId"];
            reason: components["schemas"]["GoneReason"];
            /** @constant */
            type: "gone";
        };
        /** Format: int64 */
        PostId: number;
        /** @enum {string} */
        PostKind: "media" | "quotes" | "reposts";
        PostPage: {
            items: components["schemas"]["PostWithPreview"][];
            next?: string;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
        };
        PostRemoval: {
            reason?: string;
        };
        /**
         * @example {
         *       "by": {
         *         "id": "ann",
         *         "name": "Ann"
         *       },
         *       "id": 2699932278243328,
         *       "repost": 2699932371566592,
         *       "type": "reposted"
         *     }
         */
        PostRepostedEvent: {
            by: components["schemas"]["Person"];
            id: components["schemas"]["PostId"];
            repost: components["schemas"]["PostId"];
            /** @constant */
            type: "reposted";
        };
        PostVia: {
            topic: string;
        };
        PostWithPreview: {
            author: components["schemas"]["UserId"];
            can_comment?: boolean;
            comment_policy?: components["schemas"]["CommentPolicy"];
            /** Format: int64 */
            comments: number;
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            /** Format: int64 */
            edited_at?: number;
            favourited?: boolean;
            /** Format: int64 */
            favourites: number;
            filtered?: components["schemas"]["FilterId"][];
            id: components["schemas"]["PostId"];
            liked?: boolean;
            likers?: components["schemas"]["UserId"][];
            /** Format: int64 */
            likes: number;
            location?: components["schemas"]["Location"];
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            muted?: boolean;
            newest_comments?: components["schemas"]["Comment"][];
            platform?: string;
            quote?: components["schemas"]["QuotedPost"];
            /** Format: int64 */
            quotes: number;
            removed?: components["schemas"]["Removal"];
            repost?: components["schemas"]["Post"];
            reposted_by?: components["schemas"]["RepostedBy"];
            /** Format: int64 */
            reposts: number;
            text: string;
            topics?: string[];
            via?: components["schemas"]["PostVia"];
            visibility: components["schemas"]["Visibility"];
        };
        PresenceReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["PresenceResult"];
        };
        PresenceResult: {
            presence: {
                [key: string]: components["schemas"]["ClientInfo"];
            };
        };
        PresenceStats: {
            /** Format: int32 */
            num_clients: number;
            /** Format: int32 */
            num_users: number;
        };
        PresenceStatsReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["PresenceStats"];
        };
        Profile: {
            avatar?: string;
            bio?: string;
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            edges: components["schemas"]["Edges"];
            /** Format: int64 */
            followers: number;
            /** Format: int64 */
            following: number;
            id: components["schemas"]["UserId"];
            locked: boolean;
            name: string;
            pinned?: components["schemas"]["PostId"][];
            /** Format: int64 */
            posts: number;
            quotable: components["schemas"]["Quotable"];
        };
        ProfileUpdate: {
            avatar?: string | null;
            bio?: string | null;
            data?: {
                [key: string]: unknown;
            } | null;
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            locked?: boolean;
            name?: string;
            pinned?: components["schemas"]["PostId"][];
            quotable?: components["schemas"]["Quotable"];
        };
        Publication: {
            data: unknown;
            info?: components["schemas"]["ClientInfo"];
            /** Format: int64 */
            offset?: number;
            tags?: {
                [key: string]: string;
            };
        };
        PublishReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["PublishResult"];
        };
        PublishRequest: {
            /** @default  */
            b64data?: string;
            channel: string;
            data?: unknown;
            /** @default  */
            idempotency_key?: string;
            /** @default false */
            skip_history?: boolean;
            /** @default {} */
            tags?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @default 0
             */
            version?: number;
            /** @default  */
            version_epoch?: string;
        };
        PublishResult: {
            epoch?: string;
            /** Format: int64 */
            offset?: number;
        };
        PushKinds: {
            accepted: boolean;
            comment: boolean;
            follow: boolean;
            like: boolean;
            mention: boolean;
            post: boolean;
            quote: boolean;
            reply: boolean;
            repost: boolean;
            request: boolean;
        } & {
            [key: string]: boolean;
        };
        PushKindsInput: {
            /** @default true */
            accepted?: boolean;
            /** @default true */
            comment?: boolean;
            /** @default true */
            follow?: boolean;
            /** @default true */
            like?: boolean;
            /** @default true */
            mention?: boolean;
            /** @default true */
            post?: boolean;
            /** @default true */
            quote?: boolean;
            /** @default true */
            reply?: boolean;
            /** @default true */
            repost?: boolean;
            /** @default true */
            request?: boolean;
        } & {
            [key: string]: boolean;
        };
        PushPreferences: {
            /** Format: int32 */
            daily_cap: number;
            kinds: components["schemas"]["PushKinds"];
            private: boolean;
            quiet_hours?: components["schemas"]["QuietHours"];
        };
        PushPreferencesInput: {
            /**
             * Format: int32
             * @default 100
             */
            daily_cap?: number;
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            /**
             * @default {
             *       "accepted": true,
             *       "comment": true,
             *       "follow": true,
             *       "like": true,
             *       "mention": true,
             *       "post": true,
             *       "quote": true,
             *       "reply": true,
             *       "repost": true,
             *       "request": true
             *     }
             */
            kinds?: components["schemas"]["PushKindsInput"];
            /** @default false */
            private?: boolean;
            quiet_hours?: components["schemas"]["QuietHours"];
        };
        QuietHours: {
            from: components["schemas"]["TimeOfDay"];
            time_zone?: string;
            to: components["schemas"]["TimeOfDay"];
        };
        /** @enum {string} */
        Quotable: "everyone" | "followers" | "nobody";
        /** @enum {string} */
        QuoteState: "shown" | "unavailable" | "detached";
        QuotedPost: {
            id: components["schemas"]["PostId"];
            post?: components["schemas"]["Post"];
            state: components["schemas"]["QuoteState"];
        };
        ReadMarker: {
            id: components["schemas"]["PostId"];
            /** Format: int64 */
            unread: number;
        };
        RecoverPosition: {
            /** @default  */
            epoch?: string;
            /**
             * Format: int64
             * @default 0
             */
            offset?: number;
        };
        RefreshReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        RefreshRequest: {
            /** @default  */
            client?: string;
            /** Format: int64 */
            expire_at?: number;
            /** @default false */
            expired?: boolean;
            info?: unknown;
            /** @default  */
            session?: string;
            user: string;
        };
        Removal: {
            reason?: string;
        };
        Report: {
            about: components["schemas"]["UserId"];
            action?: components["schemas"]["ReportAction"];
            /** Format: int64 */
            closed_at?: number;
            comment?: components["schemas"]["CommentId"];
            /** Format: int64 */
            created_at: number;
            id: components["schemas"]["ReportId"];
            post?: components["schemas"]["PostId"];
            reason: components["schemas"]["ReportReason"];
            reporter: components["schemas"]["UserId"];
            text?: string;
            user?: components["schemas"]["UserId"];
        };
        /** @enum {string} */
        ReportAction: "removed" | "suspended" | "none";
        ReportClosing: {
            action: components["schemas"]["ReportAction"];
        };
        ReportDraft: {
            comment?: components["schemas"]["CommentId"];
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            post?: components["schemas"]["PostId"];
            reason: components["schemas"]["ReportReason"];
            text?: string;
            user?: components["schemas"]["UserId"];
        };
        /** Format: int64 */
        ReportId: number;
        ReportPage: {
            items: components["schemas"]["Report"][];
            next?: string;
        };
        /** @enum {string} */
        ReportReason: "spam" | "abuse" | "illegal" | "other";
        ReportTarget: {
            user: components["schemas"]["UserId"];
        } | {
            post: components["schemas"]["PostId"];
        } | {
            comment: components["schemas"]["CommentId"];
        };
        RepostDraft: {
            /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
            idempotency_key?: string;
            visibility?: components["schemas"]["RepostVisibility"];
        };
        /** @enum {string} */
        RepostVisibility: "public" | "followers";
        RepostedBy: {
            /** Format: int64 */
            count: number;
            people: components["schemas"]["UserId"][];
        };
        RequestedPart: string;
        /** @enum {string} */
        RevertReason: "gone" | "hidden" | "failed";
        RevokeTokenReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        RevokeTokenRequest: {
            /** Format: int64 */
            expire_at?: number;
            uid: string;
        };
        RpcReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["RpcResult"];
        };
        RpcRequest: {
            method: string;
            params?: unknown;
        };
        RpcResult: {
            data: unknown;
        };
        ServerError: {
            /** Format: int32 */
            code: number;
            message: string;
        };
        Session: {
            /** Format: int64 */
            expires_at: number;
            token: string;
            user: components["schemas"]["UserId"];
        };
        SignIn: {
            password: string;
            user: components["schemas"]["UserId"];
        };
        SignUp: {
            name?: string;
            password: string;
            user: components["schemas"]["UserId"];
        };
        SinglePost: {
            author: components["schemas"]["UserId"];
            can_comment?: boolean;
            comment_policy?: components["schemas"]["CommentPolicy"];
            /** Format: int64 */
            comments: number;
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            /** Format: int64 */
            edited_at?: number;
            favourited?: boolean;
            /** Format: int64 */
            favourites: number;
            filtered?: components["schemas"]["FilterId"][];
            id: components["schemas"]["PostId"];
            liked?: boolean;
            likers?: components["schemas"]["UserId"][];
            /** Format: int64 */
            likes: number;
            location?: components["schemas"]["Location"];
            media?: components["schemas"]["Media"][];
            mentions?: components["schemas"]["UserId"][];
            muted?: boolean;
            newest_comments?: components["schemas"]["Comment"][];
            people?: {
                [key: string]: components["schemas"]["Person"];
            };
            platform?: string;
            quote?: components["schemas"]["QuotedPost"];
            /** Format: int64 */
            quotes: number;
            removed?: components["schemas"]["Removal"];
            repost?: components["schemas"]["Post"];
            reposted_by?: components["schemas"]["RepostedBy"];
            /** Format: int64 */
            reposts: number;
            text: string;
            topics?: string[];
            via?: components["schemas"]["PostVia"];
            visibility: components["schemas"]["Visibility"];
        };
        /** @enum {string} */
        Standing: "active" | "limited" | "suspended";
        SubscribeOverride: {
            force_positioning?: components["schemas"]["OverrideValue"];
            force_push_join_leave?: components["schemas"]["OverrideValue"];
            force_recovery?: components["schemas"]["OverrideValue"];
            join_leave?: components["schemas"]["OverrideValue"];
            presence?: components["schemas"]["OverrideValue"];
        };
        SubscribeReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        SubscribeRequest: {
            /** @default  */
            b64data?: string;
            /** @default  */
            b64info?: string;
            channel: string;
            /** @default  */
            client?: string;
            data?: unknown;
            /** Format: int64 */
            expire_at?: number;
            info?: unknown;
            override?: components["schemas"]["SubscribeOverride"];
            recover_since?: components["schemas"]["RecoverPosition"];
            /** @default  */
            session?: string;
            user: string;
        };
        Suggestion: {
            avatar?: string;
            /** Format: int64 */
            created_at: number;
            id: components["schemas"]["UserId"];
            /** Format: int64 */
            mutual: number;
            name: string;
        };
        SuggestionPage: {
            items: components["schemas"]["Suggestion"][];
            next?: string;
        };
        Suspension: {
            level: components["schemas"]["SuspensionLevel"];
            reason?: string;
            /** Format: int64 */
            until?: number;
        };
        /** @enum {string} */
        SuspensionLevel: "limited" | "suspended";
        /** @example 22:30 */
        TimeOfDay: string;
        TimelinePage: {
            items: components["schemas"]["PostWithPreview"][];
            next?: string;
            people: {
                [key: string]: components["schemas"]["Person"];
            };
            position: components["schemas"]["Position"];
            read?: components["schemas"]["ReadMarker"];
        };
        /**
         * @example {
         *       "id": 2699932278243328,
         *       "type": "read",
         *       "unread": 3
         *     }
         */
        TimelineReadEvent: {
            id: components["schemas"]["PostId"];
            /** @constant */
            type: "read";
            /** Format: int64 */
            unread: number;
        };
        TimelineUpdate: {
            data: components["schemas"]["PostCreatedEvent"] | components["schemas"]["PostEditedEvent"] | components["schemas"]["PostRepostedEvent"] | components["schemas"]["PostGoneEvent"] | components["schemas"]["AuthorGoneEvent"];
            /** Format: int64 */
            offset: number;
        };
        TimelineUpdatesPage: {
            items: components["schemas"]["TimelineUpdate"][];
            position: components["schemas"]["Position"];
            recovered: boolean;
        };
        Topic: {
            /** Format: int64 */
            active_at: number;
            name: string;
            /** Format: int64 */
            posts: number;
        };
        TopicPage: {
            items: components["schemas"]["Topic"][];
            next?: string;
        };
        UnblockUserReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        UnblockUserRequest: {
            user: components["schemas"]["UserId"];
        };
        UnreadCounts: {
            /** Format: int64 */
            unread: number;
            /** Format: int64 */
            unseen: number;
        };
        UnsubscribeReply: {
            error?: components["schemas"]["ServerError"];
            result?: components["schemas"]["Empty"];
        };
        UnsubscribeRequest: {
            /** @default  */
            channel?: string;
            /** @default  */
            client?: string;
            /** @default  */
            session?: string;
            user: string;
        };
        User: {
            avatar?: string;
            /** Format: int64 */
            created_at: number;
            id: components["schemas"]["UserId"];
            name: string;
        };
        UserDetails: {
            avatar?: string;
            bio?: string;
            /** Format: int64 */
            created_at: number;
            data?: {
                [key: string]: unknown;
            };
            id: components["schemas"]["UserId"];
            locked: boolean;
            name: string;
            pinned?: components["schemas"]["PostId"][];
            quotable: components["schemas"]["Quotable"];
        };
        UserExport: {
            comment_likes?: components["schemas"]["ExportedCommentRow"][];
            comments?: components["schemas"]["Comment"][];
            devices?: components["schemas"]["Device"][];
            favourites?: components["schemas"]["ExportedFavourite"][];
            filters?: components["schemas"]["Filter"][];
            follow_requests?: components["schemas"]["ExportedUserRow"][];
            followed_topics?: components["schemas"]["ExportedTopicRow"][];
            followers?: components["schemas"]["ExportedFollower"][];
            following?: components["schemas"]["ExportedUserRow"][];
            has_password?: boolean;
            idempotency_keys?: components["schemas"]["ExportedKey"][];
            likes?: components["schemas"]["ExportedPostRow"][];
            lists?: components["schemas"]["ExportedList"][];
            muted_conversations?: components["schemas"]["ExportedPostRow"][];
            next?: string;
            notifications?: components["schemas"]["Notification"][];
            post_alerts?: components["schemas"]["ExportedUserRow"][];
            posts?: components["schemas"]["ExportedPost"][];
            push_preferences?: components["schemas"]["PushPreferences"][];
            read?: components["schemas"]["PostId"];
            reports?: components["schemas"]["ExportedReport"][];
            requests_to_follow?: components["schemas"]["ExportedUserRow"][];
            restrictions?: components["schemas"]["ExportedRestriction"][];
            user?: components["schemas"]["UserDetails"];
        };
        /** @example ann */
        UserId: string;
        UserPage: {
            items: components["schemas"]["User"][];
            next?: string;
        };
        Visibility: ("public" | "followers" | "friends") | {
            only_to: components["schemas"]["UserId"][];
        } | {
            not_to: components["schemas"]["UserId"][];
        };
        WebPushKey: {
            vapid_public_key?: string;
        };
        WorkStatus: {
            /** Format: int64 */
            oldest_seconds: number;
            /** Format: int64 */
            waiting: number;
        };
    };
    responses: {
        BusyOrUnavailable: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        Conflict: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        ConflictOrInProgress: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        Forbidden: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        ForbiddenOrLocked: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        IdempotencyConflict: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        InProgress: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        Internal: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        Invalid: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        LimitExceeded: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        LimitExceededOrIdempotencyConflict: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        NotFound: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        RateLimitedOrTooManyRequests: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        ServerError: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                /**
                 * @example {
                 *       "code": 0,
                 *       "message": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["ServerError"];
            };
        };
        Timeout: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        TooLarge: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        TooManyRequests: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        Unauthorized: {
            headers: {
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        Unavailable: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: string | number | undefined;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: {
        /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
        IdempotencyKey: string;
        /** @example ann */
        User: components["schemas"]["UserId"];
        UserOrigin: "application" | "account";
    };
    requestBodies: never;
    headers: {
        /** @example 1 */
        RetryAfter: number;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "server.commands": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "method": "publish"
                 *     }
                 */
                "application/json": components["schemas"]["Command"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "id": 1,
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["CommandReply"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
        };
    };
    "server.batch": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "commands": [
                 *         {
                 *           "publish": {
                 *             "channel": "chat:lobby",
                 *             "data": {
                 *               "hello": "all"
                 *             }
                 *           }
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["BatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": 0,
                     *         "message": "ann"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["BatchReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
        };
    };
    "server.block_user": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["BlockUserRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["BlockUserReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.broadcast": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channels": [
                 *         "chat:lobby"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["BroadcastRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "responses": [
                     *           {
                     *             "result": {
                     *               "epoch": "pRz3kQ"
                     *             }
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["BroadcastReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.channels": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "pattern": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["ChannelsRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "channels": {
                     *           "ann": {
                     *             "num_clients": 0
                     *           }
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["ChannelsReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.delete_user": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["DeleteUserRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["DeleteUserReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.disconnect": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["DisconnectRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["DisconnectReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "outlet.poll": {
        parameters: {
            query: {
                /** @example billing */
                consumer: string;
                /** @example 41 */
                cursor?: string;
                limit?: number;
                wait?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "cursor": "41",
                     *       "events": [
                     *         {
                     *           "at": 1795236753868,
                     *           "id": "41",
                     *           "mentions": [
                     *             "bo"
                     *           ],
                     *           "post": 2699932278243328,
                     *           "type": "post.created",
                     *           "user": "ann"
                     *         }
                     *       ],
                     *       "missed": 0
                     *     }
                     */
                    "application/json": components["schemas"]["OutletEventPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "server.export_user": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["ExportUserRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "comment_likes": [
                     *           {
                     *             "at": 0,
                     *             "comment": 2699932278243328
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["ExportUserReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.history": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channel": "chat:lobby"
                 *     }
                 */
                "application/json": components["schemas"]["HistoryRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "epoch": "pRz3kQ",
                     *         "offset": 0,
                     *         "publications": [
                     *           {
                     *             "data": {}
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["HistoryReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.history_remove": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channel": "chat:lobby"
                 *     }
                 */
                "application/json": components["schemas"]["ChannelRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["HistoryRemoveReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.info": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "nodes": [
                     *           {
                     *             "name": "ann",
                     *             "num_channels": 0,
                     *             "num_clients": 0,
                     *             "num_subs": 0,
                     *             "num_users": 0,
                     *             "process": {
                     *               "cpu": 1.5,
                     *               "rss": 0
                     *             },
                     *             "uid": "ann",
                     *             "uptime": 0,
                     *             "version": "ann"
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["InfoReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.invalidate_user_tokens": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["InvalidateUserTokensRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["InvalidateUserTokensReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.presence": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channel": "chat:lobby"
                 *     }
                 */
                "application/json": components["schemas"]["ChannelRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "presence": {
                     *           "ann": {
                     *             "client": "ann",
                     *             "user": "ann"
                     *           }
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PresenceReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.presence_stats": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channel": "chat:lobby"
                 *     }
                 */
                "application/json": components["schemas"]["ChannelRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "num_clients": 0,
                     *         "num_users": 0
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PresenceStatsReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.publish": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channel": "chat:lobby"
                 *     }
                 */
                "application/json": components["schemas"]["PublishRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "epoch": "pRz3kQ"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PublishReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.refresh": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["RefreshRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["RefreshReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.revoke_token": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "uid": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["RevokeTokenRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["RevokeTokenReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.rpc": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "method": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["RpcRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {
                     *         "data": {}
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["RpcReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "failover": "none",
                     *       "nodes": [
                     *         {
                     *           "clock_skew": 2,
                     *           "id": "0b1f4dd1-3a4e-4f0e-9d52-0f2a7f1f0b2c",
                     *           "lease_until": 1795236761868,
                     *           "name": "feed1_8000",
                     *           "number": 3,
                     *           "partitions": 34,
                     *           "started_at": 1795236753868,
                     *           "version": "0.1.0"
                     *         }
                     *       ],
                     *       "quarantine": 0,
                     *       "stores": {
                     *         "postgres": "ok",
                     *         "redis": "ok"
                     *       },
                     *       "work": {
                     *         "fanout": {
                     *           "oldest_seconds": 0,
                     *           "waiting": 0
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["DeploymentStatus"];
                };
            };
            401: components["responses"]["Unauthorized"];
            500: components["responses"]["Internal"];
        };
    };
    "server.subscribe": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channel": "chat:lobby",
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["SubscribeRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["SubscribeReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.unblock_user": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["UnblockUserRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["UnblockUserReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "server.unsubscribe": {
        parameters: {
            query?: never;
            header?: {
                "X-Centrifugo-Error-Mode"?: "transport";
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["UnsubscribeRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "result": {}
                     *     }
                     */
                    "application/json": components["schemas"]["UnsubscribeReply"];
                };
            };
            400: components["responses"]["ServerError"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["ServerError"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ServerError"];
            413: components["responses"]["TooLarge"];
            416: components["responses"]["ServerError"];
            500: components["responses"]["ServerError"];
        };
    };
    "accounts.create": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "password": "correct horse battery staple",
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["SignUp"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "expires_at": 1795236753868,
                     *       "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
                     *       "user": "ann"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "accounts.delete": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "accounts.export": {
        parameters: {
            query?: {
                cursor?: string;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "comment_likes": [
                     *         {
                     *           "at": 0,
                     *           "comment": 2699932278243328
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserExport"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "accounts.password": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "new": "seven small fishes",
                 *       "old": "correct horse battery staple"
                 *     }
                 */
                "application/json": components["schemas"]["PasswordChange"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "comments.many": {
        parameters: {
            query: {
                ids: components["schemas"]["CommentId"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "post": 2699932278243328,
                     *           "replies": 0
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["CommentPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            422: components["responses"]["LimitExceeded"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "likes.add.comment": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                comment: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "liked": true,
                     *       "state": "accepted"
                     *     }
                     */
                    "application/json": components["schemas"]["AcceptedLike"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "likes.remove.comment": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                comment: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "liked": true,
                     *       "state": "accepted"
                     *     }
                     */
                    "application/json": components["schemas"]["AcceptedLike"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "comments.get": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "post": 2699932278243328,
                     *       "replies": 0
                     *     }
                     */
                    "application/json": components["schemas"]["Comment"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "comments.delete": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "comments.edit": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "text": "Hello from Bo. #rust"
                 *     }
                 */
                "application/json": components["schemas"]["CommentEdit"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "post": 2699932278243328,
                     *       "replies": 0
                     *     }
                     */
                    "application/json": components["schemas"]["Comment"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "comments.likers": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "comments.remove": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["CommentRemoval"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceeded"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "comments.restore": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: components["schemas"]["CommentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "devices.list": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "phone-1",
                     *           "platform": "fcm",
                     *           "registered_at": 1795236753868,
                     *           "seen_at": 1795236753868
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["DeviceList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "devices.register": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["DeviceId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "platform": "fcm"
                 *     }
                 */
                "application/json": components["schemas"]["DeviceRegistration"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "phone-1",
                     *       "platform": "fcm",
                     *       "registered_at": 1795236753868,
                     *       "seen_at": 1795236753868
                     *     }
                     */
                    "application/json": components["schemas"]["Device"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "devices.remove": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["DeviceId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "favourites.list": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FavouritePage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "favourites.check": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "ids": [
                 *         "a-17"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["FavouriteIds"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "favourited": true,
                     *           "id": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FavouriteStatusList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceeded"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "favourites.common": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["CommonFavouritePage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "favourites.count": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "count": 0
                     *     }
                     */
                    "application/json": components["schemas"]["FavouriteCount"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "favourites.add": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["ObjectId"];
                type: components["schemas"]["ObjectType"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "idempotency_key": "0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11"
                 *     }
                 */
                "application/json": components["schemas"]["NewFavourite"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "id": "ann"
                     *     }
                     */
                    "application/json": components["schemas"]["Favourite"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "favourites.remove": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "filters.list": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "action": "hide",
                     *           "created_at": 1795236753868,
                     *           "id": 2699932278243328,
                     *           "in": [
                     *             "home"
                     *           ],
                     *           "whole_word": true,
                     *           "words": [
                     *             "ann"
                     *           ]
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FilterPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "filters.create": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "words": [
                 *         "ann"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["FilterDraft"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "action": "hide",
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "in": [
                     *         "home"
                     *       ],
                     *       "whole_word": true,
                     *       "words": [
                     *         "ann"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Filter"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "filters.delete": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "filters.update": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "action": "hide"
                 *     }
                 */
                "application/json": components["schemas"]["FilterUpdate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "action": "hide",
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "in": [
                     *         "home"
                     *       ],
                     *       "whole_word": true,
                     *       "words": [
                     *         "ann"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Filter"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.list": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "exclusive": true,
                     *           "id": 2699932278243328,
                     *           "name": "ann",
                     *           "topics": 0,
                     *           "users": 0
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Lists"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "lists.create": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["ListDraft"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "exclusive": true,
                     *       "id": 2699932278243328,
                     *       "name": "ann",
                     *       "topics": 0,
                     *       "users": 0
                     *     }
                     */
                    "application/json": components["schemas"]["List"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.get": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "exclusive": true,
                     *       "id": 2699932278243328,
                     *       "name": "ann",
                     *       "topics": 0,
                     *       "users": 0
                     *     }
                     */
                    "application/json": components["schemas"]["List"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "lists.delete": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.update": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "exclusive": true
                 *     }
                 */
                "application/json": components["schemas"]["ListUpdate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "exclusive": true,
                     *       "id": 2699932278243328,
                     *       "name": "ann",
                     *       "topics": 0,
                     *       "users": 0
                     *     }
                     */
                    "application/json": components["schemas"]["List"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.members": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["ListMemberPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "lists.read": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       },
                     *       "position": {
                     *         "epoch": "pRz3kQ",
                     *         "offset": 0
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["TimelinePage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "lists.add.id": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.remove.id": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.updates": {
        parameters: {
            query: {
                epoch: string;
                offset: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "data": {
                     *             "post": {
                     *               "author": "bo",
                     *               "comments": 0,
                     *               "created_at": 1795236753868,
                     *               "favourites": 0,
                     *               "id": 2699932278243328,
                     *               "likes": 0,
                     *               "quotes": 0,
                     *               "reposts": 0,
                     *               "text": "Hello from Bo. #rust",
                     *               "topics": [
                     *                 "rust"
                     *               ],
                     *               "visibility": "public"
                     *             },
                     *             "type": "post"
                     *           },
                     *           "offset": 0
                     *         }
                     *       ],
                     *       "position": {
                     *         "epoch": "pRz3kQ",
                     *         "offset": 0
                     *       },
                     *       "recovered": true
                     *     }
                     */
                    "application/json": components["schemas"]["TimelineUpdatesPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "lists.add": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
                user: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "lists.remove": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: number;
                user: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "notifications.list": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "count": 0,
                     *           "created_at": 1795236753868,
                     *           "id": 2699932278243328,
                     *           "kind": "like",
                     *           "people": [
                     *             {
                     *               "id": "ann",
                     *               "name": "ann"
                     *             }
                     *           ],
                     *           "position": 0,
                     *           "read": true,
                     *           "seen": true,
                     *           "updated_at": 1795236753868
                     *         }
                     *       ],
                     *       "unread": 0,
                     *       "unseen": 0
                     *     }
                     */
                    "application/json": components["schemas"]["NotificationPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "notifications.send": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "body": "2 of 912 tests are red.",
                 *       "kind": "app.build",
                 *       "title": "The build failed",
                 *       "to": [
                 *         "ann"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["AppNotificationDraft"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "accepted": 0,
                     *       "unknown": [
                     *         "ann"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["AppNotified"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "notifications.mark_read": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "id": 2699932278243328
                 *     }
                 */
                "application/json": components["schemas"]["MarkNotificationsRead"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "unread": 0,
                     *       "unseen": 0
                     *     }
                     */
                    "application/json": components["schemas"]["UnreadCounts"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "favourites.holders": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "count": 0,
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FavouriteHolderPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.many": {
        parameters: {
            query: {
                ids: components["schemas"]["PostId"][];
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            422: components["responses"]["LimitExceeded"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.create": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "text": "Hello from Bo. #rust"
                 *     }
                 */
                "application/json": components["schemas"]["PostDraft"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "author": "ann",
                     *       "comments": 0,
                     *       "created_at": 1795236753868,
                     *       "favourites": 0,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "quotes": 0,
                     *       "reposts": 0,
                     *       "text": "Hello from Bo. #rust",
                     *       "visibility": "public"
                     *     }
                     */
                    "application/json": components["schemas"]["Post"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "posts.explore": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.get": {
        parameters: {
            query?: {
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "author": "ann",
                     *       "comments": 0,
                     *       "created_at": 1795236753868,
                     *       "favourites": 0,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "quotes": 0,
                     *       "reposts": 0,
                     *       "text": "Hello from Bo. #rust",
                     *       "visibility": "public"
                     *     }
                     */
                    "application/json": components["schemas"]["SinglePost"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.delete": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "posts.edit": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "text": "Hello from Bo. #rust"
                 *     }
                 */
                "application/json": components["schemas"]["PostEdit"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "author": "ann",
                     *       "comments": 0,
                     *       "created_at": 1795236753868,
                     *       "favourites": 0,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "quotes": 0,
                     *       "reposts": 0,
                     *       "text": "Hello from Bo. #rust",
                     *       "visibility": "public"
                     *     }
                     */
                    "application/json": components["schemas"]["Post"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "comments.list": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                order?: components["schemas"]["CommentOrder"];
                reply_to?: components["schemas"]["CommentId"];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "post": 2699932278243328,
                     *           "replies": 0
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["CommentPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "comments.create": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "text": "Hello from Bo. #rust"
                 *     }
                 */
                "application/json": components["schemas"]["CommentDraft"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "post": 2699932278243328,
                     *       "replies": 0
                     *     }
                     */
                    "application/json": components["schemas"]["Comment"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "likes.list": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "conversations.mute": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "conversations.unmute": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "quotes.detach": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "posts.quotes": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.remove": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["PostRemoval"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceeded"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.restore": {
        parameters: {
            query?: never;
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "posts.repost": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "idempotency_key": "0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11"
                 *     }
                 */
                "application/json": components["schemas"]["RepostDraft"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "author": "ann",
                     *       "comments": 0,
                     *       "created_at": 1795236753868,
                     *       "favourites": 0,
                     *       "id": 2699932278243328,
                     *       "likes": 0,
                     *       "quotes": 0,
                     *       "reposts": 0,
                     *       "text": "Hello from Bo. #rust",
                     *       "visibility": "public"
                     *     }
                     */
                    "application/json": components["schemas"]["Post"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "posts.unrepost": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "posts.reposters": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "likes.add": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                post: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "liked": true,
                     *       "state": "accepted"
                     *     }
                     */
                    "application/json": components["schemas"]["AcceptedLike"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "likes.remove": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                post: components["schemas"]["PostId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "liked": true,
                     *       "state": "accepted"
                     *     }
                     */
                    "application/json": components["schemas"]["AcceptedLike"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "push.key": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "vapid_public_key": "ann"
                     *     }
                     */
                    "application/json": components["schemas"]["WebPushKey"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "push.preferences": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "daily_cap": 1,
                     *       "kinds": {
                     *         "accepted": true,
                     *         "comment": true,
                     *         "follow": true,
                     *         "like": true,
                     *         "mention": true,
                     *         "post": true,
                     *         "quote": true,
                     *         "reply": true,
                     *         "repost": true,
                     *         "request": true
                     *       },
                     *       "private": true
                     *     }
                     */
                    "application/json": components["schemas"]["PushPreferences"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "push.set_preferences": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "daily_cap": 100
                 *     }
                 */
                "application/json": components["schemas"]["PushPreferencesInput"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "daily_cap": 1,
                     *       "kinds": {
                     *         "accepted": true,
                     *         "comment": true,
                     *         "follow": true,
                     *         "like": true,
                     *         "mention": true,
                     *         "post": true,
                     *         "quote": true,
                     *         "reply": true,
                     *         "repost": true,
                     *         "request": true
                     *       },
                     *       "private": true
                     *     }
                     */
                    "application/json": components["schemas"]["PushPreferences"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "quotes.detach_all": {
        parameters: {
            query: {
                user: components["schemas"]["UserId"];
            };
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "reports.list": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                open?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "about": "ann",
                     *           "created_at": 1795236753868,
                     *           "id": 2699932278243328,
                     *           "reason": "spam",
                     *           "reporter": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["ReportPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "reports.create": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "reason": "spam"
                 *     }
                 */
                "application/json": components["schemas"]["ReportDraft"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "about": "ann",
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "reason": "spam",
                     *       "reporter": "ann"
                     *     }
                     */
                    "application/json": components["schemas"]["Report"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "reports.close": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "action": "removed"
                 *     }
                 */
                "application/json": components["schemas"]["ReportClosing"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "about": "ann",
                     *       "created_at": 1795236753868,
                     *       "id": 2699932278243328,
                     *       "reason": "spam",
                     *       "reporter": "ann"
                     *     }
                     */
                    "application/json": components["schemas"]["Report"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
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
                /**
                 * @example {
                 *       "password": "correct horse battery staple",
                 *       "user": "ann"
                 *     }
                 */
                "application/json": components["schemas"]["SignIn"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "expires_at": 1795236753868,
                     *       "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
                     *       "user": "ann"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "sessions.delete": {
        parameters: {
            query?: {
                all?: boolean;
            };
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "timeline.read": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       },
                     *       "position": {
                     *         "epoch": "pRz3kQ",
                     *         "offset": 0
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["TimelinePage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "timeline.mark_read": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": 2699932278243328
                 *     }
                 */
                "application/json": components["schemas"]["MarkTimelineRead"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "id": 2699932278243328,
                     *       "unread": 0
                     *     }
                     */
                    "application/json": components["schemas"]["ReadMarker"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "timeline.updates": {
        parameters: {
            query: {
                epoch: string;
                offset: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "data": {
                     *             "post": {
                     *               "author": "bo",
                     *               "comments": 0,
                     *               "created_at": 1795236753868,
                     *               "favourites": 0,
                     *               "id": 2699932278243328,
                     *               "likes": 0,
                     *               "quotes": 0,
                     *               "reposts": 0,
                     *               "text": "Hello from Bo. #rust",
                     *               "topics": [
                     *                 "rust"
                     *               ],
                     *               "visibility": "public"
                     *             },
                     *             "type": "post"
                     *           },
                     *           "offset": 0
                     *         }
                     *       ],
                     *       "position": {
                     *         "epoch": "pRz3kQ",
                     *         "offset": 0
                     *       },
                     *       "recovered": true
                     *     }
                     */
                    "application/json": components["schemas"]["TimelineUpdatesPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "topics.list": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                q?: string;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "active_at": 1795236753868,
                     *           "name": "ann",
                     *           "posts": 0
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["TopicPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "topics.followed": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "followed_at": 1795236753868,
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FollowedTopics"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "topics.search": {
        parameters: {
            query: {
                cursor?: string;
                limit?: number;
                q: string;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "active_at": 1795236753868,
                     *           "name": "ann",
                     *           "posts": 0
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["TopicPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "topics.follow": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "topics.unfollow": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "topics.read": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.search": {
        parameters: {
            query: {
                cursor?: string;
                limit?: number;
                q: string;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.update": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "avatar": "https://pictures.example/ann.jpg"
                 *     }
                 */
                "application/json": components["schemas"]["ProfileUpdate"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "id": "ann",
                     *       "locked": true,
                     *       "name": "ann",
                     *       "quotable": "everyone"
                     *     }
                     */
                    "application/json": components["schemas"]["UserDetails"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.blocked": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.remove_follower": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.friends": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.hidden": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.muted": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.requested": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.requests": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.accept": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.reject": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.suggest": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "mutual": 0,
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["SuggestionPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.get": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "created_at": 1795236753868,
                     *       "edges": {
                     *         "blocking": true,
                     *         "followed_by": true,
                     *         "following": true,
                     *         "hiding": true,
                     *         "muting": true,
                     *         "notify": true,
                     *         "reposts_off": true,
                     *         "requested": true,
                     *         "requested_by": true
                     *       },
                     *       "followers": 0,
                     *       "following": 0,
                     *       "id": "ann",
                     *       "locked": true,
                     *       "name": "ann",
                     *       "posts": 0,
                     *       "quotable": "everyone"
                     *     }
                     */
                    "application/json": components["schemas"]["Profile"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.block": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.unblock": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.comments": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "post": 2699932278243328,
                     *           "replies": 0
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["CommentPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrLocked"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.follow": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "state": "following"
                     *     }
                     */
                    "application/json": components["schemas"]["Follow"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ConflictOrInProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.unfollow": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.followers": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrLocked"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.following": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrLocked"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.hide": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.unhide": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.likes": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                with?: components["schemas"]["RequestedPart"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrLocked"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.lists": {
        parameters: {
            query?: never;
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "exclusive": true,
                     *           "id": 2699932278243328,
                     *           "name": "ann",
                     *           "topics": 0,
                     *           "users": 0
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Lists"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.mute": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
            };
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "idempotency_key": "0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11"
                 *     }
                 */
                "application/json": components["schemas"]["Mute"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.unmute": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.notify": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["ConflictOrInProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceededOrIdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.unnotify": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.posts": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                only?: components["schemas"]["PostKind"];
                with?: components["schemas"]["RequestedPart"][];
                without?: components["schemas"]["PostKind"][];
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "author": "ann",
                     *           "comments": 0,
                     *           "created_at": 1795236753868,
                     *           "favourites": 0,
                     *           "id": 2699932278243328,
                     *           "likes": 0,
                     *           "quotes": 0,
                     *           "reposts": 0,
                     *           "text": "Hello from Bo. #rust",
                     *           "visibility": "public"
                     *         }
                     *       ],
                     *       "people": {
                     *         "ann": {
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PostPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrLocked"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.reposts_off": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.reposts_on": {
        parameters: {
            query?: never;
            header?: {
                /** @example 0b7ad1c2-4e02-4a4e-9a5e-3f0f6f0c2a11 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            409: components["responses"]["InProgress"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["IdempotencyConflict"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.shared": {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                /** @example ann */
                "X-User"?: components["parameters"]["User"];
                "X-User-Origin"?: components["parameters"]["UserOrigin"];
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "created_at": 1795236753868,
                     *           "id": "ann",
                     *           "name": "ann"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserPage"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["ForbiddenOrLocked"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["BusyOrUnavailable"];
        };
    };
    "users.suspend": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: components["schemas"]["UserId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "level": "limited"
                 *     }
                 */
                "application/json": components["schemas"]["Suspension"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            422: components["responses"]["LimitExceeded"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    "users.unsuspend": {
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
                    [name: string]: string | number | undefined;
                };
                content: {
                    /** @example {} */
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            408: components["responses"]["Timeout"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["RateLimitedOrTooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
}
