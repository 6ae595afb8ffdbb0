"""Commands that read manifests: `validate`, `plan`, `up`, `crds`."""
