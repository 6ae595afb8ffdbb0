"""Produce, and the APIs of producers: InitProducerId, AllocateProducerIds, DescribeProducers."""
