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
    -- The session that registered it: the id of its token, the generation of the account's sessions, the time of issue
    -- in Unix seconds. The device is removed when the session ends.
    session       TEXT,
    generation    INTEGER,
    issued_at     INTEGER NOT NULL,
    PRIMARY KEY (user, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX devices_address ON devices (address);
CREATE INDEX devices_session ON devices (session) WHERE session IS NOT NULL;

-- The pushes that users want, as JSON. Users without a row have the defaults.
CREATE TABLE push_preferences (
    user        TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    preferences TEXT NOT NULL
) WITHOUT ROWID;
