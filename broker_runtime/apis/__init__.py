"""Kafka's APIs: one module each, in folders by subject, and the path that every request takes through them (`request`).

1. `dispatch.Dispatcher.handle` gets a frame from its connection, reads the header, finds the API in `table` and creates
   a `call.Call` from both. A frame that is not a served request raises ProtocolError, which ends the connection.
2. The request is decoded to kio's entity of its version. Handlers of Produce, Fetch, ApiVersions and forwarded APIs
   read it themselves, with a `wire.encoding.reader.RequestReader`.
3. The API's handler gets the request, the call and the context of its role (`context`): BrokerContext,
   ControllerContext, or NodeContext if both roles serve the API. It returns fields, a packed reply, an awaitable of one
   of them, or the call itself, which it completes later.
4. The call ends in `call.Completion.ended`, whose observer counts it (`request.request_metrics`).

The brokers' table also has the APIs that only the active controller can serve: `forwarding.forwarded` forwards them.
"""
