-- Breakers are changed by comparing and swapping, in every store.
ALTER TABLE lanes ADD COLUMN breaker_revision INTEGER NOT NULL DEFAULT 0;
