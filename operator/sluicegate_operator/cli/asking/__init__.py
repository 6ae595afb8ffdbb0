"""What commands ask of brokers and of Kubernetes."""
