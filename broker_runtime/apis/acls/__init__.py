"""The APIs of access control lists. Without an authorizer they answer SECURITY_DISABLED."""
