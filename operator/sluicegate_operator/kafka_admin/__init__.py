"""The only Kafka admin client code: asyncio over kio messages, for the bundled broker and for Apache Kafka alike.

It knows the protocol and nothing of resources, planning or Kubernetes. `AdminClient` is the way in; views.py has what
it returns and errors.py what it raises.
"""
