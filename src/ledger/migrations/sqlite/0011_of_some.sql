-- What an author wrote that is not for everyone, by whom it is for (`followers`, `friends`, `{"only_to`, `{"not_to"`): a
-- profile counts what its reader may see. An index, so that it is right whoever writes: a process that is older knows
-- nothing of it.
CREATE INDEX posts_of_some ON posts (author, substr(coalesce(body ->> '$.visibility', 'public'), 1, 9))
WHERE coalesce(body ->> '$.visibility', 'public') <> 'public';
