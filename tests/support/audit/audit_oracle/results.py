"""Results in SQL, from facts. The tables price, objective and mirror are the settings."""

from typing import Final

TRAFFIC: Final = """
    WITH
    dimensions AS (
        SELECT *, unnest([
            {'dimension': 'cluster', 'name': ''},
            {'dimension': 'listener', 'name': listener},
            {'dimension': 'principal', 'name': principal},
            {'dimension': 'client_id', 'name': coalesce(client_id, '(none)')},
            {'dimension': 'address_group', 'name': address_group},
            {'dimension': 'software', 'name': coalesce(software(software_name, software_version), '(none)')},
            {'dimension': 'api', 'name': api}
        ], recursive := true)
        FROM usage
    )
    SELECT event_date, window_start, cluster_id, dimension, name, is_follower,
        coalesce(sum(requests) FILTER (topic IS NULL), 0) AS requests,
        coalesce(sum(errors) FILTER (topic IS NULL), 0) AS errors,
        coalesce(sum(in_bytes) FILTER (topic IS NULL), 0) AS request_bytes,
        coalesce(sum(out_bytes) FILTER (topic IS NULL), 0) AS response_bytes,
        coalesce(sum(in_bytes) FILTER (topic IS NOT NULL), 0) AS produced_bytes,
        coalesce(sum(out_bytes) FILTER (topic IS NOT NULL), 0) AS fetched_bytes,
        coalesce(sum(records) FILTER (topic IS NOT NULL AND api = 'Produce'), 0) AS records
    FROM dimensions GROUP BY event_date, window_start, cluster_id, dimension, name, is_follower
    UNION ALL
    SELECT event_date, window_start, cluster_id, 'topic', topic, is_follower,
        sum(requests), sum(errors), 0, 0, sum(in_bytes), sum(out_bytes),
        coalesce(sum(records) FILTER (api = 'Produce'), 0)
    FROM usage WHERE topic IS NOT NULL GROUP BY event_date, window_start, cluster_id, topic, is_follower
"""

# Of each error of a client, rows of requests count only without rows of topics.
FAILURES: Final = """
    WITH
    failed AS (
        SELECT event_date, window_start, cluster_id, api, principal, client_id, is_follower, topic,
            nullif(error_code, 0) AS error_code,
            CASE WHEN error_code <> 0 THEN coalesce(n.name, 'error ' || error_code)
                WHEN ending <> 'answered' THEN ending ELSE '(unknown)' END AS error,
            errors
        FROM usage u LEFT JOIN error_name n USING (error_code) WHERE errors > 0
    ),
    counted AS (
        SELECT * FROM failed f
        WHERE topic IS NOT NULL OR NOT EXISTS (
            FROM failed t WHERE t.topic IS NOT NULL AND t.window_start = f.window_start AND t.cluster_id = f.cluster_id
                AND t.api = f.api AND t.error = f.error AND t.principal = f.principal
                AND t.client_id IS NOT DISTINCT FROM f.client_id AND t.is_follower = f.is_follower
        )
    )
    SELECT event_date, window_start, cluster_id, api, error, error_code, principal, client_id, topic, is_follower,
        (api, error) IN (SELECT (api, error) FROM expected_error) AS is_expected, sum(errors) AS failures
    FROM counted GROUP BY ALL
"""

# For each group, the smallest bucket such that it and the smaller ones have at least so many percent of the requests.
LATENCY: Final = """
    WITH
    rows_of_all AS (
        SELECT event_date, window_start, cluster_id, api, principal, client_id, topic,
            unnest(map_entries(latency)) AS entry
        FROM latency_hist
    ),
    chosen AS (
        SELECT *, 'api' AS dimension, '' AS name FROM rows_of_all WHERE topic IS NULL
        UNION ALL SELECT *, 'principal', principal FROM rows_of_all WHERE topic IS NULL
        UNION ALL SELECT *, 'topic', topic FROM rows_of_all WHERE topic IS NOT NULL
    ),
    buckets AS (
        SELECT event_date, window_start, cluster_id, api, dimension, name, entry.key AS bucket,
            sum(entry.value) AS requests
        FROM chosen GROUP BY ALL
    ),
    running AS (
        SELECT *,
            sum(requests) OVER (PARTITION BY event_date, window_start, cluster_id, api, dimension, name
                ORDER BY bucket) AS below,
            sum(requests) OVER (PARTITION BY event_date, window_start, cluster_id, api, dimension, name) AS total
        FROM buckets
    )
    SELECT event_date, window_start, cluster_id, api, dimension, name, sum(requests) AS requests,
        round(pow(1.04, min(bucket) FILTER (below * 100 >= total * 50))) AS p50_us,
        round(pow(1.04, min(bucket) FILTER (below * 100 >= total * 95))) AS p95_us,
        round(pow(1.04, min(bucket) FILTER (below * 100 >= total * 99))) AS p99_us
    FROM running GROUP BY event_date, window_start, cluster_id, api, dimension, name
"""

OBJECTIVES: Final = """
    WITH sums AS (
        SELECT r.event_date, r.cluster_id, o.name AS objective, o.target, sum(r.requests) AS requests,
            sum(r.errors) AS errors,
            coalesce(sum(list_sum([
                e.value FOR e IN map_entries(r.latency) IF e.key <= floor(ln(o.latency_ms * 1000) / ln(1.04))
            ])), 0) AS in_time
        FROM latency_hist r JOIN objective o
            ON r.api = o.api
            AND r.topic IS NOT DISTINCT FROM o.topic
            AND (o.cluster_id IS NULL OR r.cluster_id = o.cluster_id)
            AND (o.principal IS NULL OR r.principal = o.principal)
        GROUP BY r.event_date, r.cluster_id, o.name, o.target
    )
    SELECT event_date, cluster_id, objective, requests, least(in_time, requests - errors) AS good,
        requests - least(in_time, requests - errors) AS bad, target,
        bad::DOUBLE / (requests::DOUBLE * (1 - target)) AS burn
    FROM sums WHERE requests > 0
"""

COST: Final = """
    WITH
    of_clients AS (
        SELECT event_date, cluster_id, topic, principal, client_id, sum(in_bytes) AS produced,
            sum(out_bytes) AS fetched, sum(requests) AS requests
        FROM usage WHERE NOT is_follower GROUP BY event_date, cluster_id, topic, principal, client_id
    ),
    causes AS (
        SELECT event_date, cluster_id, topic, 'principal' AS dimension, nullif(principal, '(unknown)') AS name,
            sum(produced) AS produced, sum(fetched) AS fetched, sum(requests) AS requests
        FROM of_clients GROUP BY ALL
        UNION ALL
        SELECT event_date, cluster_id, topic, 'client_id',
            CASE WHEN principal <> '(unknown)' THEN coalesce(client_id, '(none)') END AS name,
            sum(produced), sum(fetched), sum(requests)
        FROM of_clients GROUP BY ALL
    ),
    of_topics AS (
        SELECT event_date, cluster_id, topic, sum(produced) AS produced, sum(fetched) AS fetched,
            sum(requests) AS requests
        FROM of_clients GROUP BY ALL
    ),
    used AS (
        SELECT event_date, cluster_id, dimension, name, 'ingress' AS resource, sum(produced) AS quantity
            FROM causes WHERE topic IS NOT NULL GROUP BY ALL
        UNION ALL SELECT event_date, cluster_id, dimension, name, 'egress', sum(fetched)
            FROM causes WHERE topic IS NOT NULL GROUP BY ALL
        UNION ALL SELECT event_date, cluster_id, dimension, name, 'requests', sum(requests)
            FROM causes WHERE topic IS NULL GROUP BY ALL
        UNION ALL SELECT event_date, cluster_id, 'topic', topic, 'ingress', produced
            FROM of_topics WHERE topic IS NOT NULL
        UNION ALL SELECT event_date, cluster_id, 'topic', topic, 'egress', fetched
            FROM of_topics WHERE topic IS NOT NULL
        UNION ALL SELECT event_date, cluster_id, 'topic', NULL, 'requests', requests
            FROM of_topics WHERE topic IS NULL
    ),
    held AS (
        SELECT event_date, cluster_id, topic, 'storage' AS resource, sum(replica_bytes) AS quantity
            FROM inventory_hours GROUP BY ALL
        UNION ALL SELECT event_date, cluster_id, topic, 'partitions', sum(partitions) FROM inventory_hours GROUP BY ALL
    ),
    producers AS (
        SELECT *, sum(produced) OVER (PARTITION BY event_date, cluster_id, topic, dimension) AS by_all
        FROM causes WHERE topic IS NOT NULL
    ),
    shared AS (
        SELECT event_date, cluster_id, p.dimension, p.name, h.resource,
            h.quantity::HUGEINT * p.produced::HUGEINT // p.by_all::HUGEINT AS quantity
        FROM held h JOIN producers p USING (event_date, cluster_id, topic)
        WHERE p.name IS NOT NULL AND p.by_all > 0
        UNION ALL
        SELECT event_date, cluster_id, 'topic', topic, resource, quantity FROM held
    ),
    left_over AS (
        SELECT event_date, cluster_id, dimension, NULL AS name, resource,
            h.quantity - coalesce(s.quantity, 0) AS quantity
        FROM (
            SELECT event_date, cluster_id, unnest(['principal', 'client_id', 'topic']) AS dimension, resource, quantity
            FROM (SELECT event_date, cluster_id, resource, sum(quantity) AS quantity FROM held GROUP BY ALL)
        ) h
        LEFT JOIN (
            SELECT event_date, cluster_id, dimension, resource, sum(quantity) AS quantity FROM shared GROUP BY ALL
        ) s USING (event_date, cluster_id, dimension, resource)
    ),
    quantities AS (
        SELECT event_date, cluster_id, dimension, name, resource, sum(quantity) AS quantity
        FROM (SELECT * FROM used UNION ALL SELECT * FROM shared UNION ALL SELECT * FROM left_over)
        GROUP BY ALL
    ),
    totals AS (
        SELECT event_date, cluster_id, dimension, resource, sum(quantity)::DOUBLE / units * price AS amount
        FROM quantities JOIN price USING (resource)
        GROUP BY event_date, cluster_id, dimension, resource, units, price
    ),
    days AS (
        SELECT event_date, cluster_id, dimension,
            coalesce(max(amount) FILTER (resource = 'ingress'), 0)
            + coalesce(max(amount) FILTER (resource = 'egress'), 0)
            + coalesce(max(amount) FILTER (resource = 'requests'), 0)
            + coalesce(max(amount) FILTER (resource = 'storage'), 0)
            + coalesce(max(amount) FILTER (resource = 'partitions'), 0) AS amount
        FROM totals GROUP BY event_date, cluster_id, dimension
    )
    SELECT q.event_date, q.cluster_id, q.dimension, q.name, q.resource, q.quantity,
        q.quantity::DOUBLE / p.units * p.price AS amount,
        CASE WHEN d.amount > 0 THEN q.quantity::DOUBLE / p.units * p.price / d.amount END AS share, p.currency
    FROM quantities q LEFT JOIN price p USING (resource) LEFT JOIN days d USING (event_date, cluster_id, dimension)
    WHERE q.quantity <> 0
"""

# Tables of files:
# - file: every file.
# - footer: every file with a readable footer.
# - told: the rows of each table that a footer counts, and the name that their file would have.
# - set_aside, deleted.
HOLES: Final = """
    WITH
    before AS (
        SELECT f.*, greatest(
            coalesce(d.seq, 0),
            coalesce(max(f.last_seq) OVER (
                PARTITION BY cluster_id, broker_id, boot_id ORDER BY f.first_seq, f.last_seq
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0)
        ) AS through
        FROM footer f LEFT JOIN deleted d USING (cluster_id, broker_id, boot_id)
    ),
    absent AS (
        SELECT DISTINCT cluster_id, broker_id, boot_id, low, high, "table", opened_us, rows
        FROM told t ANTI JOIN file USING ("table", name)
        WHERE NOT EXISTS (
            FROM footer f
            WHERE (f.cluster_id, f.broker_id, f.boot_id, f."table") = (t.cluster_id, t.broker_id, t.boot_id, t."table")
                AND f.low <= t.low AND t.high <= f.high
        )
    ),
    last_ones AS (
        SELECT * FROM footer
        QUALIFY row_number() OVER (PARTITION BY cluster_id, broker_id, boot_id ORDER BY last_seq DESC, high DESC) = 1
    ),
    found AS (
        SELECT opened_us AS at_us, cluster_id, broker_id, first_seq - through - 1 AS holes, NULL::BIGINT AS open_since
        FROM before WHERE first_seq > through + 1
        UNION ALL
        SELECT opened_us, cluster_id, broker_id, rows, NULL FROM absent
        UNION ALL
        SELECT closed_us, cluster_id, broker_id, 1, CASE WHEN NOT is_followed THEN closed_us END FROM (
            SELECT l.*, EXISTS (
                FROM footer f WHERE f.cluster_id = l.cluster_id AND f.broker_id = l.broker_id AND f.boot_id > l.boot_id
            ) AS is_followed
            FROM last_ones l
        ) WHERE "end" = 'next' AND (is_followed OR closed_us < (SELECT settled_us FROM clock))
        UNION ALL
        SELECT min(first_told), cluster_id, broker_id, 1, NULL
        FROM registrations ANTI JOIN heard_windows USING (cluster_id, broker_id)
        GROUP BY cluster_id, broker_id HAVING min(first_told) < (SELECT settled_us FROM clock)
    )
    SELECT window_of(at_us) AS window_start, cluster_id, broker_id, sum(holes) AS holes, max(open_since) AS open_since
    FROM found GROUP BY ALL
"""

COVERAGE: Final = """
    SELECT day_of(window_start) AS event_date, window_start, cluster_id, broker_id, h.first_ts, h.last_ts,
        coalesce(h.events, 0) AS events, coalesce(h.gaps, 0) AS gaps, coalesce(h.missing, 0) AS missing,
        coalesce(o.holes, 0) AS holes, o.open_since
    FROM heard_windows h FULL JOIN holes o USING (window_start, cluster_id, broker_id)
"""

QUARANTINE: Final = (
    'SELECT path, reason, event_date, cluster_id, broker_id, "table", rows, NULL AS detail FROM set_aside'
)

COMPLETENESS: Final = """
    WITH
    aside AS (
        SELECT event_date, cluster_id, broker_id, count(*) FILTER (reason = 'duplicate') AS duplicates,
            count(*) FILTER (reason IN ('corrupt', 'version', 'future', 'expired', 'lost')) AS files,
            coalesce(sum(rows) FILTER (reason <> 'duplicate'), 0) AS rows
        FROM quarantine
        WHERE event_date IS NOT NULL AND cluster_id IS NOT NULL AND broker_id IS NOT NULL
        GROUP BY event_date, cluster_id, broker_id
    ),
    days AS (
        SELECT event_date, cluster_id, broker_id, sum(events) AS events, sum(gaps) AS gaps, sum(missing) AS missing,
            sum(holes) AS holes
        FROM coverage GROUP BY ALL
    )
    SELECT event_date, cluster_id, broker_id, coalesce(c.events, 0) AS events, coalesce(c.gaps, 0) AS gaps,
        coalesce(c.missing, 0) AS missing, coalesce(c.holes, 0) AS holes, coalesce(a.duplicates, 0) AS duplicates,
        coalesce(a.files, 0) AS quarantined_files, coalesce(a.rows, 0) AS quarantined_rows,
        coalesce(c.missing, 0) + coalesce(c.holes, 0) + coalesce(a.files, 0) + coalesce(a.rows, 0) = 0 AS is_complete
    FROM days c FULL JOIN aside a USING (event_date, cluster_id, broker_id)
"""

IDLE_TOPICS: Final = """
    WITH
    newest AS (
        SELECT * FROM replicas
        QUALIFY event_date = max(event_date) OVER (PARTITION BY cluster_id, broker_id)
            AND told >= max(told) OVER (PARTITION BY cluster_id) - 7200000000
    ),
    there AS (
        SELECT cluster_id, topic, count(DISTINCT "partition") AS partitions, sum(bytes) AS replica_bytes
        FROM newest GROUP BY cluster_id, topic
    ),
    uses AS (
        SELECT cluster_id, topic, max(last_produced) AS last_produced, max(last_fetched) AS last_fetched
        FROM topic_days GROUP BY ALL
    ),
    covered AS (
        SELECT cluster_id, min(first_ts) AS covered_from, max(last_ts) AS as_of,
            count(DISTINCT event_date) FILTER (events > 0) AS covered_days
        FROM coverage GROUP BY cluster_id
    ),
    incomplete AS (
        SELECT cluster_id, count(DISTINCT event_date) AS days
        FROM completeness
        SEMI JOIN (SELECT event_date, cluster_id FROM coverage WHERE events > 0) USING (event_date, cluster_id)
        WHERE NOT is_complete GROUP BY cluster_id
    )
    SELECT t.cluster_id, t.topic, t.partitions, t.replica_bytes, u.last_produced, u.last_fetched,
        (c.as_of - coalesce(greatest(u.last_produced, u.last_fetched), c.covered_from)) // 3600000000 AS idle_hours,
        c.covered_from, c.as_of, c.covered_days, coalesce(i.days, 0) AS incomplete_days,
        regexp_matches(lower(t.topic), 'dlq|dead-letter|dead_letter|deadletter|retry|error') AS is_spare
    FROM there t JOIN covered c USING (cluster_id)
        LEFT JOIN uses u USING (cluster_id, topic) LEFT JOIN incomplete i USING (cluster_id)
"""

# For each row of storm_bins, the storm that it belongs to.
# Rows of storm_bins with the first second of their episode, and whether they have its rate; -1 stands for no rate.
STORM_ROWS: Final = """
    WITH
    rows AS (SELECT *, coalesce(listener_rate, -1) AS rate FROM storm_bins),
    seconds AS (
        SELECT cluster_id, listener, bin, max_by(rate, (last_ts, rate)) AS last_rate FROM rows GROUP BY ALL
    ),
    former AS (
        SELECT *, lag(bin) OVER w AS former_bin, lag(last_rate) OVER w AS former_rate
        FROM seconds WINDOW w AS (PARTITION BY cluster_id, listener ORDER BY bin)
    ),
    begins AS (
        SELECT *, former_bin IS NULL OR bin - former_bin > 11000000 AS after_calm,
            last_rate <> former_rate AS other_rate
        FROM former
    ),
    pieces AS (
        SELECT *, max(bin) FILTER (after_calm OR other_rate) OVER (PARTITION BY cluster_id, listener ORDER BY bin)
            AS piece
        FROM begins
    ),
    lengths AS (SELECT *, max(bin) OVER (PARTITION BY cluster_id, listener, piece) - piece AS length FROM pieces),
    runs AS (
        SELECT *, max(bin) FILTER (bin = piece AND (after_calm OR length >= 3000000))
            OVER (PARTITION BY cluster_id, listener ORDER BY bin) AS run
        FROM lengths
    ),
    former_runs AS (
        SELECT *, lag(run) OVER (PARTITION BY cluster_id, listener ORDER BY bin) AS former_run FROM runs
    ),
    in_runs AS (
        SELECT r.*, f.last_rate,
            CASE WHEN NOT f.after_calm AND f.other_rate AND r.rate = f.former_rate THEN f.former_run ELSE f.run END
                AS run
        FROM rows r JOIN former_runs f USING (cluster_id, listener, bin)
    ),
    own_rates AS (SELECT cluster_id, listener, run, any_value(last_rate) AS own_rate FROM in_runs WHERE bin = run
        GROUP BY ALL),
    other_values AS (
        SELECT cluster_id, listener, run, bin,
            limit_value <> lag(limit_value) OVER (
                PARTITION BY cluster_id, listener, run, limit_key, limit_entity ORDER BY bin, first_ts
            ) AS is_changed
        FROM in_runs WHERE limit_key IS NOT NULL AND NOT ends_with(limit_key, 'max.connection.creation.rate')
    ),
    changes AS (SELECT DISTINCT cluster_id, listener, run, bin AS since FROM other_values WHERE is_changed)
    SELECT i.* EXCLUDE (run), i.rate = o.own_rate AS is_own,
        coalesce((SELECT max(since) FROM changes c WHERE c.cluster_id = i.cluster_id AND c.listener = i.listener
            AND c.run = i.run AND c.since <= i.bin), i.run) AS episode
    FROM in_runs i JOIN own_rates o USING (cluster_id, listener, run)
"""

STORM_CLIENTS: Final = """
    WITH
    clients AS (
        SELECT cluster_id, listener, episode, client_ip, principal, client_id, software_name, software_version,
            sum(accepted) AS accepted, sum(limited) AS limited, sum(refused) AS refused
        FROM storm_rows GROUP BY ALL
    ),
    placed AS (
        SELECT *, row_number() OVER (
                PARTITION BY cluster_id, listener, episode, client_ip
                ORDER BY accepted DESC, limited + refused DESC, principal, client_id NULLS LAST,
                    software_name NULLS LAST, software_version NULLS LAST
            ) AS place,
            max(accepted) OVER address > 0 AS is_known, sum(limited) OVER address AS all_limited,
            sum(refused) OVER address AS all_refused
        FROM clients WINDOW address AS (PARTITION BY cluster_id, listener, episode, client_ip)
    )
    SELECT * REPLACE (
        CASE WHEN NOT is_known THEN limited WHEN place = 1 THEN all_limited ELSE 0 END AS limited,
        CASE WHEN NOT is_known THEN refused WHEN place = 1 THEN all_refused ELSE 0 END AS refused)
    FROM placed
"""

STORMS: Final = """
    WITH
    by_second AS (
        SELECT cluster_id, listener, episode, bin, sum(accepted) AS accepted, sum(limited) AS limited,
            sum(refused) AS refused, sum(accepted + refused) FILTER (is_own) AS attempts, bool_and(is_own) AS is_whole,
            min(first_ts) AS first_ts, max(last_ts) AS last_ts, max(listener_rate) FILTER (is_own) AS listener_rate
        FROM storm_rows GROUP BY ALL
    ),
    sums AS (
        SELECT cluster_id, listener, episode, min(first_ts) AS started, max(last_ts) AS ended,
            sum(accepted) AS accepted, sum(limited) AS limited, sum(refused) AS refused,
            max(attempts) AS peak_attempts, max(listener_rate) AS listener_rate
        FROM by_second GROUP BY ALL
    ),
    limits AS (
        SELECT cluster_id, listener, episode, limit_quota, limit_key, limit_entity, limit_value,
            min(first_ts) AS first_ts, max(last_ts) AS last_ts
        FROM storm_rows WHERE limit_key IS NOT NULL AND is_own
        GROUP BY cluster_id, listener, episode, limit_quota, limit_key, limit_entity, limit_value
        QUALIFY row_number() OVER (
            PARTITION BY cluster_id, listener, episode
            ORDER BY sum(limited + refused) DESC, limit_key, limit_entity NULLS FIRST, limit_value NULLS FIRST,
                limit_quota NULLS FIRST
        ) = 1
    ),
    admitted AS (
        SELECT cluster_id, listener, episode, max(s.accepted) AS held_accepted
        FROM by_second s JOIN limits l USING (cluster_id, listener, episode)
        WHERE s.is_whole AND s.bin >= l.first_ts AND s.bin + 1000000 <= l.last_ts
        GROUP BY ALL
    ),
    addresses AS (
        SELECT cluster_id, listener, episode, client_ip, sum(accepted + refused) AS attempts
        FROM storm_clients GROUP BY cluster_id, listener, episode, client_ip
        QUALIFY row_number() OVER (
            PARTITION BY cluster_id, listener, episode ORDER BY sum(accepted + refused) DESC, client_ip
        ) = 1
    ),
    clients AS (
        SELECT * FROM storm_clients SEMI JOIN addresses USING (cluster_id, listener, episode, client_ip)
        WHERE place = 1
    ),
    others AS (
        SELECT c.cluster_id, c.listener, c.episode, r.seconds = 1 AND r.bin >= bin_of(s.started) AS is_during,
            r.bucket, r.measured
        FROM clients c JOIN sums s USING (cluster_id, listener, episode) JOIN storm_requests r
            ON r.cluster_id = c.cluster_id AND CASE r.seconds
                WHEN 60 THEN r.bin BETWEEN minute_of(s.started) - 600000000 AND minute_of(s.started) - 1
                ELSE r.bin BETWEEN minute_of(s.started) AND s.ended END
        WHERE r.client_id IS DISTINCT FROM c.client_id OR (c.client_id IS NULL AND r.client_ip <> c.client_ip)
    ),
    buckets AS (
        SELECT cluster_id, listener, episode, is_during, bucket, sum(measured) AS requests
        FROM others GROUP BY ALL
    ),
    running AS (
        SELECT *,
            sum(requests) OVER (PARTITION BY cluster_id, listener, episode, is_during ORDER BY bucket) AS below,
            sum(requests) OVER (PARTITION BY cluster_id, listener, episode, is_during) AS total
        FROM buckets
    ),
    percentiles AS (
        SELECT cluster_id, listener, episode, is_during, any_value(total) AS requests,
            round(pow(1.04, min(bucket))) AS p99_us
        FROM running WHERE below * 100 >= total * 99 GROUP BY ALL
    )
    SELECT s.* EXCLUDE (episode), m.held_accepted, l.limit_quota, l.limit_key, l.limit_entity, l.limit_value,
        a.client_ip AS source_ip, c.principal AS source_principal, c.client_id AS source_client_id,
        software(c.software_name, c.software_version) AS source_software, a.attempts AS source_attempts,
        coalesce(b.requests, 0) AS others_requests_before, b.p99_us AS others_p99_before_us,
        coalesce(d.requests, 0) AS others_requests_during, d.p99_us AS others_p99_during_us
    FROM sums s
        JOIN addresses a USING (cluster_id, listener, episode)
        JOIN clients c USING (cluster_id, listener, episode)
        LEFT JOIN limits l USING (cluster_id, listener, episode)
        LEFT JOIN admitted m USING (cluster_id, listener, episode)
        LEFT JOIN (FROM percentiles WHERE NOT is_during) b USING (cluster_id, listener, episode)
        LEFT JOIN (FROM percentiles WHERE is_during) d USING (cluster_id, listener, episode)
"""

STORM_SOURCES: Final = """
    SELECT c.* EXCLUDE (episode, place, is_known, all_limited, all_refused), s.started
    FROM storm_clients c
        JOIN (SELECT cluster_id, listener, episode, min(first_ts) AS started FROM storm_rows GROUP BY ALL) s
            USING (cluster_id, listener, episode)
    WHERE accepted + limited + refused > 0
"""

CORRECTNESS: Final = """
    WITH
    all_days AS (
        SELECT cluster_id, topic, bucket, sum(records_placed) AS low, sum(records_possible) AS high,
            sum(records_ending) AS ending
        FROM mirror_buckets GROUP BY ALL
    ),
    topics AS (
        SELECT DISTINCT m.name AS mirror, m.prefix, m.source_cluster, m.mirror_cluster, a.topic
        FROM mirror m JOIN all_days a ON a.cluster_id = m.source_cluster
        WHERE NOT starts_with(a.topic, '_')
            AND (len(m.topics) = 0 OR len([t FOR t IN m.topics
                IF CASE WHEN ends_with(t, '*') THEN starts_with(a.topic, left(t, len(t) - 1))
                    ELSE t = a.topic END]) > 0)
    ),
    produced AS (
        SELECT t.mirror, t.topic, a.bucket, a.low, a.high, a.ending
        FROM topics t JOIN all_days a ON a.cluster_id = t.source_cluster AND a.topic = t.topic
    ),
    mirrored AS (
        SELECT t.mirror, t.topic, a.bucket, a.low, a.high, a.ending
        FROM topics t JOIN all_days a ON a.cluster_id = t.mirror_cluster AND a.topic = t.prefix || t.topic
    ),
    last_ending AS (SELECT mirror, topic, max(bucket) AS bucket FROM mirrored WHERE ending > 0 GROUP BY ALL),
    pairs AS (
        SELECT mirror, topic, bucket,
            coalesce(p.low, 0) AS produced_min, coalesce(p.high, 0) AS produced_max,
            coalesce(m.low, 0) AS mirrored_min, coalesce(m.high, 0) AS mirrored_max,
            coalesce(p.ending, 0) AS produced_ending, coalesce(m.ending, 0) AS mirrored_ending
        FROM produced p FULL JOIN mirrored m USING (mirror, topic, bucket)
    ),
    certain AS (
        SELECT m.name AS mirror, c.event_date,
            bool_and(c.is_complete) AND count(DISTINCT c.cluster_id)
                = CASE WHEN m.source_cluster = m.mirror_cluster THEN 1 ELSE 2 END AS is_certain
        FROM mirror m JOIN completeness c ON c.cluster_id IN (m.source_cluster, m.mirror_cluster)
        GROUP BY m.name, m.source_cluster, m.mirror_cluster, c.event_date
    )
    SELECT p.mirror, p.topic, p.bucket, produced_min, produced_max, mirrored_min, mirrored_max, produced_ending,
        mirrored_ending,
        CASE
            WHEN mirrored_max < produced_min AND coalesce(l.bucket > p.bucket, false) THEN 'loss'
            WHEN mirrored_max < produced_min THEN 'lagging'
            WHEN mirrored_min > produced_max THEN 'surplus'
            ELSE 'complete'
        END AS status,
        greatest(produced_min - mirrored_max, 0) AS missing, coalesce(c.is_certain, false) AS is_certain
    FROM pairs p LEFT JOIN last_ending l USING (mirror, topic)
        LEFT JOIN certain c ON c.mirror = p.mirror AND c.event_date = day_of(p.bucket)
"""

ERROR_BUDGET: Final = """
    WITH
    ends AS (SELECT cluster_id, max(event_date) AS to_date FROM objectives GROUP BY cluster_id)
    SELECT d.cluster_id, d.objective, e.to_date - o.window_days + 1 AS from_date, e.to_date,
        sum(d.requests) AS requests, sum(d.bad) AS bad, o.target,
        sum(d.bad)::DOUBLE / (sum(d.requests)::DOUBLE * (1 - o.target)) AS spent
    FROM objectives d JOIN ends e USING (cluster_id) JOIN objective o ON o.name = d.objective
    WHERE d.event_date > e.to_date - o.window_days
    GROUP BY d.cluster_id, d.objective, e.to_date, o.window_days, o.target
"""

RESULTS: Final = {
    "traffic": TRAFFIC,
    "failures": FAILURES,
    "latency": LATENCY,
    "objectives": OBJECTIVES,
    "cost": COST,
    "holes": HOLES,
    "coverage": COVERAGE,
    "quarantine": QUARANTINE,
    "completeness": COMPLETENESS,
    "idle_topics": IDLE_TOPICS,
    "storm_rows": STORM_ROWS,
    "storm_clients": STORM_CLIENTS,
    "storms": STORMS,
    "storm_sources": STORM_SOURCES,
    "correctness": CORRECTNESS,
    "error_budget": ERROR_BUDGET,
}
"""SQL of each result by name. Each may read those before it.

holes, storm_rows and storm_clients are intermediate steps.
"""
