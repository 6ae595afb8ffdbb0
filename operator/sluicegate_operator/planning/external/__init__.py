"""Clusters that the operator governs and does not run (`runtime: External`)."""
