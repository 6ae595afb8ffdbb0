"""Groups of the push protocol: the coordinator calls its consumers, has them stop and start, and pings them. Pure.

What the draft leaves open is decided in docs/decisions/0035. Registrations are hard state, all else is soft.
"""
