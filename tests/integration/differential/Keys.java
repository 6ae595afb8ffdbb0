import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints each configuration key of this Apache Kafka: whose it is, its name, its type, how it is updated. */
class Keys {
    public static void main(String[] arguments) {
        Map<String, ConfigDef.ConfigKey> broker = new TreeMap<>(DynamicConfig.Broker.configKeys());
        broker.putAll(kafka.server.KafkaConfig.configDef().configKeys());
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : broker.values()) {
            boolean onlyDynamic = !kafka.server.KafkaConfig.configDef().configKeys().containsKey(key.name);
            String mode = modes.getOrDefault(key.name, onlyDynamic ? "per-broker" : "read-only");
            System.out.println("broker " + key.name + " " + key.type + " " + mode);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configDefCopy().configKeys()).values())
            System.out.println("topic " + key.name + " " + key.type + " cluster-wide");
        for (String name : GroupConfig.configNames())
            System.out.println("group " + name + " " + GroupConfig.configType(name).get() + " cluster-wide");
        for (String name : ClientMetricsConfigs.names())
            System.out.println("client-metrics " + name + " " + ClientMetricsConfigs.configType(name).get() + " cluster-wide");
    }
}
