"""Recommended limits in SQL, from connection_seconds and storms: pair by pair, as the definitions say."""

from typing import Final

CONNECTION_SECONDS: Final = """
    WITH
    came AS (
        SELECT *, event = 'refused' AS is_refused, ts - coalesce(decided_us - arrived_us, 0) AS at_us FROM connection
        WHERE event = 'accepted' OR event = 'refused' AND (limit_key IS NOT NULL OR reason NOT LIKE '% %')
    ),
    counted AS (
        SELECT bin_of(at_us) AS second, cluster_id, broker_id, listener, client_ip, 1 AS attempts,
            is_refused::INTEGER AS refused, 0 AS short
        FROM came
        UNION ALL
        SELECT bin_of(ts - duration_us), cluster_id, broker_id, listener, client_ip, 0, 0, 1
        FROM connection WHERE event = 'closed' AND duration_us < 60000000
    )
    SELECT day_of(second) AS event_date, second, cluster_id, broker_id, listener, client_ip,
        sum(attempts) AS attempts, sum(refused) AS refused, sum(short) AS short
    FROM counted GROUP BY ALL
"""

# The connections of the last days, each with the storm that its second belongs to, in seconds since 1970.
RECENT: Final = """
    SELECT * REPLACE (second // 1000000 AS second), short + refused AS fleeting
    FROM connection_seconds c
    WHERE listener NOT IN ('CONTROLLER', 'INTERNAL', 'REPLICATION') AND event_date > (
        SELECT max(event_date) FROM connection_seconds l WHERE l.cluster_id = c.cluster_id
    ) - 7
"""

STORM_SECOND: Final = """
    WITH
    by_second AS (
        SELECT r.cluster_id, r.listener, r.second, max(s.started // 1000000) AS storm
        FROM recent r JOIN storms s ON s.cluster_id = r.cluster_id AND s.listener = r.listener
            AND r.second BETWEEN s.started // 1000000 AND s.ended // 1000000
        GROUP BY ALL
    )
    SELECT b.cluster_id, b.listener, b.second, b.storm
    FROM by_second b
    JOIN by_second n ON (n.cluster_id, n.listener, n.storm) = (b.cluster_id, b.listener, b.storm)
        AND n.second BETWEEN b.second - 10 AND b.second + 10
    JOIN recent r ON (r.cluster_id, r.listener, r.second) = (n.cluster_id, n.listener, n.second)
    GROUP BY ALL
    HAVING 2 * sum(r.fleeting) >= sum(r.attempts)
"""

ARRIVALS: Final = """
    WITH
    in_storms AS (
        SELECT r.*, s.storm FROM recent r LEFT JOIN storm_second s USING (cluster_id, listener, second)
    ),
    taking_part AS (
        SELECT cluster_id, listener, storm, client_ip FROM in_storms WHERE storm IS NOT NULL
        GROUP BY ALL HAVING 2 * sum(fleeting) >= sum(attempts) AND sum(attempts) >= 5
    )
    SELECT i.cluster_id, i.broker_id, i.listener, i.client_ip, i.second, i.attempts, i.storm,
        i.storm IS NOT NULL AND t.client_ip IS NOT NULL AS is_of_storm
    FROM in_storms i LEFT JOIN taking_part t USING (cluster_id, listener, storm, client_ip)
    WHERE i.attempts > 0
"""

# A row for each second of a target on a broker; `address` is of targets that limit each address by itself.
SERIES: Final = """
    WITH
    by_address AS (
        SELECT cluster_id, broker_id, client_ip, second, sum(attempts) AS attempts,
            coalesce(sum(attempts) FILTER (NOT is_of_storm), 0) AS usual, max(storm) AS storm
        FROM arrivals WHERE client_ip LIKE '%.%' OR client_ip LIKE '%:%' GROUP BY ALL
    ),
    named AS (
        SELECT *, 'ip' AS kind, client_ip AS target, NULL AS limit_is FROM by_address
        UNION ALL SELECT *, 'cidr', address_group(client_ip), 'Shared' FROM by_address
    ),
    totals AS (
        SELECT cluster_id, kind, target, row_number() OVER (
                PARTITION BY cluster_id, kind
                ORDER BY sum(attempts - usual) DESC, max(attempts) DESC, sum(attempts) DESC, target
            ) AS place
        FROM named GROUP BY cluster_id, kind, target HAVING kind = 'ip' OR count(DISTINCT client_ip) > 1
    )
    SELECT cluster_id, broker_id, 'listener' AS kind, listener AS target, NULL AS limit_is, NULL AS address, second,
        sum(attempts) AS attempts, coalesce(sum(attempts) FILTER (storm IS NULL), 0) AS usual, max(storm) AS storm
    FROM arrivals GROUP BY ALL
    UNION ALL
    SELECT cluster_id, broker_id, kind, target, limit_is, NULL, second, sum(attempts), sum(usual), max(storm)
    FROM named SEMI JOIN (FROM totals WHERE place <= 10) USING (cluster_id, kind, target) GROUP BY ALL
    UNION ALL
    SELECT cluster_id, broker_id, 'cidr', CASE WHEN client_ip LIKE '%:%' THEN '::/0' ELSE '0.0.0.0/0' END,
        'PerAddress', client_ip, second, attempts, usual, storm
    FROM by_address
"""

TENS: Final = """
    WITH
    stormy AS (SELECT *, attempts - usual AS of_storm FROM series WHERE attempts > usual),
    tens AS (
        SELECT f.cluster_id, f.kind, f.target, f.storm, sum(n.of_storm) AS tens
        FROM stormy f JOIN stormy n ON (n.cluster_id, n.broker_id, n.kind, n.target)
            = (f.cluster_id, f.broker_id, f.kind, f.target)
            AND n.address IS NOT DISTINCT FROM f.address AND n.second BETWEEN f.second AND f.second + 9
        GROUP BY f.cluster_id, f.broker_id, f.kind, f.target, f.address, f.second, f.storm
    ),
    by_storm AS (SELECT cluster_id, kind, target, storm, max(tens) AS tens FROM tens GROUP BY ALL)
    SELECT cluster_id, kind, target, count(*) AS storms, max(tens) AS storm_most, min(tens) AS storm_least
    FROM by_storm GROUP BY ALL
"""

RATES: Final = """
    WITH
    covered AS (
        SELECT cluster_id, broker_id, 600 * count(*) AS seconds
        FROM heard_windows h
        WHERE events > 0 AND (cluster_id, event_date) IN (
            SELECT (c.cluster_id, c.event_date) FROM connection_seconds c WHERE c.event_date > (
                SELECT max(event_date) FROM connection_seconds l WHERE l.cluster_id = c.cluster_id
            ) - 7
        )
        GROUP BY ALL
    ),
    ranked AS (
        SELECT s.*, greatest(coalesce(seconds, 0), count(*) OVER of_broker) AS seconds,
            row_number() OVER (of_broker ORDER BY attempts DESC) AS from_top
        FROM series s LEFT JOIN covered USING (cluster_id, broker_id)
        WHERE limit_is IS DISTINCT FROM 'PerAddress'
        WINDOW of_broker AS (PARTITION BY s.cluster_id, s.broker_id, s.kind, s.target)
    )
    SELECT cluster_id, kind, target,
        coalesce(max(attempts) FILTER (from_top >= seconds - ceil_of(seconds * 500, 1000) + 1), 0) AS rate_p50,
        coalesce(max(attempts) FILTER (from_top >= seconds - ceil_of(seconds * 990, 1000) + 1), 0) AS rate_p99,
        coalesce(max(attempts) FILTER (from_top >= seconds - ceil_of(seconds * 999, 1000) + 1), 0) AS rate_p999
    FROM ranked GROUP BY ALL
"""

# All pairs of seconds of a series: the connections from one to the other, and for how long a bucket serves them.
PAIRS: Final = """
    WITH added_up AS (
        SELECT *, sum(usual) OVER (
            PARTITION BY cluster_id, broker_id, kind, target, address ORDER BY second
        ) AS until_now
        FROM series
    )
    SELECT s.cluster_id, s.broker_id, s.kind, s.target, s.address, s.second AS first, t.second AS last,
        t.until_now - s.until_now + s.usual AS usual,
        greatest(0, t.second - s.second - 1) + CASE s.kind WHEN 'listener' THEN 3 ELSE 1 END AS served_s
    FROM added_up s
    JOIN added_up t ON (t.cluster_id, t.broker_id, t.kind, t.target) = (s.cluster_id, s.broker_id, s.kind, s.target)
        AND t.address IS NOT DISTINCT FROM s.address AND t.second >= s.second AND t.usual > 0
    WHERE s.usual > 0
"""

RECOMMENDED_LIMITS: Final = """
    WITH
    needs AS (
        SELECT cluster_id, kind, target, max(ceil_of(usual, served_s)) AS needed FROM pairs GROUP BY ALL
    ),
    bursts AS (
        SELECT cluster_id, broker_id, kind, target, address, first, max(usual) AS burst
        FROM pairs WHERE last < first + 10 GROUP BY ALL
    ),
    largest AS (
        SELECT cluster_id, kind, target, burst, first FROM bursts
        QUALIFY row_number() OVER (PARTITION BY cluster_id, kind, target ORDER BY burst DESC, first) = 1
    ),
    totals AS (
        SELECT cluster_id, kind, target, limit_is, count(DISTINCT broker_id) AS brokers, sum(attempts) AS connections,
            sum(attempts - usual) AS storm_connections
        FROM series GROUP BY ALL
    ),
    days AS (
        SELECT cluster_id, min(event_date) AS from_date, max(event_date) AS to_date FROM connection_seconds c
        WHERE event_date > (
            SELECT max(event_date) FROM connection_seconds l WHERE l.cluster_id = c.cluster_id
        ) - 7
        GROUP BY cluster_id
    ),
    lacking AS (
        SELECT cluster_id, count(DISTINCT window_start) AS incomplete_windows
        FROM coverage v WHERE missing + holes > 0 AND (cluster_id, event_date) IN (
            SELECT (cluster_id, event_date) FROM connection_seconds
        ) AND event_date >= (FROM (SELECT from_date FROM days d WHERE d.cluster_id = v.cluster_id))
        GROUP BY cluster_id
    )
    SELECT t.cluster_id, t.kind, t.target, t.limit_is, d.from_date, d.to_date,
        coalesce(l.incomplete_windows, 0) AS incomplete_windows, t.brokers, t.connections, t.storm_connections,
        r.rate_p50, r.rate_p99, r.rate_p999, coalesce(b.burst, 0) AS burst, b.first * 1000000 AS burst_at,
        coalesce(s.storms, 0) AS storms, s.storm_most, s.storm_least, coalesce(n.needed, 0) AS needed,
        greatest(1, coalesce(n.needed, 0)) AS rate, 'token-bucket' AS strategy,
        s.storms IS NULL OR s.storm_least > 11 * greatest(1, coalesce(n.needed, 0)) AS is_holding,
        0 AS waiting_connections, 0 AS tried_connections, '' AS why
    FROM totals t JOIN days d USING (cluster_id) LEFT JOIN lacking l USING (cluster_id)
    LEFT JOIN rates r USING (cluster_id, kind, target) LEFT JOIN largest b USING (cluster_id, kind, target)
    LEFT JOIN tens s USING (cluster_id, kind, target) LEFT JOIN needs n USING (cluster_id, kind, target)
"""

TRIED_LIMITS: Final = """
    SELECT '' AS cluster_id, '' AS kind, '' AS target, '' AS part, NULL AS client_ip, NULL AS client_id,
        0 AS connections, 0 AS accepted, 0 AS delayed, NULL AS delay_p50_us, NULL AS delay_p99_us,
        NULL AS delay_max_us, 0 AS rejected, 0 AS "left", 0 AS waiting, 0 AS was_accepted, 0 AS was_delayed,
        NULL AS was_delay_max_us, 0 AS was_rejected
    WHERE false
"""

LIMITS: Final = {
    "recent": RECENT,
    "storm_second": STORM_SECOND,
    "arrivals": ARRIVALS,
    "series": SERIES,
    "tens": TENS,
    "rates": RATES,
    "pairs": PAIRS,
    "recommended_limits": RECOMMENDED_LIMITS,
    "tried_limits": TRIED_LIMITS,
}
"""SQL of the recommended limits by name; each may read those before it, and only the last two are tables of results.

Invented weeks have no times of decisions, so that nothing of them is replayed.
"""
