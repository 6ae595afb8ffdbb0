"""Kafka's APIs: one module each, and the one way that every request takes through them.

1. `dispatch.Dispatcher.handle` gets a frame from its connection, reads the header, finds the API in `table` and makes a
   `call.Call` of both. What is no request that is served here ends the connection by ProtocolError.
2. The request is decoded to kio's entity of its version. Produce, Fetch, ApiVersions and what is forwarded read it
   themselves, with a `wire.reader.RequestReader`.
3. The API's handler gets the request, the call and the context of its role (`context`): BrokerContext,
   ControllerContext, or NodeContext where both roles serve it. It returns fields, a packed reply, an awaitable of one
   of them, or the call itself, which it completes later.
4. The call ends: `call.Completion.ended`, whose observer counts it (`request_metrics`).

What only the active controller can serve is in the table of brokers too: `forwarding.forwarded` passes it on.
"""
