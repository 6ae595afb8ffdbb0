"""What a node enforces on clients: authentication, authorization, and the quotas of users and client ids."""
