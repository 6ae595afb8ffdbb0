// One member of a consumer group, with franz-go: BOOTSTRAP GROUP TOPIC. It says the same as counted_member.py does, and
// leaves on SIGTERM.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func say(lines []string) {
	if len(lines) > 0 {
		fmt.Print(strings.Join(lines, "\n") + "\n")
	}
}

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(250*time.Millisecond),
	)
	if err != nil {
		panic(err)
	}
	leaving, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for leaving.Err() == nil {
		polling, over := context.WithTimeout(leaving, 200*time.Millisecond)
		fetches := client.PollRecords(polling, 500)
		over()
		var lines []string
		fetches.EachError(func(topic string, partition int32, err error) {
			if polling.Err() == nil {
				lines = append(lines, "error "+strings.ReplaceAll(err.Error(), "\n", " "))
			}
		})
		ends := map[int32]int64{}
		fetches.EachRecord(func(r *kgo.Record) {
			lines = append(lines, fmt.Sprintf("read %d %d %s", r.Partition, r.Offset, r.Value))
			ends[r.Partition] = r.Offset + 1
		})
		say(lines)
		if len(ends) > 0 {
			committing, over := context.WithTimeout(context.Background(), 10*time.Second)
			err := client.CommitRecords(committing, fetches.Records()...)
			over()
			lines = nil
			if err != nil {
				lines = append(lines, "error "+strings.ReplaceAll(err.Error(), "\n", " "))
			} else {
				for partition, end := range ends {
					lines = append(lines, fmt.Sprintf("committed %d %d", partition, end))
				}
			}
			say(lines)
		}
		client.AllowRebalance()
	}
	client.LeaveGroup()
	client.Close()
	say([]string{"left"})
}
