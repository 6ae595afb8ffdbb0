"""Types and rules that models share, with the schema that a CRD has for each."""
