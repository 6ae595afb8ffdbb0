"""What requests change, for the table `change` of the audit log: one row for each resource, with its outcome. Pure.

Problem: the answer to a request that changes something comes from the controller, as bytes that no broker reads. An
auditor asks who changed what, and whether it succeeded.

Idea: the broker that the client has asked records the change, and no other node does. It has read the request, sends
the answer, and knows the old values. The controller writes no audit log, so that each change is recorded exactly once.

- `asked` names the resources of a request, each with its rows.
- `answered` finds the outcome of each resource in the bytes of the answer.
- `change` joins both within the limits: of a request that names thousands of resources, the rest is counted.
- `first_items` reads the first items of requests that their handlers read themselves.
- `values` decides which values of configurations are shown. `group_ids` reads the group of a request.

All of it runs in steps, because requests and answers may be long (decision 47).
"""
