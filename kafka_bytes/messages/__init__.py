"""Messages of Sluicegate's own APIs as classes of kio's form: their fields in the order of the bytes."""
