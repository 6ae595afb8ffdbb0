import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command line tools one after the other in one process: a JVM for each takes seconds.
 *
 * Reads a line for each: its main class and its arguments, with tabs between them. Behind what it printed comes a line
 * with the byte 1 and its exit code.
 */
class KafkaTools {
    static class Ended extends RuntimeException {
        final int code;

        Ended(int code) {
            super("exit code " + code);
            this.code = code;
        }
    }

    public static void main(String[] ignored) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(InputStream.nullInputStream());
        Exit.setExitProcedure((code, message) -> { throw new Ended(code); });
        Exit.setHaltProcedure((code, message) -> { throw new Ended(code); });
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            System.out.println("\u0001" + code);
            System.out.flush();
        }
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
    }

    private static int run(String name, String[] arguments) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended ended)
                return ended.code;
            thrown.getCause().printStackTrace(System.out);
            return 70;
        }
    }
}
