"""The connections of a consumer: for requests, and for the calls of the coordinator."""
