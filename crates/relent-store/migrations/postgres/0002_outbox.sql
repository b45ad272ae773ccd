-- For users' own transactions: a task that is stored with whatever else they store, or not at all.

-- A task's id as the API writes it.
CREATE FUNCTION relent.task_name(id bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT
SET search_path = pg_catalog AS $$
    SELECT 'tsk_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz',
        ((id >> (5 * place)) & 31)::int + 1, 1), '' ORDER BY place DESC)
    FROM generate_series(0, 12) AS place
$$;

-- Stores a task and returns its id. Nothing is sent before the transaction is committed, and nothing
-- ever if it is not. With a key that is there already, the id of the task that has it; other content
-- under the same key is an error. A task stored here is never taken for one that was sent to the
-- API under the same key: that is refused there.
--
-- Other transactions that store the same key, or are the first with the same dependency, wait for
-- this one to end: keep it short.
CREATE FUNCTION relent.enqueue(
    target_url text,
    policy_id text,
    body jsonb DEFAULT NULL,
    body_bytes bytea DEFAULT NULL,        -- instead of body
    method text DEFAULT 'POST',
    headers jsonb DEFAULT '{}',           -- {"name": "value", …}
    idempotency_key text DEFAULT NULL,
    dependency text DEFAULT NULL,         -- the URL's scheme, host and port
    delay interval DEFAULT '0',
    correlation_id text DEFAULT NULL,
    tenant text DEFAULT 'default'
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    now_at bigint := relent.now_nanos();
    due bigint := now_at + (greatest(extract(epoch FROM delay), 0) * 1000000)::bigint * 1000;
    new_id bigint := (greatest(now_at / 1000000 - 1767225600000, 0) << 22)
        | (nextval('relent.task_numbers') & 4194303);
    policy relent.policies%ROWTYPE;
    lane bigint;
    sent bytea := coalesce(body_bytes, convert_to(body::text, 'UTF8'), '');
    sent_headers text;
    lifetime bigint;
    hash bytea;
    print bytea;
    old record;
BEGIN
    IF target_url IS NULL OR target_url !~ '^https?://[^/?#@[:space:]]+([/?#][^[:space:]]*)?$' THEN
        RAISE EXCEPTION 'target_url must be an http or https URL without credentials, got %', target_url
            USING ERRCODE = '22023';
    END IF;
    IF idempotency_key IS NOT NULL AND idempotency_key !~ '^[A-Za-z0-9_.:-]{1,64}$' THEN
        RAISE EXCEPTION 'idempotency_key must be 1 to 64 characters of A-Z a-z 0-9 _ - . :, got %', idempotency_key
            USING ERRCODE = '22023';
    END IF;
    IF method IS NULL OR method !~ '^[A-Z]{1,16}$' THEN
        RAISE EXCEPTION 'method must be in capital letters, got %', method USING ERRCODE = '22023';
    END IF;
    SELECT p.* INTO policy FROM relent.policies p
    WHERE p.tenant IN (enqueue.tenant, 'built-in') AND p.policy_id = enqueue.policy_id
        AND NOT p.deleted
    ORDER BY (p.tenant = enqueue.tenant) DESC, p.version DESC LIMIT 1;
    lifetime := (policy.document::json ->> 'totalBudgetMs')::bigint * 1000000;
    IF lifetime IS NULL THEN
        RAISE EXCEPTION 'policy_id must be one of the policies, got %', policy_id
            USING ERRCODE = '22023';
    END IF;

    IF body IS NOT NULL AND NOT EXISTS (
        SELECT FROM jsonb_object_keys(headers) AS name WHERE lower(name) = 'content-type')
    THEN
        headers := headers || '{"content-type": "application/json"}';
    END IF;
    SELECT coalesce(jsonb_agg(jsonb_build_array(lower(h.key), h.value) ORDER BY lower(h.key)), '[]')::text
    INTO sent_headers FROM jsonb_each_text(headers) AS h;

    dependency := coalesce(dependency, regexp_replace(
        lower(substring(target_url FROM '^https?://[^/?#]+')), '^(http)(://.*):80$|^(https)(://.*):443$', '\1\2\3\4'));
    SELECT l.id INTO lane FROM relent.lanes l
    WHERE l.tenant = enqueue.tenant AND l.dependency = enqueue.dependency;
    IF lane IS NULL THEN
        INSERT INTO relent.lanes AS l (tenant, dependency, policy)
        VALUES (enqueue.tenant, enqueue.dependency, policy.key)
        ON CONFLICT ON CONSTRAINT lanes_tenant_dependency_key DO NOTHING RETURNING l.id INTO lane;
    END IF;
    IF lane IS NULL THEN
        SELECT l.id INTO STRICT lane FROM relent.lanes l
        WHERE l.tenant = enqueue.tenant AND l.dependency = enqueue.dependency;
    END IF;

    hash := substr(sha256(convert_to(tenant, 'UTF8') || '\x00'
        || convert_to(idempotency_key, 'UTF8')), 1, 16);
    print := substr(sha256(convert_to(jsonb_build_array('sql', target_url, policy.policy_id, method,
        sent_headers, dependency)::text, 'UTF8') || sent), 1, 16);
    INSERT INTO relent.payloads AS y (id, key_hash, idempotency_key, fingerprint, method, url,
        headers, correlation_id, body)
    VALUES (new_id, hash, enqueue.idempotency_key, print, enqueue.method, target_url, sent_headers,
        enqueue.correlation_id, sent)
    ON CONFLICT (key_hash) WHERE key_hash IS NOT NULL DO NOTHING;
    IF NOT FOUND THEN
        SELECT y.id, y.fingerprint INTO STRICT old FROM relent.payloads y WHERE y.key_hash = hash;
        IF old.fingerprint <> print THEN
            RAISE EXCEPTION 'idempotency_key % belongs to another request', idempotency_key
                USING ERRCODE = '23505';
        END IF;
        RETURN relent.task_name(old.id);
    END IF;
    INSERT INTO relent.tasks (id, line, due_at, deadline_at, started_at, policy, token, attempts,
        generation, state, waiting, repeatable, cancel_requested)
    VALUES (new_id, lane * 2, due, due + lifetime, due, policy.key, 0, 0, 0, 0, 0,
        CASE WHEN method IN ('GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE') THEN 1
            WHEN idempotency_key IS NOT NULL THEN 2 ELSE 0 END, false);
    -- Heard when the transaction is committed. Nobody is node 0.
    PERFORM pg_notify(split_part('relent.tasks', '.', 1) || '_due', '0 ' || lane * 2 || '@' || due);
    RETURN relent.task_name(new_id);
END $$;

REVOKE ALL ON FUNCTION relent.enqueue FROM PUBLIC;

-- Where tasks stand, without what they send.
CREATE VIEW relent.task_status AS
SELECT relent.task_name(t.id) AS task_id,
    l.tenant,
    l.dependency,
    p.policy_id,
    y.idempotency_key,
    y.correlation_id,
    y.method,
    y.url AS target_url,
    (ARRAY['PENDING', 'IN_FLIGHT', 'SUCCEEDED', 'EXHAUSTED', 'CANCELLED', 'IN_FLIGHT'])[t.state + 1] AS status,
    t.attempts AS attempt_number,
    t.last_status,
    t.because,
    to_timestamp((t.id >> 22) / 1000.0 + 1767225600) AS created_at,
    CASE WHEN t.state = 0 THEN to_timestamp(t.due_at / 1e9) END AS next_attempt_at,
    to_timestamp(t.deadline_at / 1e9) AS deadline_at,
    to_timestamp(t.ended_at / 1e9) AS ended_at
FROM relent.tasks t
JOIN relent.payloads y ON y.id = t.id
JOIN relent.lanes l ON l.id = t.line >> 1
JOIN relent.policies p ON p.key = t.policy;
