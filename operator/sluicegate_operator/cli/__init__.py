"""The `sluicegate` command: for laptops, over the same models, planning and enforcement as the operator.

Each subcommand is a module that main.py imports only when it is asked for, so that `sluicegate broker` stays light.
"""
