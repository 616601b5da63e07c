-- Entries are kept in order for their owner: a user, or `#` and a channel. PostgreSQL had this name before.
ALTER TABLE outlet RENAME COLUMN user TO owner;
ALTER TABLE outlet_held RENAME COLUMN user TO owner;
DROP INDEX outlet_held_user;
CREATE INDEX outlet_held_owner ON outlet_held (consumer, owner, position) WHERE failed_at IS NULL;
