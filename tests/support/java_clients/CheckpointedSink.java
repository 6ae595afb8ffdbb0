import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * A sink with two-phase commits as stream processors have it: BOOTSTRAP TOPIC CHECKPOINT_FILE COUNT BATCH.
 *
 * Two writers write the numbers below COUNT, one half of each batch to each of two partitions. A checkpoint is made in
 * three steps: both writers flush, the checkpoint is written to the file, both transactions commit. Each transaction
 * has a transactional id of its own, which names its writer and its checkpoint.
 *
 * In every third batch the sink crashes between two steps, each time between two others: it leaves its producers as
 * they are, and begins from the file. So does a sink whose producer fails, and a program that is started again. A sink
 * that begins commits the transactions of the last checkpoint with the producer ids and epochs that are in the file,
 * and aborts those of the checkpoint that was being made. Then the producers that were left try to commit. The program
 * ends when all numbers are committed.
 */
class CheckpointedSink {
    static final int WRITERS = 2;
    static final int STEPS = 2 * WRITERS + 1;
    static final int BATCHES_OF_A_CRASH = 3;

    /** The end of the sink between two steps. */
    static class Crash extends RuntimeException {
        private static final long serialVersionUID = 1;

        Crash(String where) {
            super(where);
        }
    }

    /** A flushed transaction, as the checkpoint has it. */
    record Pending(String id, long producer, short epoch) {
        static Pending of(String line) {
            String[] parts = line.split(" ");
            return new Pending(parts[0], Long.parseLong(parts[1]), Short.parseShort(parts[2]));
        }

        String line() {
            return id + " " + producer + " " + epoch;
        }
    }

    final String bootstrap;
    final String topic;
    final Path file;
    final int count;
    final int batch;
    final List<KafkaProducer<String, String>> open = new ArrayList<>();
    int checkpoint = 0;
    int next = 0;
    int batches = 0;
    int steps = 0;

    CheckpointedSink(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        file = Path.of(arguments[2]);
        count = Integer.parseInt(arguments[3]);
        batch = Integer.parseInt(arguments[4]);
    }

    public static void main(String[] arguments) throws Exception {
        CheckpointedSink sink = new CheckpointedSink(arguments);
        boolean begins = true;
        while (begins || sink.next < sink.count) {
            try {
                if (begins)
                    sink.recover();
                begins = false;
                sink.advance();
            } catch (Crash | KafkaException error) {
                System.out.println("crash " + error);
                begins = true;
            }
        }
        System.out.println("done");
    }

    /** End the transactions of earlier sinks, and let their producers try to commit. */
    void recover() throws Exception {
        checkpoint = next = 0;
        if (Files.exists(file)) {
            List<String> lines = Files.readAllLines(file);
            checkpoint = Integer.parseInt(lines.get(0));
            next = Integer.parseInt(lines.get(1));
            batches = Math.max(batches, checkpoint);
            for (String line : lines.subList(2, lines.size()))
                commitAgain(Pending.of(line));
        }
        for (int writer = 0; writer < WRITERS; writer++)
            with(id(writer, checkpoint + 1), KafkaProducer::initTransactions);
        for (KafkaProducer<String, String> left : open) {
            try {
                left.commitTransaction();
            } catch (KafkaException | IllegalStateException error) {
                System.out.println("refused " + error);
            }
        }
        close();
        System.out.println("recovered " + next);
    }

    /** Close the open producers. A close that waits would abort their transactions. */
    void close() {
        for (KafkaProducer<String, String> producer : open)
            producer.close(Duration.ZERO);
        open.clear();
    }

    /** Write the next batch of numbers, and make a checkpoint of it. */
    void advance() throws Exception {
        int end = Math.min(count, next + batch);
        if (end == next)
            return;
        checkpoint++;
        batches++;
        steps = 0;
        for (int writer = 0; writer < WRITERS; writer++) {
            KafkaProducer<String, String> producer = producer(id(writer, checkpoint));
            open.add(producer);
            producer.initTransactions();
            producer.beginTransaction();
        }
        for (int number = next; number < end; number++)
            open.get(number % WRITERS).send(new ProducerRecord<>(topic, number % WRITERS, null, "" + number));
        List<Pending> pending = new ArrayList<>();
        for (int writer = 0; writer < WRITERS; writer++) {
            open.get(writer).flush();
            pending.add(pending(id(writer, checkpoint), open.get(writer)));
            mayCrash("after the flush of writer " + writer);
        }
        save(end, pending);
        mayCrash("after the checkpoint");
        for (int writer = 0; writer < WRITERS; writer++) {
            open.get(writer).commitTransaction();
            mayCrash("after the commit of writer " + writer);
        }
        close();
        next = end;
        System.out.println("committed " + next);
    }

    void mayCrash(String where) {
        boolean crashes = batches % BATCHES_OF_A_CRASH == 0 && batches / BATCHES_OF_A_CRASH % STEPS == steps;
        steps++;
        if (crashes)
            throw new Crash(where);
    }

    String id(int writer, int checkpoint) {
        return topic + "-" + writer + "-" + checkpoint;
    }
    KafkaProducer<String, String> producer(String id) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", 120_000);
        settings.put("reconnect.backoff.max.ms", 500);
        settings.put("max.block.ms", 60_000);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Replace the file in one step; its content is on the disk when this returns. */
    void save(int end, List<Pending> pending) throws IOException {
        StringBuilder text = new StringBuilder().append(checkpoint).append("\n").append(end).append("\n");
        for (Pending each : pending)
            text.append(each.line()).append("\n");
        Path draft = file.resolveSibling(file.getFileName() + ".draft");
        Files.writeString(draft, text);
        try (FileChannel channel = FileChannel.open(draft, StandardOpenOption.WRITE)) {
            channel.force(true);
        }
        Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
    }

    static Object manager(KafkaProducer<String, String> producer) throws Exception {
        return field(producer, "transactionManager").get(producer);
    }

    static Pending pending(String id, KafkaProducer<String, String> producer) throws Exception {
        Object manager = manager(producer);
        ProducerIdAndEpoch found = (ProducerIdAndEpoch) field(manager, "producerIdAndEpoch").get(manager);
        return new Pending(id, found.producerId, found.epoch);
    }

    interface Use {
        void of(KafkaProducer<String, String> producer) throws Exception;
    }

    void with(String id, Use use) throws Exception {
        KafkaProducer<String, String> producer = producer(id);
        try {
            use.of(producer);
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    /** Commit a transaction that another process has begun. The Java client has no public method for it. */
    void commitAgain(Pending transaction) throws Exception {
        try {
            with(transaction.id, producer -> {
                resume(manager(producer), new ProducerIdAndEpoch(transaction.producer, transaction.epoch));
                producer.commitTransaction();
            });
            System.out.println("committed again " + transaction.id);
        } catch (ProducerFencedException | InvalidTxnStateException error) {
            // A transaction of version 2 that has ended has another epoch.
            System.out.println("has ended " + transaction.id + " " + error);
        }
    }

    static void resume(Object manager, ProducerIdAndEpoch begun) throws Exception {
        synchronized (manager) {
            move(manager, "INITIALIZING");
            field(manager, "producerIdAndEpoch").set(manager, begun);
            move(manager, "READY");
            move(manager, "IN_TRANSACTION");
            field(manager, "transactionStarted").set(manager, true);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void move(Object manager, String state) throws Exception {
        Class<?> states = field(manager, "currentState").getType();
        Method method = manager.getClass().getDeclaredMethod("transitionTo", states);
        method.setAccessible(true);
        method.invoke(manager, Enum.valueOf((Class) states, state));
    }

    static Field field(Object owner, String name) throws Exception {
        Field found = owner.getClass().getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }
}
