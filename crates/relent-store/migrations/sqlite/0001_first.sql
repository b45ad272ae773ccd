-- Times are nanoseconds since the Unix epoch. Every id out of one sequence that grows with time, so
-- that each table is written at its end.

-- The row that claims and records rewrite. Columns that are filled later have a value of the same
-- size from the start (see src/sqlite/enqueue.rs), so that a page filled by inserts is not split by
-- the first claim.
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    state INTEGER NOT NULL,          -- 0 pending, 1 in flight, 2 succeeded, 3 exhausted, 4 cancelled, 5 held without an attempt
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    shelf INTEGER NOT NULL,          -- see src/sqlite/due.rs
    policy INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    waiting INTEGER NOT NULL,        -- 0 scheduled, 1 backoff, 2 retry_after
    repeatable INTEGER NOT NULL,     -- 0 no, 1 by_method, 2 by_key, 3 declared
    cancel_requested INTEGER NOT NULL,
    token INTEGER NOT NULL,          -- of the present lease; means nothing unless in flight or held
    since INTEGER NOT NULL,          -- since when it is in this state: in flight, when it was claimed; ended, when
    last_status INTEGER,
    last_attempt INTEGER NOT NULL,   -- its last row in attempts; its own id if there is none
    because TEXT,
    key_hash BLOB,                   -- 16 bytes of SHA-256 over tenant and key
    history TEXT                     -- JSON, once a retry was decided
) STRICT;

CREATE INDEX tasks_by_shelf ON tasks (shelf);

-- What is sent: written once. The body comes last, so that nothing behind it has to be looked for
-- on its overflow pages.
CREATE TABLE payloads (
    id INTEGER PRIMARY KEY,
    method TEXT NOT NULL,
    url TEXT NOT NULL,
    headers TEXT NOT NULL,           -- JSON: [["name", "value"], …]
    idempotency_key TEXT,
    fingerprint BLOB NOT NULL,
    correlation_id TEXT,
    body BLOB NOT NULL
) STRICT;

-- A task's rows are a chain from tasks.last_attempt backwards.
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    previous INTEGER NOT NULL,       -- the row before; the task's id if this is the first
    generation INTEGER NOT NULL,
    number INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    took INTEGER NOT NULL,
    status INTEGER,
    failure TEXT,
    ended INTEGER NOT NULL,          -- 0 done, 1 retry_at, 2 gave_up
    next_at INTEGER,
    waiting INTEGER,
    because TEXT,
    roll INTEGER NOT NULL,
    dns INTEGER,
    connect INTEGER,
    tls INTEGER,
    first_byte INTEGER,
    preview BLOB
) STRICT;

-- Keys of tasks that are not in memory any more; see src/sqlite/keys.rs.
CREATE TABLE keys (
    hash BLOB PRIMARY KEY,
    task INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    key INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    policy_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    document TEXT NOT NULL,
    lease INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    UNIQUE (tenant, policy_id, version)
) STRICT;

CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    dependency TEXT NOT NULL,
    policy INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    in_flight_max INTEGER,
    retries_in_flight_max INTEGER,
    rate_per_second INTEGER,
    budget TEXT,
    breaker TEXT,
    UNIQUE (tenant, dependency)
) STRICT;

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
