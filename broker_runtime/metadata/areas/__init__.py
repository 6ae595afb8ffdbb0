"""The areas of the metadata: each module has the records, the state and the rules of one of them. Pure.

An area applies its records and notes what they changed; `metadata.image` is made of all areas.
"""
