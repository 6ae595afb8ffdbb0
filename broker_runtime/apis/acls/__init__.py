"""ACL APIs, which answer SECURITY_DISABLED."""
