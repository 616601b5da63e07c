-- When a push was first sent without being accepted; 0 before. The age at which it is given up counts from it.
ALTER TABLE push_queue ADD COLUMN first_tried_at bigint NOT NULL DEFAULT 0;
