-- Removes a client from a channel.
-- ARGV: (see the prelude), client
remove(ARGV[2])
