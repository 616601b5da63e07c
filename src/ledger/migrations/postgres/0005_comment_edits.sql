-- When a comment was last edited, in Unix milliseconds; NULL: never. Grows with each edit.
ALTER TABLE comments ADD COLUMN edited_at bigint;
