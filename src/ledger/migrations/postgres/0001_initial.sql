-- The schema of a PostgreSQL ledger. The functions that the statements call are in src/ledger/postgres/functions/.
-- Times are Unix milliseconds. Counts are maintained in the transaction that changes the counted rows. `seq` columns
-- order lists: unlike a time, a `seq` is unique, so a cursor is exact.
--
-- Ids are compared byte by byte, in any locale of the database: COLLATE "C". Tables that grow without bound are
-- partitioned by the hash of the key they are read by (an author, a user, a post), so that each look-up reads one
-- partition; data that is read by two keys is in two tables. Partitions can be vacuumed, indexed and, as foreign
-- tables, moved to other servers one by one. Their number is fixed: 16 are enough for a long time, and keep plans fast.
-- Tables with at most one row for each user or topic are not partitioned.

-- Users and accounts
-- ------------------

CREATE TABLE users (
    id         text COLLATE "C" PRIMARY KEY,
    -- The id as first written; NULL: as `id`, which is in lower case.
    handle     text COLLATE "C",
    name       text NOT NULL,
    avatar     text,
    created_at bigint NOT NULL,
    -- Writes that concern a user lock this row first, in the order of ids. So they run one after the other, and counts
    -- and numbers become visible in their order.
    followers  bigint NOT NULL DEFAULT 0,
    following  bigint NOT NULL DEFAULT 0,
    posts      bigint NOT NULL DEFAULT 0,
    -- Set for erased users. The row stays as a tombstone, so that nobody else can take the id.
    erased_at  bigint
) WITH (fillfactor = 80);

-- The text and data of profiles. They are read for profiles only, so the rows of `users`, which every list reads, stay
-- short. Users with neither have no row.
CREATE TABLE profiles (
    owner text COLLATE "C" PRIMARY KEY,
    bio   text,
    -- A JSON object, as text: jsonb takes no NUL.
    data  text
) WITH (fillfactor = 80);

-- Users who sign in with a password. All others come with a token of an application.
CREATE TABLE accounts (
    "user"     text COLLATE "C" PRIMARY KEY REFERENCES users (id),
    password   text NOT NULL,
    -- How often all sessions of the account were ended. A session carries the number it was opened with.
    generation bigint NOT NULL DEFAULT 0
);

-- The search index: ids and names, folded to lower case by Feedline. Not partitioned: it is searched by prefix.
CREATE TABLE user_terms (
    term  text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    PRIMARY KEY (term, owner)
);
-- Replaces the terms of a user who changes their name.
CREATE INDEX user_terms_of ON user_terms (owner, term);

-- Tokens and sessions that ended early, and blocked users: a log with one row for each (kind, subject). A later entry
-- replaces the row and takes a new number. Every node follows the log by number. Not partitioned: it is read by number,
-- and expired entries are dropped.
CREATE TABLE revocations (
    seq        bigint PRIMARY KEY,
    kind       text COLLATE "C" NOT NULL,
    -- The id of a token, or of a user.
    subject    text COLLATE "C" NOT NULL,
    -- Of a token: the user it belongs to, if known.
    owner      text COLLATE "C",
    -- The meaning depends on the kind: see RevocationKind.
    value      bigint NOT NULL,
    -- The id of the one session that stays open.
    spared     text COLLATE "C",
    at         bigint NOT NULL,
    -- From then on the entry has no effect, and may be dropped.
    expires_at bigint NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX revocations_subject ON revocations (kind, subject);
-- Drops expired entries.
CREATE INDEX revocations_expiry ON revocations (expires_at);

-- The last `seq` of `revocations`, in one row. The transaction that takes the next one holds the row until its commit,
-- so numbers become visible in their order (those of a sequence would not). The row stays when entries are dropped.
CREATE TABLE revocations_end (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    seq   bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO revocations_end (seq) VALUES (0);

-- Erasures in progress. The remaining rows of the user are the progress, so a node that takes an erasure over needs
-- nothing else.
CREATE TABLE erasures (
    owner       text COLLATE "C" PRIMARY KEY,
    at          bigint NOT NULL,
    -- When the next pass may begin.
    due_at      bigint NOT NULL,
    -- Since when nothing of the user was found. NULL: something was found since.
    quiet_since bigint
) WITH (fillfactor = 70);

-- Follows and restrictions
-- ------------------------

CREATE SEQUENCE follows_seq AS bigint;

-- The followees of a user.
CREATE TABLE follows (
    follower text COLLATE "C" NOT NULL,
    followee text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (follower, followee)
) PARTITION BY HASH (follower);
CREATE INDEX follows_listed ON follows (follower, seq);

-- The same edges by followee. The primary key is the order in which a fan-out scans the followers of an author.
CREATE TABLE followers (
    followee text COLLATE "C" NOT NULL,
    follower text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    PRIMARY KEY (followee, follower)
) PARTITION BY HASH (followee);
CREATE INDEX followers_listed ON followers (followee, seq);

-- Restrictions between two users. `maker` hides their posts from `target` (hide), does not see those of `target`
-- (mute), or both (block).
CREATE TABLE restrictions (
    maker text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL CHECK (kind IN ('hide', 'mute', 'block')),
    target  text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (maker, kind, target)
) PARTITION BY HASH (maker);
-- The users that a user restricts, latest first. The time comes before the kind: otherwise look-ups of a pair might
-- read this index instead of the primary key, and all restrictions of the user with it. For the same reason, look-ups
-- of several kinds are one for each kind.
CREATE INDEX restrictions_listed ON restrictions (maker, at, kind, target);

-- The same restrictions by the other user.
CREATE TABLE restricted_by (
    target  text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    maker text COLLATE "C" NOT NULL,
    PRIMARY KEY (target, kind, maker)
) PARTITION BY HASH (target);

-- Users who get a notification of each post of an author.
CREATE TABLE post_alerts (
    owner  text COLLATE "C" NOT NULL,
    author text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (owner, author)
) PARTITION BY HASH (owner);

-- The same by author: the recipients of an author's posts, in ascending order.
CREATE TABLE post_alerts_of (
    author text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    PRIMARY KEY (author, owner)
) PARTITION BY HASH (author);

-- Posts and topics
-- ----------------

-- `body` is the whole post as JSON (as text: jsonb takes no NUL, and a post may contain one, escaped). A deleted post
-- keeps its row, without the body. Most look-ups are by id, to fill a page of ids with bodies.
CREATE TABLE posts (
    id         bigint PRIMARY KEY,
    author     text COLLATE "C" NOT NULL,
    topics     text[] NOT NULL,
    -- Who may see it, as JSON.
    visibility text NOT NULL,
    body       text,
    deleted_at bigint
) PARTITION BY HASH (id);
-- The public posts of an author: most readers of a profile see no others.
CREATE INDEX posts_public ON posts (author, id) WHERE visibility = '"public"' AND deleted_at IS NULL;
-- The public posts of all authors, newest first. An expression, so that it serves no other statement: for the page of
-- an author, PostgreSQL might read it and skip the posts of all others.
CREATE INDEX posts_recent ON posts ((id + 0)) WHERE visibility = '"public"' AND deleted_at IS NULL;
-- Posts that are not public. They are few, so nearly all look-ups end in this index.
CREATE INDEX posts_restricted ON posts (id) WHERE visibility <> '"public"' AND deleted_at IS NULL;
-- Tombstones that an erasure removes.
CREATE INDEX posts_deleted ON posts (author, id) WHERE deleted_at IS NOT NULL;

-- The posts of an author, without deleted ones.
CREATE TABLE author_posts (
    author text COLLATE "C" NOT NULL,
    post   bigint NOT NULL,
    PRIMARY KEY (author, post)
) PARTITION BY HASH (author);

-- The posts of a topic, without deleted ones.
CREATE TABLE post_topics (
    topic  text COLLATE "C" NOT NULL,
    post   bigint NOT NULL,
    -- Whether everybody may see the post.
    public boolean NOT NULL,
    PRIMARY KEY (topic, post)
) PARTITION BY HASH (topic);
-- The newest public post of a topic.
CREATE INDEX post_topics_public ON post_topics (topic, post) WHERE public;

-- Topics with public posts: the number of these posts, and the newest. A transaction that changes `post_topics` locks
-- the rows here before it looks for the newest post, several in the order of their names. Not partitioned: it is listed
-- by activity.
CREATE TABLE topics (
    name   text COLLATE "C" PRIMARY KEY,
    -- The name as it is searched.
    folded text COLLATE "C" NOT NULL,
    posts  bigint NOT NULL,
    last   bigint NOT NULL
) WITH (fillfactor = 80);
-- Topics by their latest activity.
CREATE INDEX topics_recent ON topics (last, name);
CREATE INDEX topics_folded ON topics (folded, name);

-- The newest post that a user has seen in their timeline.
CREATE TABLE read_markers (
    owner text COLLATE "C" PRIMARY KEY,
    post  bigint NOT NULL
) WITH (fillfactor = 80);

-- The counts of posts. A post without comments, likes and favourites may have no row. `likes_version` grows with each
-- change that is announced. Writes that change data of a post lock this row first.
CREATE TABLE post_counts (
    post          bigint PRIMARY KEY,
    likes         bigint NOT NULL DEFAULT 0,
    likes_version bigint NOT NULL DEFAULT 0,
    comments      bigint NOT NULL DEFAULT 0,
    favourites    bigint NOT NULL DEFAULT 0
) PARTITION BY HASH (post);

-- The audience of posts that are not public: profiles count and list the posts that a reader may see, and no other post
-- is read. Triggers on `posts` maintain the rows. One row for each post with `viewer` '', and one for each user named
-- in `only_to` or `not_to`.
CREATE TABLE audience_posts (
    author text COLLATE "C" NOT NULL,
    -- `followers`, `friends`, `only_to`, `not_to`.
    kind   text COLLATE "C" NOT NULL,
    viewer text COLLATE "C" NOT NULL,
    post   bigint NOT NULL,
    PRIMARY KEY (author, kind, viewer, post)
) PARTITION BY HASH (author);

-- The number of rows with `viewer` '' of an author, by kind. Authors without any have no row.
CREATE TABLE audience_counts (
    author    text COLLATE "C" PRIMARY KEY,
    followers bigint NOT NULL,
    friends   bigint NOT NULL,
    only_to   bigint NOT NULL,
    not_to    bigint NOT NULL
) WITH (fillfactor = 80);

-- Triggers need their function. Its body is in functions/audience.sql, which is applied in the same transaction.
CREATE FUNCTION feedline_post_audience() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

CREATE TRIGGER posts_audience_added AFTER INSERT ON posts FOR EACH ROW
WHEN (NEW.visibility <> '"public"' AND NEW.deleted_at IS NULL)
EXECUTE FUNCTION feedline_post_audience();

CREATE TRIGGER posts_audience_removed AFTER DELETE ON posts FOR EACH ROW
WHEN (OLD.visibility <> '"public"' AND OLD.deleted_at IS NULL)
EXECUTE FUNCTION feedline_post_audience();

CREATE TRIGGER posts_audience_changed AFTER UPDATE OF visibility, deleted_at ON posts FOR EACH ROW
WHEN ((OLD.visibility <> '"public"' OR NEW.visibility <> '"public"')
    AND (OLD.visibility <> NEW.visibility OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at))
EXECUTE FUNCTION feedline_post_audience();

-- Comments, likes, favourites
-- ---------------------------

-- A deleted comment with replies keeps its row, without `author`, `text` and `mentions`. Without replies it is removed.
CREATE TABLE comments (
    post          bigint NOT NULL,
    id            bigint NOT NULL,
    -- The comment it replies to; 0: none.
    parent        bigint NOT NULL,
    -- The number of its ancestors.
    depth         int NOT NULL,
    author        text COLLATE "C",
    text          text,
    -- User ids; NULL: none.
    mentions      text[],
    replies       bigint NOT NULL DEFAULT 0,
    likes         bigint NOT NULL DEFAULT 0,
    likes_version bigint NOT NULL DEFAULT 0,
    -- When it was last edited, in Unix milliseconds; NULL: never. Grows with each edit.
    edited_at     bigint,
    PRIMARY KEY (post, id)
) PARTITION BY HASH (post);
-- The replies to a post or a comment, in order.
CREATE INDEX comments_thread ON comments (post, parent, id);
-- The comments of a user, for exports and erasures. These are rare, so a look-up in each partition is acceptable; a
-- second table would double every write.
CREATE INDEX comments_author ON comments (author, id) WHERE author IS NOT NULL;

-- The post of a comment: threads are read by post, single comments by id.
CREATE TABLE comment_posts (
    comment bigint PRIMARY KEY,
    post    bigint NOT NULL
) PARTITION BY HASH (comment);

-- Numbers batches of likes. A number is taken while the rows of the posts in `post_counts` are locked, so the likes of
-- one list become visible in their order.
CREATE SEQUENCE likes_seq AS bigint;

-- Likes of posts. Likes are acknowledged by a queue, and stored here in batches, so the cost of a row counts: two
-- indexes. The primary key answers whether a user likes a post, and lists the likes of a user for exports and erasures.
CREATE TABLE likes (
    post  bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    -- The number of the batch, and the place in it: see `feedline_apply_like_batch`.
    seq   bigint NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (owner, post)
) PARTITION BY HASH (post);
-- The likers of a post.
CREATE INDEX likes_listed ON likes (post, seq);

CREATE TABLE comment_likes (
    comment bigint NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (comment, owner)
) PARTITION BY HASH (comment);
-- The likers of a comment, in the order of their likes.
CREATE INDEX comment_likes_listed ON comment_likes (comment, at, owner);
-- The liked comments of a user, for exports and erasures.
CREATE INDEX comment_likes_of ON comment_likes (owner, comment);

-- How far each partition of the queue of likes is settled: written in the transaction that settles it.
CREATE TABLE like_positions (
    partition int PRIMARY KEY,
    position  text NOT NULL
) WITH (fillfactor = 50);

-- Numbers are taken while the two rows that count are locked, the one of the user first, so those of one list become
-- visible in their order.
CREATE SEQUENCE favourites_seq AS bigint;

-- The favourites of a user, objects of any type.
CREATE TABLE favourites (
    owner  text COLLATE "C" NOT NULL,
    type   text COLLATE "C" NOT NULL,
    object text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (owner, type, object)
) PARTITION BY HASH (owner);
CREATE INDEX favourites_listed ON favourites (owner, type, seq);

-- The same by object: the users who have it among their favourites.
CREATE TABLE favourite_holders (
    type   text COLLATE "C" NOT NULL,
    object text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (type, object, owner)
) PARTITION BY HASH (type, object);
CREATE INDEX favourite_holders_listed ON favourite_holders (type, object, seq);

-- The number of favourites of a user, by type.
CREATE TABLE favourites_of_users (
    owner text COLLATE "C" NOT NULL,
    type  text COLLATE "C" NOT NULL,
    count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, type)
) WITH (fillfactor = 80);

-- The number of users who have an object among their favourites.
CREATE TABLE favourites_of_objects (
    type   text COLLATE "C" NOT NULL,
    object text COLLATE "C" NOT NULL,
    count  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (type, object)
) PARTITION BY HASH (type, object);

-- Events and notifications
-- ------------------------

-- The event outbox: an event is written in the transaction of its cause, and removed when every consumer has processed
-- it. Not partitioned: only pending events are here. Rows come and go, so it is vacuumed by number, not by share.
CREATE TABLE events (
    -- Never reused: notifications remember the last event they contain.
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    -- JSON.
    event   text NOT NULL,
    -- A bit for each consumer that has not processed it yet.
    pending int NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX events_pending ON events (seq) WHERE pending <> 0;

-- One row for each user who ever had a notification. `latest` is the last `position` of their notifications;
-- `read_upto` and `seen_upto` are such numbers as well. Writes that change the notifications of a user lock the row
-- first.
CREATE TABLE notified (
    owner     text COLLATE "C" PRIMARY KEY,
    latest    bigint NOT NULL DEFAULT 0,
    groups    bigint NOT NULL DEFAULT 0,
    read_upto bigint NOT NULL DEFAULT 0,
    seen_upto bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

-- Numbers groups of notifications. A number is taken while the row of the user in `notified` is locked, so later groups
-- of a user have greater ids.
CREATE SEQUENCE notification_ids AS bigint;

-- Notifications are groups: one for each kind and object within a time window.
CREATE TABLE notifications (
    owner      text COLLATE "C" NOT NULL,
    id         bigint NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    -- `p12` for a post, `c34` for a comment; empty: none.
    object     text COLLATE "C" NOT NULL,
    -- When its last event joined.
    seq        bigint NOT NULL,
    -- Orders the list, as `seq` would: the `seq` with which the group came to the front. While it is in front, it grows
    -- without a change of an indexed column.
    place      bigint NOT NULL,
    -- When it last changed in any way: `seq` or greater, from the same sequence.
    position   bigint NOT NULL,
    -- 0: all have left, and the group is not listed.
    people     bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (owner, id)
) PARTITION BY HASH (owner);
-- The list of a user, by latest activity.
CREATE UNIQUE INDEX notifications_order ON notifications (owner, place);
-- The group that an event joins: the newest one.
CREATE INDEX notifications_group ON notifications (owner, kind, object, id);
-- Those that may be old: a group grows only for a while.
CREATE INDEX notifications_created ON notifications (created_at);

-- The people in a group.
CREATE TABLE notification_people (
    owner        text COLLATE "C" NOT NULL,
    notification bigint NOT NULL,
    person       text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    -- The last event of this person in the group; 0: none. An event that is processed again changes nothing.
    event        bigint NOT NULL DEFAULT 0,
    -- Of comments and replies: the newest comments of this person, newest first.
    comments     bigint[],
    -- Whether the cause ended, and the person has left the group. The row stays, so that a repetition notifies nobody
    -- again.
    ended        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (owner, notification, person)
) PARTITION BY HASH (owner);
-- The newest people of a group.
CREATE INDEX notification_people_newest ON notification_people (owner, notification, seq) WHERE NOT ended;
-- The groups that contain a person, for erasures.
CREATE INDEX notification_people_person ON notification_people (person, owner, notification);

-- Removed notifications whose people are still to be removed.
CREATE TABLE notification_remains (
    owner        text COLLATE "C" NOT NULL,
    notification bigint NOT NULL,
    PRIMARY KEY (owner, notification)
);

-- Users who receive no notifications of what happens under a post. The primary key lists the posts of a user, too.
CREATE TABLE muted_conversations (
    post  bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (owner, post)
) PARTITION BY HASH (post);
-- Removes those of an erased post.
CREATE INDEX muted_conversations_post ON muted_conversations (post, owner);

-- Owners of durable work
-- ----------------------

-- The processes that own partitions of work, each with its lease. The row of a process changes every second.
CREATE TABLE work_nodes (
    holder      text COLLATE "C" PRIMARY KEY,
    -- In Unix milliseconds, by the clock of this server.
    lease_until bigint NOT NULL,
    -- The kinds of work that the process does.
    kinds       text[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE work_partitions (
    -- For example `fanout/17`.
    name       text COLLATE "C" PRIMARY KEY,
    -- The owner; NULL: nobody. It owns the partition only while its lease is valid.
    holder     text COLLATE "C",
    -- Counts the owners.
    generation bigint NOT NULL DEFAULT 0,
    -- Of fan-out: the jobs up to this number are finished.
    floor      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The nodes of the deployment
-- ---------------------------

-- Each node renews its row every second. See `ledger/nodes.rs`.
CREATE TABLE nodes (
    -- New at each start.
    id          text COLLATE "C" PRIMARY KEY,
    -- The id of its broker.
    broker      text NOT NULL,
    -- JSON, for other nodes and operators.
    description text NOT NULL,
    -- Until when the node counts as alive, in Unix milliseconds, by the clock of this server.
    lease_until bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Fan-out jobs and the pull log
-- -----------------------------

-- The id of a job is taken while the row of its author in `users` is locked, so the jobs of one author become visible
-- in the order of their ids. Rows come and go, so the table is vacuumed by number, not by share. All statements read
-- behind the floor of a partition: rows that are deleted but cannot be vacuumed, because of an old snapshot, cost
-- nothing.
CREATE TABLE jobs (
    -- Never reused: a worker that lost its partition must not finish another job.
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The partition of work, by the author.
    partition  smallint NOT NULL,
    -- The author of the posts that the job concerns.
    author     text COLLATE "C" NOT NULL,
    -- The work, as JSON.
    work       text NOT NULL,
    created_at bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- `id + 0` and `id - 0`: a condition on the id matches one index only. The planner would read another one whole if it
-- expects an empty table, because nearly all rows are removed ones behind an old snapshot.
-- What an owner loads.
CREATE INDEX jobs_partition ON jobs (partition, (id + 0));
-- The job of an author before a new one.
CREATE INDEX jobs_author ON jobs (author, (id - 0));

-- The pull log: posts, edits and deletions of authors with too many followers to write to each inbox. Every node reads
-- it in order, and every inbox stores the mark up to which it contains the log. Not partitioned: it is read by mark,
-- and old entries are dropped.
CREATE TABLE pulled (
    mark     bigint PRIMARY KEY,
    job      bigint NOT NULL UNIQUE,
    author   text COLLATE "C" NOT NULL,
    -- The kind letter of an entry, and its post.
    kind     text COLLATE "C" NOT NULL,
    post     bigint NOT NULL,
    -- Whether some inboxes may contain the entry already.
    repeated boolean NOT NULL,
    at       bigint NOT NULL
);
-- The entries of an author after a mark.
CREATE INDEX pulled_author ON pulled (author, mark);

-- The last mark of `pulled`, in one row. The transaction that takes the next one holds the row until its commit, so
-- marks become visible in their order (those of a sequence would not). The row stays when entries are dropped.
CREATE TABLE pulled_end (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    mark  bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO pulled_end (mark) VALUES (0);

-- Items of all kinds of work that cannot be decoded, always fail or were given up, with the reason.
CREATE TABLE quarantine (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text COLLATE "C" NOT NULL,
    -- Unique in its kind.
    name       text COLLATE "C" NOT NULL,
    -- What a retry needs, as JSON. Of a like: its entry in the queue.
    content    text NOT NULL,
    reason     text NOT NULL,
    attempts   bigint NOT NULL DEFAULT 0,
    at         bigint NOT NULL,
    -- Whether a running node is to try it again.
    is_retried boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX quarantine_name ON quarantine (kind, name);
-- Lists a kind, and drops its oldest items.
CREATE INDEX quarantine_kind ON quarantine (kind, id);
CREATE INDEX quarantine_retried ON quarantine (id) WHERE is_retried;

-- Devices and pushes
-- ------------------

-- Devices that receive pushes: a few for each user. Not partitioned, because an address is unique among all users.
CREATE TABLE devices (
    owner         text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    -- SHA-256 of the platform and the token or URL: an address has one owner.
    address       text COLLATE "C" NOT NULL,
    -- The address, as a JSON object with its `platform`.
    target        text NOT NULL,
    locale        text,
    time_zone     text,
    app_version   text,
    registered_at bigint NOT NULL,
    seen_at       bigint NOT NULL,
    -- When it was registered, or its user had a connection. Written when it has grown by a good deal.
    used_at       bigint NOT NULL,
    -- The session that registered it: the id of its token, the generation of the account's sessions, the time of issue
    -- in Unix seconds. The device is removed when the session ends.
    session       text COLLATE "C",
    generation    bigint,
    issued_at     bigint NOT NULL,
    PRIMARY KEY (owner, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX devices_address ON devices (address);
CREATE INDEX devices_session ON devices (session) WHERE session IS NOT NULL;
-- Those that have not been in use for long.
CREATE INDEX devices_used ON devices (used_at);

-- The pushes that users want, as JSON. Users without a row have the defaults.
CREATE TABLE push_preferences (
    owner       text COLLATE "C" PRIMARY KEY,
    preferences text NOT NULL
) WITH (fillfactor = 80);

-- Notifications to be pushed, one row for each device. A group of notifications that grows stays one row.
CREATE TABLE push_queue (
    owner          text COLLATE "C" NOT NULL,
    device         text COLLATE "C" NOT NULL,
    -- The id of the notification.
    item           bigint NOT NULL,
    kind           text NOT NULL,
    -- The state of the group to be pushed.
    seq            bigint NOT NULL,
    -- 0: waiting. 1: accepted; kept for a day, so that the item is not pushed twice and counts towards the daily cap.
    state          smallint NOT NULL,
    -- Waiting: when it may be sent, or when its lease ends. Accepted: when the row is removed.
    due_at         bigint NOT NULL,
    -- The process that sends it.
    holder         text,
    attempts       bigint NOT NULL DEFAULT 0,
    queued_at      bigint NOT NULL,
    sent_at        bigint NOT NULL DEFAULT 0,
    -- How often it was accepted.
    sends          bigint NOT NULL DEFAULT 0,
    -- When it was first sent without being accepted; 0 before. The age at which it is given up counts from it.
    first_tried_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, device, item)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX push_queue_due ON push_queue (state, due_at);
-- The alerts about a post, which are withdrawn with it.
CREATE INDEX push_queue_posts ON push_queue (item, owner) WHERE kind = 'post';

-- The outlet
-- ----------

-- The outlet: a log of what happened, for consumers outside of Feedline.
CREATE TABLE outlet (
    -- Ascending, in the order of commits.
    position     bigint PRIMARY KEY,
    -- When it happened, and when it came into the log.
    at           bigint NOT NULL,
    published_at bigint NOT NULL,
    kind         text NOT NULL,
    -- Entries are kept in order for their owner: a user, or `#` and a channel.
    owner        text COLLATE "C" NOT NULL,
    -- JSON.
    body         text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- The last position of the log, and the last one that was trimmed. A transaction that appends locks the row until it
-- commits.
CREATE TABLE outlet_end (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    last    bigint NOT NULL,
    trimmed bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO outlet_end (last, trimmed) VALUES (0, 0);

-- How far each consumer has come.
CREATE TABLE outlet_consumers (
    name     text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
) WITH (fillfactor = 50);

-- Entries that a consumer did not take yet though its cursor is past them.
CREATE TABLE outlet_held (
    consumer  text COLLATE "C" NOT NULL,
    position  bigint NOT NULL,
    at        bigint NOT NULL,
    kind      text NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    body      text NOT NULL,
    -- When the consumer first did not take it.
    held_at   bigint NOT NULL,
    attempts  bigint NOT NULL,
    -- When it is sent again. NULL: once the entries of the user before it are settled.
    due_at    bigint,
    reason    text NOT NULL,
    PRIMARY KEY (consumer, position)
) WITH (fillfactor = 80);
CREATE INDEX outlet_held_due ON outlet_held (consumer, due_at);
CREATE INDEX outlet_held_owner ON outlet_held (consumer, owner, position);

-- Requests
-- --------

-- Writes with an idempotency key, and their answers.
CREATE TABLE idempotency (
    owner     text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    operation text NOT NULL,
    -- A digest of the input.
    input     bytea NOT NULL,
    -- The id reserved for the post or comment that the write creates; NULL: it creates none.
    reserved  bigint,
    begun_at  bigint NOT NULL,
    -- While there is no answer: until when an attempt may be running.
    until     bigint NOT NULL,
    answer    bytea,
    PRIMARY KEY (owner, key)
) PARTITION BY HASH (owner);
-- Drops old keys.
CREATE INDEX idempotency_begun ON idempotency (begun_at);

-- The database itself
-- -------------------

-- `incarnation` names the history of the database. It is copied with the data, and replaced by a node that finds the
-- database older than the broker's record of it. `ledger_id` stays the same; `broker` is the record of the broker.
CREATE TABLE meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO meta (name, value) VALUES ('incarnation', substr(md5(gen_random_uuid()::text), 1, 12));
INSERT INTO meta (name, value) VALUES ('ledger_id', substr(md5(gen_random_uuid()::text), 1, 20));

-- Partitions
-- ----------

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY[
        'follows', 'followers', 'restrictions', 'restricted_by', 'post_alerts', 'post_alerts_of',
        'posts', 'author_posts', 'post_topics', 'post_counts', 'audience_posts',
        'comments', 'comment_posts', 'likes', 'comment_likes',
        'favourites', 'favourite_holders', 'favourites_of_objects',
        'notifications', 'notification_people', 'muted_conversations', 'idempotency'
    ] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format(
                'CREATE TABLE %s_%s PARTITION OF %s FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                parent, part, parent, part);
        END LOOP;
    END LOOP;
    -- Their rows change or go. A share of a fifth, as by default, would be millions of dead rows.
    FOREACH parent IN ARRAY ARRAY['likes', 'notifications', 'notification_people', 'idempotency'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format(
                'ALTER TABLE %s_%s SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, '
                'autovacuum_analyze_scale_factor = 0.02)',
                parent, part);
        END LOOP;
    END LOOP;
    -- Room for groups that grow.
    FOR part IN 0..15 LOOP
        EXECUTE format('ALTER TABLE notifications_%s SET (fillfactor = 80)', part);
    END LOOP;
END $$;
