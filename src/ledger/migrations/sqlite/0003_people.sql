-- What people are found by, and whose posts one wants to be told of.

-- Ids and names in lower case (`fold` is Feedline's own function: SQLite's `lower` knows ASCII only).
CREATE TABLE user_terms (
    term TEXT NOT NULL,
    user TEXT NOT NULL REFERENCES users (id),
    PRIMARY KEY (term, user)
) WITHOUT ROWID;
CREATE INDEX user_terms_user ON user_terms (user, term);
INSERT INTO user_terms (term, user) SELECT fold(id), id FROM users;
INSERT INTO user_terms (term, user) SELECT fold(name), id FROM users WHERE true ON CONFLICT DO NOTHING;

CREATE TABLE post_notices (
    user   TEXT NOT NULL REFERENCES users (id),
    author TEXT NOT NULL REFERENCES users (id),
    at     INTEGER NOT NULL,
    PRIMARY KEY (user, author)
) WITHOUT ROWID;
-- For those who tell: whom to, in ascending order.
CREATE INDEX post_notices_author ON post_notices (author, user);
