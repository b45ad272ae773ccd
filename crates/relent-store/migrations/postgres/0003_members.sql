-- The nodes that are there, and since when what they tell each other has been true.

CREATE TABLE relent.members (
    node integer PRIMARY KEY,
    works boolean NOT NULL,
    seen_at bigint NOT NULL
);

ALTER TABLE relent.lanes ADD COLUMN breaker_revision bigint NOT NULL DEFAULT 0;
ALTER TABLE relent.lanes ADD COLUMN changed_at bigint NOT NULL DEFAULT 0;
ALTER TABLE relent.lanes ALTER COLUMN changed_at SET DEFAULT relent.now_nanos();
CREATE INDEX lanes_by_change ON relent.lanes (changed_at);

ALTER TABLE relent.policies ADD COLUMN changed_at bigint NOT NULL DEFAULT 0;
ALTER TABLE relent.policies ALTER COLUMN changed_at SET DEFAULT relent.now_nanos();
CREATE INDEX policies_by_change ON relent.policies (changed_at);
