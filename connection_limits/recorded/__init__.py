"""Limits in force as rows: a broker writes them at the start and at each change, and a replay reads them. Pure.

Problem: an audit log has decisions about connections. Only with the limits that were in force can a replay prove that
it decides as the broker did, and limits change while the broker runs.

Idea: a limiter is the result of its changes and their times. `rows` has the form of a change, `settings_rows` converts
the limits of broker and listeners, `changes` those of addresses and groups. `report` lists all limits in force, from
which a reader can begin. `applied` carries changes out on another limiter.

Invariants: a limiter that receives a report and the changes after it, at their times, decides as the first one. A row
has a bounded size, whatever the number of members of a group is. The rows of one change follow each other.
"""
