"""What the operator and `sluicegate up` have in common between looking and acting."""
