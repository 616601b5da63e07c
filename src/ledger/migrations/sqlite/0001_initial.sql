-- The schema of an SQLite ledger. Times are Unix milliseconds. Counts are maintained in the transaction that changes
-- the counted rows. `seq` columns order lists: unlike a time, a `seq` is unique, so a cursor is exact.

-- Users and accounts
-- ------------------

CREATE TABLE users (
    id         TEXT PRIMARY KEY NOT NULL,
    -- The id as first written; NULL: as `id`, which is in lower case.
    handle     TEXT,
    name       TEXT NOT NULL,
    avatar     TEXT,
    created_at INTEGER NOT NULL,
    followers  INTEGER NOT NULL DEFAULT 0,
    following  INTEGER NOT NULL DEFAULT 0,
    posts      INTEGER NOT NULL DEFAULT 0,
    -- Set for erased users. The row stays as a tombstone, so that nobody else can take the id.
    erased_at  INTEGER
) WITHOUT ROWID;

-- The text and data of profiles. They are read for profiles only, so the rows of `users`, which every list reads, stay
-- short. Users with neither have no row.
CREATE TABLE profiles (
    user TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    bio  TEXT,
    -- A JSON object.
    data TEXT
);

-- Users who sign in with a password. All others come with a token of an application.
CREATE TABLE accounts (
    user       TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    password   TEXT NOT NULL,
    -- How often all sessions of the account were ended. A session carries the number it was opened with.
    generation INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- The search index: ids and names, folded to lower case by Feedline (SQLite's `lower` handles ASCII only).
CREATE TABLE user_terms (
    term TEXT NOT NULL,
    user TEXT NOT NULL REFERENCES users (id),
    PRIMARY KEY (term, user)
) WITHOUT ROWID;
-- Replaces the terms of a user who changes their name.
CREATE INDEX user_terms_user ON user_terms (user, term);

-- Tokens and sessions that ended early, and blocked users: a log with one row for each (kind, subject). A later entry
-- replaces the row and takes a new number. Every node follows the log by number, so numbers are never reused.
CREATE TABLE revocations (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL,
    -- The id of a token, or of a user.
    subject    TEXT NOT NULL,
    -- Of a token: the user it belongs to, if known.
    owner      TEXT,
    -- The meaning depends on the kind: see RevocationKind.
    value      INTEGER NOT NULL,
    -- The id of the one session that stays open.
    spared     TEXT,
    at         INTEGER NOT NULL,
    -- From then on the entry has no effect, and may be dropped.
    expires_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX revocations_subject ON revocations (kind, subject);
-- Drops expired entries.
CREATE INDEX revocations_expiry ON revocations (expires_at);

-- Erasures in progress. The remaining rows of the user are the progress, so a node that takes an erasure over needs
-- nothing else.
CREATE TABLE erasures (
    user        TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    at          INTEGER NOT NULL,
    -- When the next pass may begin.
    due_at      INTEGER NOT NULL,
    -- Since when nothing of the user was found. NULL: something was found since.
    quiet_since INTEGER
) WITHOUT ROWID;
CREATE INDEX erasures_due ON erasures (due_at);

-- Follows and restrictions
-- ------------------------

CREATE TABLE follows (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    follower TEXT NOT NULL REFERENCES users (id),
    followee TEXT NOT NULL REFERENCES users (id),
    at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX follows_edge ON follows (follower, followee);
-- The followers of an author in the order of their ids: a fan-out scans them.
CREATE INDEX follows_fanout ON follows (followee, follower);
-- The two lists. An index ends with the rowid, so each is in the order of `seq` for each user.
CREATE INDEX follows_out ON follows (follower);
CREATE INDEX follows_in ON follows (followee);

-- Restrictions between two users. `maker` hides their posts from `target` (hide), does not see those of `target`
-- (mute), or both (block).
CREATE TABLE restrictions (
    maker TEXT NOT NULL REFERENCES users (id),
    target  TEXT NOT NULL REFERENCES users (id),
    kind  TEXT NOT NULL CHECK (kind IN ('hide', 'mute', 'block')),
    at    INTEGER NOT NULL,
    PRIMARY KEY (maker, kind, target)
) WITHOUT ROWID;
-- The restrictions against a user.
CREATE INDEX restrictions_target ON restrictions (target, kind, maker);
-- The users that a user restricts, latest first.
CREATE INDEX restrictions_listed ON restrictions (maker, kind, at, target);

-- Users who get a notification of each post of an author.
CREATE TABLE post_alerts (
    user   TEXT NOT NULL REFERENCES users (id),
    author TEXT NOT NULL REFERENCES users (id),
    at     INTEGER NOT NULL,
    PRIMARY KEY (user, author)
) WITHOUT ROWID;
-- The recipients of an author's posts, in ascending order.
CREATE INDEX post_alerts_author ON post_alerts (author, user);

-- Posts and topics
-- ----------------

-- `body` is the whole post as JSON. A deleted post keeps its row, without the body.
CREATE TABLE posts (
    id         INTEGER PRIMARY KEY,
    author     TEXT NOT NULL REFERENCES users (id),
    body       TEXT,
    deleted_at INTEGER
);
-- The posts of an author.
CREATE INDEX posts_author ON posts (author, id) WHERE deleted_at IS NULL;
-- The public ones: most readers of a profile see no others.
CREATE INDEX posts_public ON posts (author, id)
WHERE deleted_at IS NULL AND coalesce(body ->> '$.visibility', 'public') = 'public';
-- The public posts of all authors, newest first.
CREATE INDEX posts_recent ON posts (id)
WHERE deleted_at IS NULL AND coalesce(body ->> '$.visibility', 'public') = 'public';
-- Posts that are not public. They are few, so nearly all look-ups end in this index.
CREATE INDEX posts_restricted ON posts (id) WHERE coalesce(body ->> '$.visibility', 'public') <> 'public';
-- Tombstones that an erasure removes.
CREATE INDEX posts_deleted ON posts (author, id) WHERE deleted_at IS NOT NULL;

CREATE TABLE post_topics (
    topic  TEXT NOT NULL,
    post   INTEGER NOT NULL,
    -- Whether everybody may see the post.
    public INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (topic, post)
) WITHOUT ROWID;
-- The newest public post of a topic.
CREATE INDEX post_topics_public ON post_topics (topic, post) WHERE public;

-- Topics with public posts: the number of these posts, and the newest.
CREATE TABLE topics (
    name   TEXT PRIMARY KEY NOT NULL,
    -- The name as it is searched.
    folded TEXT NOT NULL,
    posts  INTEGER NOT NULL,
    last   INTEGER NOT NULL
) WITHOUT ROWID;
-- Topics by their latest activity.
CREATE INDEX topics_recent ON topics (last, name);
CREATE INDEX topics_folded ON topics (folded, name);

-- The newest post that a user has seen in their timeline.
CREATE TABLE read_markers (
    user TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    post INTEGER NOT NULL
) WITHOUT ROWID;

-- The counts of posts. A post without comments, likes and favourites may have no row. `likes_version` grows with each
-- change that is announced.
CREATE TABLE post_counts (
    post          INTEGER PRIMARY KEY,
    likes         INTEGER NOT NULL DEFAULT 0,
    likes_version INTEGER NOT NULL DEFAULT 0,
    comments      INTEGER NOT NULL DEFAULT 0,
    favourites    INTEGER NOT NULL DEFAULT 0
);

-- The audience of posts that are not public: profiles count and list the posts that a reader may see, and no other post
-- is read. Triggers on `posts` maintain the rows.

-- One row for each post with `viewer` '', and one for each user named in `only_to` or `not_to`.
CREATE TABLE audience_posts (
    author TEXT NOT NULL,
    -- `followers`, `friends`, `only_to`, `not_to`.
    kind   TEXT NOT NULL,
    viewer TEXT NOT NULL,
    post   INTEGER NOT NULL,
    PRIMARY KEY (author, kind, viewer, post)
) WITHOUT ROWID;

-- The number of rows with `viewer` '' of an author, by kind. Authors without any have no row.
CREATE TABLE audience_counts (
    author    TEXT PRIMARY KEY NOT NULL,
    followers INTEGER NOT NULL,
    friends   INTEGER NOT NULL,
    only_to   INTEGER NOT NULL,
    not_to    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER audience_posts_added AFTER INSERT ON audience_posts WHEN NEW.viewer = ''
BEGIN
    INSERT INTO audience_counts (author, followers, friends, only_to, not_to)
    VALUES (NEW.author, NEW.kind = 'followers', NEW.kind = 'friends', NEW.kind = 'only_to', NEW.kind = 'not_to')
    ON CONFLICT (author) DO UPDATE SET followers = followers + excluded.followers, friends = friends + excluded.friends,
        only_to = only_to + excluded.only_to, not_to = not_to + excluded.not_to;
END;

CREATE TRIGGER audience_posts_removed AFTER DELETE ON audience_posts WHEN OLD.viewer = ''
BEGIN
    UPDATE audience_counts
    SET followers = followers - (OLD.kind = 'followers'), friends = friends - (OLD.kind = 'friends'),
        only_to = only_to - (OLD.kind = 'only_to'), not_to = not_to - (OLD.kind = 'not_to')
    WHERE author = OLD.author;
    DELETE FROM audience_counts
    WHERE author = OLD.author AND followers = 0 AND friends = 0 AND only_to = 0 AND not_to = 0;
END;

-- A deleted post has no body, and so no audience.
CREATE TRIGGER posts_audience_added AFTER INSERT ON posts
WHEN coalesce(NEW.body ->> '$.visibility', 'public') <> 'public'
BEGIN
    INSERT INTO audience_posts (author, kind, viewer, post)
    VALUES (NEW.author, CASE substr(NEW.body ->> '$.visibility', 1, 9)
        WHEN 'followers' THEN 'followers' WHEN 'friends' THEN 'friends' WHEN '{"only_to' THEN 'only_to'
        ELSE 'not_to' END, '', NEW.id);
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'only_to', lower(value), NEW.id FROM json_each(NEW.body, '$.visibility.only_to') names
    WHERE names.type = 'text';
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'not_to', lower(value), NEW.id FROM json_each(NEW.body, '$.visibility.not_to') names
    WHERE names.type = 'text';
END;

CREATE TRIGGER posts_audience_removed AFTER DELETE ON posts
WHEN coalesce(OLD.body ->> '$.visibility', 'public') <> 'public'
BEGIN
    DELETE FROM audience_posts WHERE author = OLD.author AND kind IN ('followers', 'friends', 'only_to', 'not_to')
        AND viewer = '' AND post = OLD.id;
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'only_to' AND post = OLD.id
        AND viewer IN (SELECT lower(value) FROM json_each(OLD.body, '$.visibility.only_to'));
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'not_to' AND post = OLD.id
        AND viewer IN (SELECT lower(value) FROM json_each(OLD.body, '$.visibility.not_to'));
END;

-- A change of the visibility is two triggers, BEFORE and AFTER: the rows of the old visibility are removed before those
-- of the new one are added, because the two may have rows in common.
CREATE TRIGGER posts_audience_left BEFORE UPDATE OF body ON posts
WHEN coalesce(OLD.body ->> '$.visibility', 'public') <> 'public'
    AND OLD.body ->> '$.visibility' IS NOT NEW.body ->> '$.visibility'
BEGIN
    DELETE FROM audience_posts WHERE author = OLD.author AND kind IN ('followers', 'friends', 'only_to', 'not_to')
        AND viewer = '' AND post = OLD.id;
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'only_to' AND post = OLD.id
        AND viewer IN (SELECT lower(value) FROM json_each(OLD.body, '$.visibility.only_to'));
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'not_to' AND post = OLD.id
        AND viewer IN (SELECT lower(value) FROM json_each(OLD.body, '$.visibility.not_to'));
END;

CREATE TRIGGER posts_audience_entered AFTER UPDATE OF body ON posts
WHEN coalesce(NEW.body ->> '$.visibility', 'public') <> 'public'
    AND OLD.body ->> '$.visibility' IS NOT NEW.body ->> '$.visibility'
BEGIN
    INSERT INTO audience_posts (author, kind, viewer, post)
    VALUES (NEW.author, CASE substr(NEW.body ->> '$.visibility', 1, 9)
        WHEN 'followers' THEN 'followers' WHEN 'friends' THEN 'friends' WHEN '{"only_to' THEN 'only_to'
        ELSE 'not_to' END, '', NEW.id);
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'only_to', lower(value), NEW.id FROM json_each(NEW.body, '$.visibility.only_to') names
    WHERE names.type = 'text';
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'not_to', lower(value), NEW.id FROM json_each(NEW.body, '$.visibility.not_to') names
    WHERE names.type = 'text';
END;

-- Comments, likes, favourites
-- ---------------------------

-- A deleted comment with replies keeps its row, without `author`, `text` and `mentions`. Without replies it is removed.
CREATE TABLE comments (
    id            INTEGER PRIMARY KEY,
    post          INTEGER NOT NULL REFERENCES posts (id),
    -- The comment it replies to; 0: none.
    parent        INTEGER NOT NULL,
    -- The number of its ancestors.
    depth         INTEGER NOT NULL,
    author        TEXT REFERENCES users (id),
    text          TEXT,
    -- A JSON array of user ids; NULL: none.
    mentions      TEXT,
    replies       INTEGER NOT NULL DEFAULT 0,
    likes         INTEGER NOT NULL DEFAULT 0,
    likes_version INTEGER NOT NULL DEFAULT 0,
    -- When it was last edited, in Unix milliseconds; NULL: never. Grows with each edit.
    edited_at     INTEGER
);
-- The replies to a post or a comment, in order.
CREATE INDEX comments_thread ON comments (post, parent, id);
-- The comments of a user, for exports and erasures.
CREATE INDEX comments_author ON comments (author, id) WHERE author IS NOT NULL;

-- Likes of posts. Likes are acknowledged by a queue, and stored here in batches.
CREATE TABLE likes (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL REFERENCES users (id),
    post INTEGER NOT NULL,
    at   INTEGER NOT NULL
);
CREATE UNIQUE INDEX likes_one ON likes (user, post);
-- The likers of a post. An index ends with the rowid, so they are in the order of `seq`.
CREATE INDEX likes_of ON likes (post);

CREATE TABLE comment_likes (
    user    TEXT NOT NULL REFERENCES users (id),
    comment INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (comment, user)
) WITHOUT ROWID;
-- The likers of a comment, in the order of their likes.
CREATE INDEX comment_likes_listed ON comment_likes (comment, at, user);
-- The liked comments of a user, for exports and erasures.
CREATE INDEX comment_likes_user ON comment_likes (user, comment);

-- How far each partition of the queue of likes is settled: written in the transaction that settles it.
CREATE TABLE like_positions (
    partition INTEGER PRIMARY KEY,
    position  TEXT NOT NULL
);

-- Favourites of objects of any type.
CREATE TABLE favourites (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    user   TEXT NOT NULL REFERENCES users (id),
    type   TEXT NOT NULL,
    object TEXT NOT NULL,
    at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX favourites_one ON favourites (user, type, object);
-- The two lists. An index ends with the rowid, so each is in the order of `seq`.
CREATE INDEX favourites_of ON favourites (user, type);
CREATE INDEX favourites_holders ON favourites (type, object);

-- The number of favourites of a user, by type.
CREATE TABLE favourites_of_users (
    user  TEXT NOT NULL,
    type  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (user, type)
) WITHOUT ROWID;

-- The number of users who have an object among their favourites.
CREATE TABLE favourites_of_objects (
    type   TEXT NOT NULL,
    object TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (type, object)
) WITHOUT ROWID;

-- Events and notifications
-- ------------------------

-- The event outbox: an event is written in the transaction of its cause, and removed when every consumer has processed
-- it.
CREATE TABLE events (
    -- Never reused: notifications remember the last event they contain.
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    -- JSON.
    event   TEXT NOT NULL,
    -- A bit for each consumer that has not processed it yet.
    pending INTEGER NOT NULL
);
CREATE INDEX events_pending ON events (seq) WHERE pending <> 0;

-- One row for each user who ever had a notification. `latest` is the last `position` of their notifications;
-- `read_upto` and `seen_upto` are such numbers as well.
CREATE TABLE notified (
    user      TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    latest    INTEGER NOT NULL DEFAULT 0,
    groups    INTEGER NOT NULL DEFAULT 0,
    read_upto INTEGER NOT NULL DEFAULT 0,
    seen_upto INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Notifications are groups: one for each kind and object within a time window.
CREATE TABLE notifications (
    -- Never reused: clients and devices may remember a removed group.
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    -- `p12` for a post, `c34` for a comment; empty: none.
    object     TEXT NOT NULL,
    -- When its last event joined.
    seq        INTEGER NOT NULL,
    -- Orders the list, as `seq` would: the `seq` with which the group came to the front. While it is in front, it grows
    -- without a change of an indexed column.
    place      INTEGER NOT NULL,
    -- When it last changed in any way: `seq` or greater, from the same sequence.
    position   INTEGER NOT NULL,
    -- 0: all have left, and the group is not listed.
    people     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
-- The list of a user, by latest activity.
CREATE UNIQUE INDEX notifications_order ON notifications (user, place);
-- The group that an event joins: the newest one.
CREATE INDEX notifications_group ON notifications (user, kind, object, id);
-- Those that may be old: a group grows only for a while.
CREATE INDEX notifications_created ON notifications (created_at);

-- The people in a group.
CREATE TABLE notification_people (
    notification INTEGER NOT NULL,
    person       TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    -- The last event of this person in the group; 0: none. An event that is processed again changes nothing.
    event        INTEGER NOT NULL DEFAULT 0,
    -- Of comments and replies: the newest comments of this person, newest first, as JSON.
    comments     TEXT,
    -- 1: the cause ended, and the person has left the group. The row stays, so that a repetition notifies nobody again.
    ended        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (notification, person)
) WITHOUT ROWID;
-- The newest people of a group.
CREATE INDEX notification_people_newest ON notification_people (notification, seq) WHERE ended = 0;
-- The groups that contain a person, for erasures.
CREATE INDEX notification_people_person ON notification_people (person, notification);

-- Removed notifications whose people are still to be removed.
CREATE TABLE notification_remains (
    notification INTEGER PRIMARY KEY
);

-- Users who receive no notifications of what happens under a post.
CREATE TABLE muted_conversations (
    user TEXT NOT NULL REFERENCES users (id),
    post INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    PRIMARY KEY (user, post)
) WITHOUT ROWID;
-- Removes those of an erased post.
CREATE INDEX muted_conversations_post ON muted_conversations (post, user);

-- Owners of durable work
-- ----------------------

-- The processes that own partitions of work, each with its lease.
CREATE TABLE work_nodes (
    holder      TEXT PRIMARY KEY NOT NULL,
    -- In Unix milliseconds, by the clock of this machine.
    lease_until INTEGER NOT NULL,
    -- The kinds of work that the process does, as JSON.
    kinds       TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE work_partitions (
    -- For example `fanout/17`.
    name       TEXT PRIMARY KEY NOT NULL,
    -- The owner; NULL: nobody. It owns the partition only while its lease is valid.
    holder     TEXT,
    -- Counts the owners.
    generation INTEGER NOT NULL
) WITHOUT ROWID;

-- The nodes of the deployment
-- ---------------------------

-- Each node renews its row every second. See `ledger/nodes.rs`.
CREATE TABLE nodes (
    -- New at each start.
    id          TEXT PRIMARY KEY NOT NULL,
    -- The id of its broker.
    broker      TEXT NOT NULL,
    -- JSON, for other nodes and operators.
    description TEXT NOT NULL,
    -- Until when the node counts as alive, in Unix milliseconds, by the clock of this machine.
    lease_until INTEGER NOT NULL
) WITHOUT ROWID;

-- Fan-out jobs and the pull log
-- -----------------------------

CREATE TABLE jobs (
    -- Never reused: a worker that lost its partition must not finish another job.
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The partition of work, by the author.
    partition  INTEGER NOT NULL,
    -- The author of the posts that the job concerns.
    author     TEXT NOT NULL,
    -- The work, as JSON.
    work       TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
-- What an owner loads.
CREATE INDEX jobs_partition ON jobs (partition, id);
-- The job of an author before a new one.
CREATE INDEX jobs_author ON jobs (author, id);

-- The pull log: posts, edits and deletions of authors with too many followers to write to each inbox. Every node reads
-- it in order, and every inbox stores the mark up to which it contains the log.
CREATE TABLE pulled (
    -- The order of commits: one transaction writes at a time. Never reused.
    mark     INTEGER PRIMARY KEY AUTOINCREMENT,
    job      INTEGER NOT NULL,
    author   TEXT NOT NULL,
    -- The kind letter of an entry, and its post.
    kind     TEXT NOT NULL,
    post     INTEGER NOT NULL,
    -- Whether some inboxes may contain the entry already.
    repeated INTEGER NOT NULL,
    at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX pulled_job ON pulled (job);
-- The entries of an author after a mark.
CREATE INDEX pulled_author ON pulled (author, mark);

-- Items of all kinds of work that cannot be decoded, always fail or were given up, with the reason.
CREATE TABLE quarantine (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL,
    -- Unique in its kind.
    name       TEXT NOT NULL,
    -- What a retry needs, as JSON. Of a like: its entry in the queue.
    content    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    at         INTEGER NOT NULL,
    -- Whether a running node is to try it again.
    is_retried INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX quarantine_name ON quarantine (kind, name);
-- Lists a kind, and drops its oldest items.
CREATE INDEX quarantine_kind ON quarantine (kind, id);
CREATE INDEX quarantine_retried ON quarantine (id) WHERE is_retried;

-- Devices and pushes
-- ------------------

-- Devices that receive pushes.
CREATE TABLE devices (
    user          TEXT NOT NULL REFERENCES users (id),
    id            TEXT NOT NULL,
    -- SHA-256 of the platform and the token or URL: an address has one owner.
    address       TEXT NOT NULL,
    -- The address, as a JSON object with its `platform`.
    target        TEXT NOT NULL,
    locale        TEXT,
    time_zone     TEXT,
    app_version   TEXT,
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    -- When it was registered, or its user had a connection. Written when it has grown by a good deal.
    used_at       INTEGER NOT NULL,
    -- The session that registered it: the id of its token, the generation of the account's sessions, the time of issue
    -- in Unix seconds. The device is removed when the session ends.
    session       TEXT,
    generation    INTEGER,
    issued_at     INTEGER NOT NULL,
    PRIMARY KEY (user, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX devices_address ON devices (address);
CREATE INDEX devices_session ON devices (session) WHERE session IS NOT NULL;
-- Those that have not been in use for long.
CREATE INDEX devices_used ON devices (used_at);

-- The pushes that users want, as JSON. Users without a row have the defaults.
CREATE TABLE push_preferences (
    user        TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    preferences TEXT NOT NULL
) WITHOUT ROWID;

-- Notifications to be pushed, one row for each device. A group of notifications that grows stays one row.
CREATE TABLE push_queue (
    user           TEXT NOT NULL,
    device         TEXT NOT NULL,
    -- The id of the notification.
    item           INTEGER NOT NULL,
    kind           TEXT NOT NULL,
    -- The state of the group to be pushed.
    seq            INTEGER NOT NULL,
    -- 0: waiting. 1: accepted; kept for a day, so that the item is not pushed twice and counts towards the daily cap.
    state          INTEGER NOT NULL,
    -- Waiting: when it may be sent, or when its lease ends. Accepted: when the row is removed.
    due_at         INTEGER NOT NULL,
    -- The process that sends it.
    holder         TEXT,
    attempts       INTEGER NOT NULL DEFAULT 0,
    queued_at      INTEGER NOT NULL,
    sent_at        INTEGER NOT NULL DEFAULT 0,
    -- How often it was accepted.
    sends          INTEGER NOT NULL DEFAULT 0,
    -- When it was first sent without being accepted; 0 before. The age at which it is given up counts from it.
    first_tried_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user, device, item)
) WITHOUT ROWID;
CREATE INDEX push_queue_due ON push_queue (state, due_at);
-- The alerts about a post, which are withdrawn with it.
CREATE INDEX push_queue_posts ON push_queue (item, user) WHERE kind = 'post';

-- The outlet
-- ----------

-- The outlet: a log of what happened, for consumers outside of Feedline.
CREATE TABLE outlet (
    -- Ascending, in the order of commits.
    position     INTEGER PRIMARY KEY,
    -- When it happened, and when it came into the log.
    at           INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    -- Entries are kept in order for their owner: a user, or `#` and a channel.
    owner        TEXT NOT NULL,
    -- JSON.
    body         TEXT NOT NULL
);

-- The last position of the log, and the last one that was trimmed.
CREATE TABLE outlet_end (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    last    INTEGER NOT NULL,
    trimmed INTEGER NOT NULL
);
INSERT INTO outlet_end (one, last, trimmed) VALUES (1, 0, 0);

-- How far each consumer has come.
CREATE TABLE outlet_consumers (
    name   TEXT PRIMARY KEY NOT NULL,
    cursor INTEGER NOT NULL
) WITHOUT ROWID;

-- Entries that a consumer did not take yet though its cursor is past them.
CREATE TABLE outlet_held (
    consumer  TEXT NOT NULL,
    position  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    owner     TEXT NOT NULL,
    body      TEXT NOT NULL,
    -- When the consumer first did not take it.
    held_at   INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    -- When it is sent again. NULL: once the entries of the user before it are settled.
    due_at    INTEGER,
    reason    TEXT NOT NULL,
    PRIMARY KEY (consumer, position)
) WITHOUT ROWID;
CREATE INDEX outlet_held_due ON outlet_held (consumer, due_at);
CREATE INDEX outlet_held_owner ON outlet_held (consumer, owner, position);

-- Requests
-- --------

-- Writes with an idempotency key, and their answers.
CREATE TABLE idempotency (
    user      TEXT NOT NULL,
    key       TEXT NOT NULL,
    operation TEXT NOT NULL,
    -- A digest of the input.
    input     BLOB NOT NULL,
    -- The id reserved for the post or comment that the write creates; NULL: it creates none.
    reserved  INTEGER,
    begun_at  INTEGER NOT NULL,
    -- While there is no answer: until when an attempt may be running.
    until     INTEGER NOT NULL,
    answer    BLOB,
    PRIMARY KEY (user, key)
) WITHOUT ROWID;
-- Drops old keys.
CREATE INDEX idempotency_begun ON idempotency (begun_at);

-- The file itself
-- ---------------

-- `incarnation` names the history of the file. It is copied with the file, and replaced by `feedline restore` and by a
-- node that finds the file older than the broker's record of it. `ledger_id` stays the same; `broker` is the record of
-- the broker.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('incarnation', lower(hex(randomblob(6))));
INSERT INTO meta (name, value) VALUES ('ledger_id', lower(hex(randomblob(10))));
