-- What happened, for those who work it off later. An event is written in the transaction of what happened, and goes once every
-- consumer has dealt with it. Times are Unix milliseconds.
CREATE TABLE events (
    -- Never given twice: notifications remember up to which event they are.
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    -- JSON.
    event   TEXT NOT NULL,
    -- A bit for each consumer that has not dealt with it yet.
    pending INTEGER NOT NULL,
    -- Why a consumer gave up on it.
    failure TEXT
);
CREATE INDEX events_pending ON events (seq) WHERE pending <> 0;
CREATE INDEX events_failed ON events (seq) WHERE failure IS NOT NULL;

-- The one process that works for a consumer, and until when, by this file's clock.
CREATE TABLE event_leases (
    consumer TEXT PRIMARY KEY NOT NULL,
    holder   TEXT NOT NULL,
    until    INTEGER NOT NULL
) WITHOUT ROWID;

-- The last event of this person in the group; 0 of what came otherwise. An event that is worked off again changes nothing.
ALTER TABLE notification_people ADD COLUMN event INTEGER NOT NULL DEFAULT 0;
