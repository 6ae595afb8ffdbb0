"""The decisions of the transaction coordinator: what a request changes, and its answer. Pure.

A decision reads the state and returns records and an answer, or raises KafkaError with the code of the refusal. The
order of its checks is Apache Kafka's, because clients react differently to each code. `producers` decides
InitProducerId, `adding` AddPartitionsToTxn and AddOffsetsToTxn, `ending` EndTxn and the end of the markers. `waiting`
lets the first two wait until the last transaction is complete.
"""
