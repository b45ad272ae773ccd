-- Times are nanoseconds since the Unix epoch. `relent.` stands for the schema that is configured.

CREATE SEQUENCE relent.task_numbers;
CREATE SEQUENCE relent.tokens;
CREATE SEQUENCE relent.nodes AS integer CYCLE;

-- The time that due times and leases are read by: the same for every node.
CREATE FUNCTION relent.now_nanos() RETURNS bigint LANGUAGE sql VOLATILE AS
    $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 $$;

-- Undoes the statement that calls it.
CREATE FUNCTION relent.refuse() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
    $$ BEGIN RAISE EXCEPTION 'a key was taken meanwhile' USING ERRCODE = 'RL001'; END $$;

CREATE TABLE relent.policies (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    policy_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    document text NOT NULL,
    lease bigint NOT NULL,
    created_at bigint NOT NULL,
    deleted boolean NOT NULL DEFAULT false,
    UNIQUE (tenant, policy_id, version)
);

CREATE TABLE relent.lanes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    dependency text NOT NULL,
    policy bigint NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    in_flight_max bigint,
    retries_in_flight_max bigint,
    rate_per_second bigint,
    budget text,
    breaker text,
    UNIQUE (tenant, dependency)
);

-- What is sent: written once, so that what claims and records rewrite stays narrow.
CREATE TABLE relent.payloads (
    id bigint PRIMARY KEY,
    key_hash bytea,                  -- 16 bytes of SHA-256 over tenant and key
    idempotency_key text,
    fingerprint bytea NOT NULL,
    method text NOT NULL,
    url text NOT NULL,
    headers text NOT NULL,           -- JSON: [["name", "value"], …]
    correlation_id text,
    body bytea NOT NULL
);

CREATE UNIQUE INDEX payloads_by_key ON relent.payloads (key_hash) WHERE key_hash IS NOT NULL;

-- The row that claims and records rewrite. Every index but the first is partial: a row is in those
-- of its state only.
CREATE TABLE relent.tasks (
    id bigint PRIMARY KEY,           -- milliseconds since 2026 and 22 bits of relent.task_numbers
    line bigint NOT NULL,            -- twice the lane's id, and one more for retries
    due_at bigint NOT NULL,
    deadline_at bigint NOT NULL,
    started_at bigint NOT NULL,
    policy bigint NOT NULL,
    token bigint NOT NULL,           -- of the last lease
    lease_until bigint,              -- NULL: nobody holds it
    claimed_at bigint,               -- since when it is in flight
    ended_at bigint,
    node integer,                    -- who holds it, or did
    attempts integer NOT NULL,
    generation integer NOT NULL,
    last_status integer,
    state smallint NOT NULL,         -- 0 pending, 1 in flight, 2 succeeded, 3 exhausted, 4 cancelled, 5 held without an attempt
    waiting smallint NOT NULL,       -- 0 scheduled, 1 backoff, 2 retry_after
    repeatable smallint NOT NULL,    -- 0 no, 1 by_method, 2 by_key, 3 declared
    cancel_requested boolean NOT NULL,
    because text,
    history text                     -- JSON, once a retry was decided
);

CREATE INDEX tasks_waiting ON relent.tasks (line, due_at, id) WHERE state = 0;
CREATE INDEX tasks_by_deadline ON relent.tasks (deadline_at, id) WHERE state = 0;
CREATE INDEX tasks_by_lease ON relent.tasks (lease_until, id) WHERE lease_until IS NOT NULL;
CREATE INDEX tasks_by_end ON relent.tasks (state, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tasks_dead ON relent.tasks (id) WHERE state = 3;

-- A task's row is dead three times in its life. The usual setting, a fifth of the table, would let
-- claims read past millions of dead entries first.
ALTER TABLE relent.tasks SET (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 1000
);

-- By day, so that what is old is dropped and not deleted. Days are made ahead of time; what belongs
-- to none of them is in the last partition, and is deleted row by row.
CREATE TABLE relent.attempts (
    task bigint NOT NULL,
    started_at bigint NOT NULL,
    took bigint NOT NULL,
    roll bigint NOT NULL,
    next_at bigint,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    generation integer NOT NULL,
    number integer NOT NULL,
    status integer,
    ended smallint NOT NULL,         -- 0 done, 1 retry_at, 2 gave_up
    waiting smallint,
    failure text,
    because text,
    preview bytea
) PARTITION BY RANGE (started_at);

CREATE INDEX attempts_of_task ON relent.attempts (task);
CREATE TABLE relent.attempts_other PARTITION OF relent.attempts DEFAULT;
