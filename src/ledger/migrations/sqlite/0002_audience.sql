-- What stands between two people. `maker` hides their posts from `whom`, does not look at theirs (mute), or both (block).
CREATE TABLE barriers (
    maker TEXT NOT NULL REFERENCES users (id),
    whom  TEXT NOT NULL REFERENCES users (id),
    kind  TEXT NOT NULL CHECK (kind IN ('hide', 'mute', 'block')),
    at    INTEGER NOT NULL,
    PRIMARY KEY (maker, kind, whom)
) WITHOUT ROWID;
CREATE INDEX barriers_whom ON barriers (whom, kind, maker);
