"""Facts in SQL, from views of events. Times are microseconds since 1970, days are counted from then. Needs MACROS."""

from typing import Final

from audit_pipeline.results.outcomes.error_names import ERROR_NAMES
from tests.support.audit.audit_oracle.limits import CONNECTION_SECONDS

MACROS: Final = """
    CREATE MACRO begin_of(us, step) AS us - ((us % step) + step) % step;
    CREATE MACRO day_of(us) AS begin_of(us, 86400000000) // 86400000000;
    CREATE MACRO minute_of(us) AS begin_of(us, 60000000);
    CREATE MACRO window_of(us) AS begin_of(us, 600000000);
    CREATE MACRO hour_of(us) AS begin_of(us, 3600000000);
    CREATE MACRO bin_of(us) AS begin_of(us, 1000000);
    CREATE MACRO latency_bucket(us) AS (CASE WHEN us <= 1 THEN 0 ELSE ceil(ln(us) / ln(1.04)) END)::SMALLINT;
    CREATE MACRO hextets(part) AS list_filter(string_split(part, ':'), lambda h: h <> '');
    CREATE MACRO hextets_of(ip) AS CASE WHEN contains(ip, '::')
        THEN list_concat(
            hextets(split_part(ip, '::', 1)),
            list_resize(
                []::VARCHAR[],
                8 - len(hextets(split_part(ip, '::', 1))) - len(hextets(split_part(ip, '::', 2))),
                '0'
            ),
            hextets(split_part(ip, '::', 2)))
        ELSE hextets(ip) END;
    CREATE MACRO address_group(ip) AS CASE
        WHEN contains(ip, '.') THEN array_to_string(list_slice(string_split(ip, '.'), 1, 3), '.') || '.0/24'
        WHEN contains(ip, ':') THEN array_to_string(list_slice(hextets_of(ip), 1, 4), ':') || '::/64'
        ELSE ip END;
    CREATE MACRO ceil_of(number, divisor) AS (number + divisor - 1) // divisor;
    CREATE MACRO software(name, version) AS nullif(concat_ws(' ', name, version), '');
"""

_CLIENT: Final = "listener, principal, client_id, client_ip, software_name, software_version"
_OF_REQUEST: Final = f"{_CLIENT}, replica_id, service_us"
_USER: Final = "cluster_id, listener, principal, client_id, address_group, software_name, software_version"
_USAGE_KEY: Final = f"window_start, {_USER}, api, topic, is_follower, error_code, ending"
_SERVICE_US: Final = "CASE api WHEN 'Fetch' THEN total_us - wait_us ELSE total_us END"

# Rows of version 1.0 do not tell their requests.
PARTITIONS: Final = f"""
    WITH asked AS (SELECT cluster_id, broker_id, boot_id, seq, {_CLIENT}, replica_id, {_SERVICE_US} AS service_us
        FROM request)
    SELECT ts, cluster_id, api_key, topic, bytes, records, error_code, {_OF_REQUEST}
    FROM "partition" WHERE listener IS NOT NULL
    UNION ALL
    SELECT p.ts, p.cluster_id, p.api_key, p.topic, p.bytes, p.records, p.error_code, r.listener, r.principal,
        r.client_id, r.client_ip, r.software_name, r.software_version, r.replica_id, r.service_us
    FROM (FROM "partition" WHERE listener IS NULL) p LEFT JOIN asked r USING (cluster_id, broker_id, boot_id, seq)
"""

# The order of columns is the same in each part.
USAGE: Final = f"""
    WITH
    asked AS (
        SELECT window_of(ts) AS window_start, ts, cluster_id, listener, principal, client_id, client_ip, software_name,
            software_version, api, NULL AS topic, replica_id IS NOT NULL AS is_follower, error_code, ending,
            1 AS requests, (error_code IS DISTINCT FROM 0 AND error_code IS NOT NULL OR ending <> 'answered')::BIGINT
                AS errors,
            request_bytes AS in_bytes, response_bytes AS out_bytes, NULL::BIGINT AS records
        FROM request
    ),
    touched AS (
        SELECT window_of(ts), ts, cluster_id, coalesce(listener, '(unknown)'), coalesce(principal, '(unknown)'),
            client_id, coalesce(client_ip, '(unknown)'), software_name, software_version,
            CASE api_key WHEN 0 THEN 'Produce' ELSE 'Fetch' END, topic, replica_id IS NOT NULL, error_code, NULL, 1,
            (error_code <> 0)::BIGINT, CASE api_key WHEN 0 THEN bytes ELSE 0 END,
            CASE api_key WHEN 1 THEN bytes ELSE 0 END, records
        FROM partitions
    ),
    added_up AS (
        SELECT window_of(ts), ts, cluster_id, {_CLIENT}, api, topic, false, NULL, NULL, requests, errors,
            request_bytes, response_bytes, CASE WHEN topic IS NOT NULL AND api = 'Produce' THEN records END
        FROM level_rollup
    ),
    everything AS (
        SELECT *, address_group(client_ip) AS address_group
        FROM (FROM asked UNION ALL FROM touched UNION ALL FROM added_up)
    )
    SELECT day_of(window_start) AS event_date, {_USAGE_KEY}, sum(requests) AS requests, sum(errors) AS errors,
        sum(in_bytes) AS in_bytes, sum(out_bytes) AS out_bytes, sum(records) AS records,
        max(ts) FILTER (topic IS NOT NULL AND in_bytes + out_bytes > 0) AS last_moved
    FROM everything GROUP BY {_USAGE_KEY}
"""

LATENCY_HIST: Final = f"""
    WITH
    asked AS (
        SELECT window_of(ts) AS window_start, cluster_id, api, principal, client_id, NULL AS topic, 1 AS requests,
            (coalesce(error_code, 0) <> 0 OR ending <> 'answered')::BIGINT AS errors,
            CASE WHEN coalesce(error_code, 0) = 0 AND ending = 'answered' THEN latency_bucket({_SERVICE_US}) END
                AS bucket,
            1 AS measured
        FROM request WHERE replica_id IS NULL
    ),
    touched AS (
        SELECT window_of(ts), cluster_id, CASE api_key WHEN 0 THEN 'Produce' ELSE 'Fetch' END, principal, NULL, topic,
            1, (error_code <> 0)::BIGINT, CASE error_code WHEN 0 THEN latency_bucket(service_us) END, 1
        FROM partitions WHERE listener IS NOT NULL AND replica_id IS NULL
    ),
    added_up AS (
        SELECT window_of(ts), cluster_id, api, principal, client_id, topic, requests, errors, NULL, 0
        FROM level_rollup WHERE topic IS NULL AND api <> 'Fetch'
    ),
    added_up_latency AS (
        SELECT window_start, cluster_id, api, principal, client_id, topic, 0, 0, entry.key, entry.value
        FROM (
            SELECT window_of(ts) AS window_start, *, unnest(map_entries(latency)) AS entry
            FROM level_rollup WHERE topic IS NULL AND api <> 'Fetch'
        )
    ),
    buckets AS (
        SELECT window_start, cluster_id, api, principal, client_id, topic, bucket, sum(requests) AS requests,
            sum(errors) AS errors, sum(measured)::BIGINT AS measured
        FROM (FROM asked UNION ALL FROM touched UNION ALL FROM added_up UNION ALL FROM added_up_latency)
        GROUP BY window_start, cluster_id, api, principal, client_id, topic, bucket
    )
    SELECT day_of(window_start) AS event_date, window_start, cluster_id, api, principal, client_id, topic,
        sum(requests) AS requests, sum(errors) AS errors,
        map_from_entries(coalesce(
            list({{'k': bucket::SMALLINT, 'v': measured}} ORDER BY bucket) FILTER (bucket IS NOT NULL AND measured > 0),
            []
        )) AS latency
    FROM buckets GROUP BY window_start, cluster_id, api, principal, client_id, topic HAVING sum(requests) > 0
"""

MINUTES: Final = """
    SELECT day_of(minute) AS event_date, minute, cluster_id, api, is_follower, sum(requests) AS requests,
        sum(errors) AS errors, sum(in_bytes) AS in_bytes, sum(out_bytes) AS out_bytes
    FROM (
        SELECT minute_of(ts) AS minute, cluster_id, api, replica_id IS NOT NULL AS is_follower, 1 AS requests,
            (coalesce(error_code, 0) <> 0 OR ending <> 'answered')::BIGINT AS errors,
            request_bytes AS in_bytes, response_bytes AS out_bytes
        FROM request
        UNION ALL
        SELECT minute_of(ts), cluster_id, api, false, requests, errors, request_bytes, response_bytes
        FROM level_rollup WHERE topic IS NULL
    )
    GROUP BY minute, cluster_id, api, is_follower
"""

TOPIC_DAYS: Final = """
    SELECT event_date, cluster_id, topic,
        max(last_moved) FILTER (api = 'Produce' AND in_bytes > 0) AS last_produced,
        max(last_moved) FILTER (api = 'Fetch' AND out_bytes > 0) AS last_fetched,
        coalesce(sum(in_bytes) FILTER (api = 'Produce'), 0) AS produced_bytes,
        coalesce(sum(out_bytes) FILTER (api = 'Fetch'), 0) AS fetched_bytes
    FROM usage WHERE topic IS NOT NULL AND NOT is_follower
    GROUP BY event_date, cluster_id, topic
"""

REPLICA_HOURS: Final = """
    WITH newest AS (
        SELECT hour_of(ts) AS hour, * FROM inventory
        QUALIFY boot_id = max(boot_id) OVER (PARTITION BY hour_of(ts), cluster_id, broker_id)
    )
    SELECT day_of(hour) AS event_date, hour, cluster_id, broker_id, topic, "partition", boot_id, seq, ts AS told, bytes,
        is_leader, is_deleted IS TRUE AS is_deleted
    FROM newest
    QUALIFY row_number() OVER (PARTITION BY hour, cluster_id, broker_id, topic, "partition" ORDER BY seq DESC) = 1
"""

INVENTORY_HOURS: Final = """
    WITH
    own AS (SELECT hour_of(ts) AS hour, * FROM inventory),
    both_hours AS (
        SELECT * FROM own
        UNION ALL
        SELECT o.hour + 3600000000 AS hour, o.* EXCLUDE (hour)
        FROM own o SEMI JOIN own n ON n.cluster_id = o.cluster_id AND n.hour = o.hour + 3600000000
            AND day_of(n.hour) = day_of(o.hour)
    ),
    newest_boot AS (
        SELECT * FROM both_hours
        QUALIFY boot_id = max(boot_id) OVER (PARTITION BY hour, cluster_id, broker_id)
    ),
    last_of_all AS (
        SELECT * FROM newest_boot
        QUALIFY row_number() OVER (
            PARTITION BY hour, cluster_id, broker_id, topic, "partition" ORDER BY seq DESC
        ) = 1
    ),
    last_told AS (SELECT * FROM last_of_all WHERE is_deleted IS NOT TRUE),
    partitions AS (
        SELECT hour, cluster_id, topic, "partition", sum(bytes) AS bytes,
            coalesce(max(bytes) FILTER (is_leader), 0) AS leader_bytes
        FROM last_told GROUP BY ALL
    )
    SELECT day_of(hour) AS event_date, hour, cluster_id, topic,
        count(*) AS partitions, sum(bytes) AS replica_bytes, sum(leader_bytes) AS leader_bytes
    FROM partitions GROUP BY hour, cluster_id, topic
"""

REPLICAS: Final = """
    WITH
    dated AS (
        SELECT day_of(ts) AS event_date, * FROM inventory
        QUALIFY boot_id = max(boot_id) OVER (PARTITION BY day_of(ts), cluster_id, broker_id)
    ),
    last_told AS (
        SELECT * FROM dated
        QUALIFY row_number() OVER (
            PARTITION BY event_date, cluster_id, broker_id, topic, "partition" ORDER BY seq DESC
        ) = 1
    ),
    fresh AS (
        SELECT * FROM last_told QUALIFY ts >= max(ts) OVER (PARTITION BY event_date, cluster_id) - 7200000000
    )
    SELECT event_date, cluster_id, broker_id, topic, "partition", ts AS told, bytes
    FROM fresh WHERE is_deleted IS NOT TRUE
"""

_ATTEMPTS: Final = """
    SELECT bin_of(ts) AS bin, * EXCLUDE (limit_key),
        coalesce(limit_key, CASE WHEN event <> 'accepted' AND reason NOT LIKE '% %' THEN reason END) AS limit_key
    FROM connection WHERE event IN ('accepted', 'limited', 'refused')
"""
# Runs of seconds that reach the limits $connections and $held, without a shorter one in them; then what is close.
_STORMY: Final = f"""
    by_bin AS (
        SELECT cluster_id, listener, bin, count(*) FILTER (event <> 'limited') AS connections,
            count(*) FILTER (limit_key IS NOT NULL) AS held
        FROM ({_ATTEMPTS}) GROUP BY ALL
    ),
    runs AS (
        SELECT cluster_id, listener, f.bin AS first, l.bin AS last
        FROM by_bin f JOIN by_bin l USING (cluster_id, listener) JOIN by_bin b USING (cluster_id, listener)
        WHERE l.bin BETWEEN f.bin AND f.bin + 9000000 AND b.bin BETWEEN f.bin AND l.bin
        GROUP BY ALL
        HAVING sum(b.connections) >= $connections OR sum(b.held) >= $held
    ),
    shortest AS (
        SELECT * FROM runs r WHERE NOT EXISTS (
            FROM runs s WHERE (s.cluster_id, s.listener) = (r.cluster_id, r.listener)
                AND s.first >= r.first AND s.last <= r.last AND s.last - s.first < r.last - r.first
        )
    ),
    in_run AS (
        SELECT DISTINCT cluster_id, listener, bin FROM by_bin b JOIN shortest s USING (cluster_id, listener)
        WHERE b.bin BETWEEN s.first AND s.last
    ),
    stormy AS (
        SELECT DISTINCT cluster_id, listener, b.bin FROM by_bin b JOIN in_run i USING (cluster_id, listener)
        WHERE b.bin BETWEEN i.bin - 2000000 AND i.bin + 2000000
    )
"""

STORM_BINS: Final = f"""
    WITH
    told AS ({_ATTEMPTS}),
    {_STORMY},
    tellings AS (
        SELECT ts, false AS is_first, seq, cluster_id, broker_id, boot_id, connection_id,
            principal, client_id, software_name, software_version
        FROM connection WHERE event = 'closed' AND connection_id IS NOT NULL
        UNION ALL
        SELECT ts, true, seq, cluster_id, broker_id, boot_id, connection_id,
            principal, client_id, software_name, software_version
        FROM request WHERE connection_id IS NOT NULL
    ),
    stormy_connections AS (
        SELECT DISTINCT bin, cluster_id, broker_id, boot_id, connection_id
        FROM told SEMI JOIN stormy USING (cluster_id, listener, bin)
    ),
    known AS (
        SELECT * FROM stormy_connections c JOIN tellings t USING (cluster_id, broker_id, boot_id, connection_id)
        WHERE t.ts >= c.bin AND t.ts < c.bin + 600000000
        QUALIFY row_number() OVER (
            PARTITION BY bin, cluster_id, broker_id, boot_id, connection_id ORDER BY is_first, seq
        ) = 1
    ),
    named AS (
        SELECT t.bin, t.ts, t.cluster_id, t.listener, t.client_ip, t.event,
            CASE WHEN k.seq IS NULL THEN t.principal ELSE k.principal END AS principal,
            CASE WHEN k.seq IS NULL THEN t.client_id ELSE k.client_id END AS client_id,
            CASE WHEN k.seq IS NULL THEN t.software_name ELSE k.software_name END AS software_name,
            CASE WHEN k.seq IS NULL THEN t.software_version ELSE k.software_version END AS software_version,
            t.listener_rate, t.limit_quota, t.limit_key, t.limit_entity, t.limit_value
        FROM told t SEMI JOIN stormy USING (cluster_id, listener, bin)
        LEFT JOIN known k USING (bin, cluster_id, broker_id, boot_id, connection_id)
    )
    SELECT day_of(bin) AS event_date, bin, cluster_id, listener, principal, client_id, client_ip, software_name,
        software_version, listener_rate, limit_quota, limit_key, limit_entity, limit_value,
        min(ts) AS first_ts, max(ts) AS last_ts,
        count(*) FILTER (event = 'accepted') AS accepted,
        count(*) FILTER (event = 'limited') AS limited,
        count(*) FILTER (event = 'refused') AS refused
    FROM named
    GROUP BY ALL
"""

STORM_REQUESTS: Final = """
    WITH
    stormy AS (SELECT DISTINCT cluster_id, listener, bin FROM storm_bins),
    begins AS (
        SELECT *, bin - lag(bin) OVER (PARTITION BY cluster_id, listener ORDER BY bin) AS pause FROM stormy
    ),
    numbered AS (
        SELECT *, count(*) FILTER (pause IS NULL OR pause > 11000000)
            OVER (PARTITION BY cluster_id, listener ORDER BY bin) AS storm
        FROM begins
    ),
    spans AS (
        SELECT cluster_id, listener, storm, minute_of(min(bin)) AS begin_minute, max(bin) AS last
        FROM numbered GROUP BY ALL
    ),
    timed AS (
        SELECT day_of(ts) AS event_date, cluster_id, client_ip, client_id, ts,
            latency_bucket(CASE api WHEN 'Fetch' THEN total_us - wait_us ELSE total_us END) AS bucket
        FROM request
        WHERE api IN ('Produce', 'Fetch') AND replica_id IS NULL AND coalesce(error_code, 0) = 0 AND ending = 'answered'
    ),
    placed AS (
        SELECT event_date, minute_of(ts) AS bin, 60 AS seconds, cluster_id, client_ip, client_id, bucket
        FROM timed t SEMI JOIN spans s ON s.cluster_id = t.cluster_id
            AND minute_of(t.ts) BETWEEN s.begin_minute - 600000000 AND minute_of(s.last)
        UNION ALL
        SELECT event_date, bin_of(ts), 1, cluster_id, client_ip, client_id, bucket
        FROM timed t SEMI JOIN spans s ON s.cluster_id = t.cluster_id
            AND bin_of(t.ts) BETWEEN s.begin_minute AND s.last
    )
    SELECT *, count(*) AS measured FROM placed GROUP BY ALL
"""

MIRROR_BUCKETS: Final = """
    WITH
    batches AS (
        SELECT hour_of(ts) AS hour, cluster_id, topic, records, window_of(max_ts) AS ends,
            window_of(least(base_ts, max_ts) - 2000000) AS low, window_of(max_ts + 2000000) AS high
        FROM "partition"
        WHERE api_key = 0 AND error_code = 0 AND records > 0 AND base_ts IS NOT NULL AND max_ts IS NOT NULL
    ),
    spread AS (
        SELECT hour, cluster_id, topic,
            unnest(generate_series(greatest(low, high - 143 * 600000000::BIGINT), high, 600000000)) AS bucket,
            CASE WHEN low = high THEN records ELSE 0 END AS placed, records AS possible, 0 AS ending
        FROM batches
    ),
    ended AS (
        SELECT hour, cluster_id, topic, ends AS bucket, 0 AS placed, 0 AS possible, records AS ending FROM batches
    )
    SELECT day_of(hour) AS event_date, hour, cluster_id, topic, bucket, sum(placed) AS records_placed,
        sum(possible) AS records_possible, sum(ending) AS records_ending
    FROM (SELECT * FROM spread UNION ALL SELECT * FROM ended)
    GROUP BY hour, cluster_id, topic, bucket
"""

HEARD_WINDOWS: Final = """
    WITH
    numbers AS (
        SELECT cluster_id, broker_id, ts, 1 AS events FROM request
        UNION ALL SELECT cluster_id, broker_id, ts, 1 FROM connection
        UNION ALL SELECT cluster_id, broker_id, ts, 1 FROM inventory
        UNION ALL SELECT cluster_id, broker_id, ts, 1 FROM change
        UNION ALL SELECT cluster_id, broker_id, ts, 1 FROM connection_limit
        UNION ALL SELECT cluster_id, broker_id, ts, seq - first_seq + 1
            FROM (SELECT DISTINCT cluster_id, broker_id, boot_id, first_seq, seq, ts FROM level_rollup)
    ),
    everything AS (
        SELECT window_of(ts) AS at_us, cluster_id, broker_id, ts, events, 0 AS gaps, 0 AS missing FROM numbers
        UNION ALL SELECT window_of(ts), cluster_id, broker_id, ts, 0, 1, events FROM gap
    )
    SELECT day_of(at_us) AS event_date, at_us AS window_start, cluster_id, broker_id,
        coalesce(min(ts) FILTER (gaps = 0), min(ts)) AS first_ts,
        coalesce(max(ts) FILTER (gaps = 0), max(ts)) AS last_ts,
        sum(events) AS events, sum(gaps) AS gaps, sum(missing) AS missing
    FROM everything GROUP BY at_us, cluster_id, broker_id
"""

REGISTRATIONS: Final = """
    SELECT day_of(ts) AS event_date, hour_of(ts) AS hour, cluster_id, broker::INTEGER AS broker_id,
        min(ts) AS first_told
    FROM (SELECT ts, cluster_id, unnest(string_split(registered_brokers, ',')) AS broker FROM inventory)
    GROUP BY ALL
"""

_ERRORS: Final = ", ".join(f"({code}, '{name}')" for code, name in ERROR_NAMES.items())

CHANGES: Final = f"""
    SELECT day_of(ts) AS event_date, change.*,
        CASE WHEN error_code IS NULL THEN CASE ending WHEN 'answered' THEN 'unknown'
                WHEN 'cancelled' THEN 'unknown: cancelled' WHEN 'hung up' THEN 'unknown: hung up' ELSE ending END
            WHEN error_code = 0 THEN 'succeeded' ELSE coalesce(name, 'error ' || error_code) END AS outcome
    FROM change LEFT JOIN (VALUES {_ERRORS}) AS error (code, name) ON error.code = change.error_code
"""

FACTS: Final = {
    "partitions": PARTITIONS,
    "usage": USAGE,
    "latency_hist": LATENCY_HIST,
    "minutes": MINUTES,
    "topic_days": TOPIC_DAYS,
    "replica_hours": REPLICA_HOURS,
    "inventory_hours": INVENTORY_HOURS,
    "replicas": REPLICAS,
    "storm_bins": STORM_BINS,
    "storm_requests": STORM_REQUESTS,
    "connection_seconds": CONNECTION_SECONDS,
    "mirror_buckets": MIRROR_BUCKETS,
    "heard_windows": HEARD_WINDOWS,
    "registrations": REGISTRATIONS,
    "changes": CHANGES,
}
"""SQL of each fact by name; each may read those before it. `partitions` is an intermediate step."""
