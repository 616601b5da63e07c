-- Erased users. The row in `users` stays as a tombstone: nobody else can take the id. Times are Unix milliseconds.
ALTER TABLE users ADD COLUMN erased_at INTEGER;

-- Erasures under way. The rows of the user that are left say how far one is, so a node that takes one over needs nothing else.
CREATE TABLE erasures (
    user        TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    at          INTEGER NOT NULL,
    holder      TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    -- When the user was first found to have nothing left. NULL: something was found since.
    quiet_since INTEGER
) WITHOUT ROWID;
CREATE INDEX erasures_due ON erasures (lease_until);

CREATE INDEX posts_deleted ON posts (author, id) WHERE deleted_at IS NOT NULL;
CREATE INDEX notification_people_person ON notification_people (person, notification);
