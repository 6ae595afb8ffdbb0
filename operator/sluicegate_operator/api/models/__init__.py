"""The custom resources, one module each."""
