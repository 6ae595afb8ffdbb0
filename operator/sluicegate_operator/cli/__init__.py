"""The `sluicegate` command: for laptops, with the same models, planning and enforcement as the operator.

Subcommands are in folders by subject. Each is a module that main.py imports only when it is used, so that `sluicegate
broker` stays light.
"""
