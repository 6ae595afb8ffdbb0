module sluicegate.example/thin-consumer

go 1.22
