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
    -- The session that registered it: the id of its token, the generation of the account's sessions, the time of issue
    -- in Unix seconds. The device is removed when the session ends.
    session       text COLLATE "C",
    generation    bigint,
    issued_at     bigint NOT NULL,
    PRIMARY KEY (owner, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX devices_address ON devices (address);
CREATE INDEX devices_session ON devices (session) WHERE session IS NOT NULL;

-- The pushes that users want, as JSON. Users without a row have the defaults.
CREATE TABLE push_preferences (
    owner       text COLLATE "C" PRIMARY KEY,
    preferences text NOT NULL
) WITH (fillfactor = 80);
