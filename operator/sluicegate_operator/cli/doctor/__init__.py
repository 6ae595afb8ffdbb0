"""`sluicegate doctor`: `reading` gathers the state of an installation, `checks` judges it."""
