"""The pods of a cluster's nodes: StatefulSet with the lander beside a broker, placement and claims. Pure."""
