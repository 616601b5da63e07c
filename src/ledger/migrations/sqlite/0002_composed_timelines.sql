-- Timelines that people compose: standings, locked accounts, reposts and quotes, filters, lists, followed topics, and
-- notifications of the application. A program that knows version 1 only goes on with a file that it has open.

-- Columns
-- -------

-- Followers of a locked account are accepted one by one, and its public posts are for them only.
ALTER TABLE users ADD COLUMN locked INTEGER NOT NULL DEFAULT 0;
-- Few accounts are locked, so a look-up of one that is not costs little.
CREATE INDEX users_locked ON users (id) WHERE locked;

-- A JSON array of post ids; NULL: none.
ALTER TABLE profiles ADD COLUMN pinned TEXT;
-- Who may quote the user's posts; NULL: everyone.
ALTER TABLE profiles ADD COLUMN quotable TEXT CHECK (quotable IN ('followers', 'nobody'));

ALTER TABLE post_counts ADD COLUMN reposts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE post_counts ADD COLUMN quotes INTEGER NOT NULL DEFAULT 0;

-- Other users do not see it, and counts omit it.
ALTER TABLE favourites ADD COLUMN private INTEGER NOT NULL DEFAULT 0;

-- In their timeline, `maker` does not see the reposts of `target` (reposts), or neither posts nor reposts, because an
-- exclusive list of `maker` has `target` (listed).
ALTER TABLE restrictions RENAME TO restrictions_before;
CREATE TABLE restrictions (
    maker TEXT NOT NULL REFERENCES users (id),
    target  TEXT NOT NULL REFERENCES users (id),
    kind  TEXT NOT NULL CHECK (kind IN ('hide', 'mute', 'block', 'reposts', 'listed')),
    at    INTEGER NOT NULL,
    -- When a mute ends by itself; NULL: never.
    until INTEGER,
    PRIMARY KEY (maker, kind, target)
) WITHOUT ROWID;
INSERT INTO restrictions (maker, target, kind, at) SELECT maker, target, kind, at FROM restrictions_before;
DROP TABLE restrictions_before;
CREATE INDEX restrictions_due ON restrictions (until) WHERE until IS NOT NULL;
-- The restrictions against a user.
CREATE INDEX restrictions_target ON restrictions (target, kind, maker);
-- The users that a user restricts, latest first.
CREATE INDEX restrictions_listed ON restrictions (maker, kind, at, target);

ALTER TABLE pulled RENAME TO pulled_before;
CREATE TABLE pulled (
    -- The order of commits: one transaction writes at a time. Never reused.
    mark     INTEGER PRIMARY KEY AUTOINCREMENT,
    -- NULL: an entry for followers of topics and for lists. A repeated job appends it again, and inboxes ignore it.
    job      INTEGER,
    author   TEXT NOT NULL,
    -- The kind letter of an entry, and its post.
    kind     TEXT NOT NULL,
    post     INTEGER NOT NULL,
    -- Whether some inboxes may contain the entry already.
    repeated INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    -- NULL: the entry is for the followers of the author; otherwise for users who follow one of these topics, and for
    -- lists that have one of them or the author, an array.
    topics   TEXT
);
INSERT INTO pulled (mark, job, author, kind, post, repeated, at)
SELECT mark, job, author, kind, post, repeated, at FROM pulled_before;
-- Marks are not reused, also if the last entries were dropped.
DELETE FROM sqlite_sequence WHERE name = 'pulled';
INSERT INTO sqlite_sequence (name, seq) SELECT 'pulled', seq FROM sqlite_sequence WHERE name = 'pulled_before';
DROP TABLE pulled_before;
CREATE UNIQUE INDEX pulled_job ON pulled (job);
-- The entries for the followers of an author after a mark.
CREATE INDEX pulled_author ON pulled (author, mark) WHERE topics IS NULL;
-- The entries for lists that have an author, after a mark.
CREATE INDEX pulled_listed ON pulled (author, mark) WHERE topics IS NOT NULL;

-- Tables
-- ------

-- The standings of users: a log with one row for each user who was ever limited or suspended. A change replaces the row
-- and takes a new number. Every node follows the log by number, so numbers are never reused.
CREATE TABLE standings (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    user   TEXT NOT NULL REFERENCES users (id),
    level  TEXT NOT NULL CHECK (level IN ('active', 'limited', 'suspended')),
    reason TEXT,
    -- When the standing ends; NULL: never.
    until  INTEGER,
    at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX standings_user ON standings (user);

-- Open requests to follow users whose accounts are locked. Before `shown_at` the followee does not see the request.
CREATE TABLE follow_requests (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    follower TEXT NOT NULL REFERENCES users (id),
    followee TEXT NOT NULL REFERENCES users (id),
    at       INTEGER NOT NULL,
    shown_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX follow_requests_edge ON follow_requests (followee, follower);
-- The two lists. An index ends with the rowid, so each is in the order of `seq` for each user.
CREATE INDEX follow_requests_to ON follow_requests (followee);
CREATE INDEX follow_requests_by ON follow_requests (follower);

-- The last rejection of each pair. It delays the next request.
CREATE TABLE follow_rejections (
    followee TEXT NOT NULL REFERENCES users (id),
    follower TEXT NOT NULL REFERENCES users (id),
    at       INTEGER NOT NULL,
    PRIMARY KEY (followee, follower)
) WITHOUT ROWID;
CREATE INDEX follow_rejections_by ON follow_rejections (follower);

-- Filters: words that a user does not want to read.
CREATE TABLE filters (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    owner      TEXT NOT NULL REFERENCES users (id),
    -- A JSON array of words and phrases.
    words      TEXT NOT NULL,
    action     TEXT NOT NULL CHECK (action IN ('hide', 'warn')),
    -- A JSON array of the names of places: see FilterContext.
    contexts   TEXT NOT NULL,
    -- Whether words match as a whole only.
    whole_word INTEGER NOT NULL,
    -- When the filter ends by itself; NULL: never.
    until      INTEGER,
    created_at INTEGER NOT NULL,
    -- The id that an idempotency key has reserved for it; NULL: none.
    reserved   INTEGER UNIQUE
);
-- The filters of a user, oldest first.
CREATE INDEX filters_owner ON filters (owner, id);

-- Lists: users and topics that a user gathers, to read their posts together.
CREATE TABLE lists (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    owner      TEXT NOT NULL REFERENCES users (id),
    name       TEXT NOT NULL,
    -- Whether the posts and reposts of its users are left out of the timeline of the owner.
    exclusive  INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    -- The id that an idempotency key has reserved for it; NULL: none.
    reserved   INTEGER UNIQUE
);
-- The lists of a user, oldest first.
CREATE INDEX lists_owner ON lists (owner, id);

CREATE TABLE list_users (
    list   INTEGER NOT NULL REFERENCES lists (id),
    member TEXT NOT NULL REFERENCES users (id),
    at     INTEGER NOT NULL,
    PRIMARY KEY (list, member)
) WITHOUT ROWID;
-- The users of a list, latest first.
CREATE INDEX list_users_added ON list_users (list, at, member);
-- Removes an erased user from all lists.
CREATE INDEX list_users_member ON list_users (member, list);

CREATE TABLE list_topics (
    list  INTEGER NOT NULL REFERENCES lists (id),
    topic TEXT NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (list, topic)
) WITHOUT ROWID;
-- Whether any list has a topic.
CREATE INDEX list_topics_topic ON list_topics (topic);

-- The topics that users follow.
CREATE TABLE topic_follows (
    follower TEXT NOT NULL REFERENCES users (id),
    topic    TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (follower, topic)
) WITHOUT ROWID;
-- Whether anybody follows a topic.
CREATE INDEX topic_follows_topic ON topic_follows (topic);

-- Reposts, one for each user and post.
CREATE TABLE reposts (
    post   INTEGER NOT NULL,
    author TEXT NOT NULL,
    -- The post that is the repost. Its author is `author`.
    repost INTEGER NOT NULL,
    PRIMARY KEY (post, author)
) WITHOUT ROWID;
-- The newest reposts of a post.
CREATE UNIQUE INDEX reposts_newest ON reposts (post, repost);
CREATE UNIQUE INDEX reposts_one ON reposts (repost);

-- Quotes.
CREATE TABLE quotes (
    -- The post that quotes another one, and its author.
    quote       INTEGER PRIMARY KEY,
    author      TEXT NOT NULL,
    -- The quoted post, and its author.
    post        INTEGER NOT NULL,
    post_author TEXT NOT NULL,
    -- Whether the author of the quoted post detached it, for ever.
    detached    INTEGER NOT NULL DEFAULT 0
);
-- The newest quotes of a post.
CREATE INDEX quotes_newest ON quotes (post, quote);
-- A user's quotes of another one's posts.
CREATE INDEX quotes_between ON quotes (post_author, author) WHERE NOT detached;

-- What the rows of removed comments lack: the row in `comments` is that of a deleted comment, and stays until the
-- comment is restored.
CREATE TABLE removed_comments (
    comment  INTEGER PRIMARY KEY,
    post     INTEGER NOT NULL,
    author   TEXT NOT NULL REFERENCES users (id),
    text     TEXT,
    -- A JSON array of user ids; NULL: none.
    mentions TEXT,
    reason   TEXT,
    at       INTEGER NOT NULL
);
CREATE INDEX removed_comments_author ON removed_comments (author, comment);
CREATE INDEX removed_comments_post ON removed_comments (post, comment);

-- Reports of users, posts and comments.
CREATE TABLE reports (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    reporter  TEXT NOT NULL REFERENCES users (id),
    kind      TEXT NOT NULL CHECK (kind IN ('user', 'post', 'comment')),
    -- The id of the reported object.
    object    TEXT NOT NULL,
    -- The user who is reported: of a post or a comment, its author.
    about     TEXT NOT NULL REFERENCES users (id),
    reason    TEXT NOT NULL,
    text      TEXT,
    at        INTEGER NOT NULL,
    -- NULL: the report is open.
    closed_at INTEGER,
    action    TEXT
);
-- One open report of a reporter about an object.
CREATE UNIQUE INDEX reports_one ON reports (reporter, kind, object) WHERE closed_at IS NULL;
CREATE INDEX reports_open ON reports (id) WHERE closed_at IS NULL;
CREATE INDEX reports_closed ON reports (id) WHERE closed_at IS NOT NULL;
-- For exports and erasures.
CREATE INDEX reports_reporter ON reports (reporter, id);
CREATE INDEX reports_about ON reports (about, id);

-- What groups of the application say: the last one of each. Removed with the last group of its user and object.
CREATE TABLE app_notifications (
    user    TEXT NOT NULL,
    -- As in `notifications`.
    object  TEXT NOT NULL,
    -- JSON.
    content TEXT NOT NULL,
    PRIMARY KEY (user, object)
) WITHOUT ROWID;

-- The entries for the followers of a topic after a mark.
CREATE TABLE pulled_topics (
    topic TEXT NOT NULL,
    mark  INTEGER NOT NULL,
    PRIMARY KEY (topic, mark)
) WITHOUT ROWID;
