"""The values of Kafka's messages as bytes: fields read and written one by one, and whole messages of kio's classes."""
