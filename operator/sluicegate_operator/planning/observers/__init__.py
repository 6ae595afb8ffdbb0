"""ObserverPlugins: their code, their settings and their status."""
