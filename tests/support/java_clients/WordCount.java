import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * One instance of a Kafka Streams application with exactly_once_v2: BOOTSTRAP APPLICATION STATE_FOLDER SOURCE TARGET.
 *
 * Counts the words of each window of WINDOW milliseconds. The target gets a record for each word of the source: its key
 * is the word and the start of the window, and its value is the count so far. Without a loss or a repetition, the
 * values of a key are 1, 2, 3 and so on.
 */
class WordCount {
    static final long WINDOW = 10_000;

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder topology = new StreamsBuilder();
        topology.<String, String>stream(arguments[3])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((ignored, word) -> word)
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(WINDOW), Duration.ofDays(1)))
            .count()
            .toStream()
            .map((word, count) -> KeyValue.pair(word.key() + "@" + word.window().start(), Long.toString(count)))
            .to(arguments[4]);
        KafkaStreams streams = new KafkaStreams(topology.build(), settings(arguments));
        CountDownLatch stopped = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR)
                stopped.countDown();
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(30))));
        streams.start();
        stopped.await();
        System.exit(1);
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.topicPrefix("min.insync.replicas"), 2);
        // A cache would write only the last count of each transaction, and a repeated input could hide in it.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // A killed instance leaves an open transaction and a member of the group. Both end after these times.
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 4_000);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 3_000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put("reconnect.backoff.max.ms", 500);
        settings.put("metadata.max.age.ms", 5_000);
        return settings;
    }
}
