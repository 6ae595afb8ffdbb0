package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Kafka's protocol, as far as it is needed: Fetch in version 4, ListOffsets and Metadata in version 1.
const (
	fetchKey, fetchVersion             = 1, 4
	listOffsetsKey, listOffsetsVersion = 2, 1
	metadataKey, metadataVersion       = 3, 1

	offsetOutOfRange = 1

	beginning, end = -2, -1 // offsets of ListOffsets, and of StartFetcher

	maxWait       = 250 * time.Millisecond // of a fetch that finds nothing new
	answerTimeout = 30 * time.Second       // a broker that enforces quotas takes its time
	fetchBytes    = 1 << 20
	unpackedMax   = 64 << 20
)

// assignment is what one StartFetcher gave us, until the StopFetcher or the end of the registration.
type assignment struct {
	consumer   *consumer
	partitions []*partition
	addresses  map[int64]string // of brokers, by their ids
	work       context.Context
	cancel     context.CancelFunc
	delivery   sync.Mutex // held while a record is delivered
	started    bool
}

type partition struct {
	thread, topic  string
	number, leader int64
	position       atomic.Int64 // the next offset, or beginning, or end
}

func (p *partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.number) }

func newAssignment(c *consumer) *assignment {
	a := &assignment{consumer: c}
	a.work, a.cancel = context.WithCancel(c.work)
	return a
}

// start reads each partition on a connection of its own, which is simple; who has hundreds shares one for each leader.
func (a *assignment) start() {
	a.started = true
	printLine(change{"assigned", a.names()})
	for _, p := range a.partitions {
		go a.read(p)
	}
}

// stop ends the reading. When it returns nothing is delivered any more, and the positions stay as they are.
func (a *assignment) stop() {
	a.delivery.Lock()
	defer a.delivery.Unlock()
	a.cancel()
	if a.started {
		a.started = false
		printLine(change{"stopped", a.names()})
	}
}

// deliver hands a record over to the user, which here is to print it, and moves on to the next offset. Without a record
// it only moves on. It returns false when this is not ours to read any more.
func (a *assignment) deliver(p *partition, delivered *record, next int64) bool {
	a.delivery.Lock()
	defer a.delivery.Unlock()
	if a.work.Err() != nil || a.consumer.isSuspicious() {
		return false
	}
	if delivered != nil {
		printLine(delivered)
	}
	p.position.Store(next)
	return true
}

func (a *assignment) names() []string {
	names := []string{}
	for _, p := range a.partitions {
		names = append(names, p.String())
	}
	return names
}

// read reads a partition until the assignment is stopped: first from the leader that StartFetcher named, and from the
// one that Metadata names whenever that goes wrong.
func (a *assignment) read(p *partition) {
	for leader := a.addresses[p.leader]; a.work.Err() == nil; leader = a.findLeader(p) {
		if leader == "" {
			pause(a.work, retryAfter)
		} else if err := a.readFrom(leader, p); err != nil && a.work.Err() == nil {
			log.Printf("reading %s from %s: %v", p, leader, err)
			pause(a.work, retryAfter)
		}
	}
}

func (a *assignment) readFrom(leader string, p *partition) error {
	conn, err := net.DialTimeout("tcp", leader, dialTimeout)
	if err != nil {
		return err
	}
	defer context.AfterFunc(a.work, func() { conn.Close() })() // stop interrupts a fetch that waits
	defer conn.Close()
	for err == nil && a.work.Err() == nil {
		if p.position.Load() < 0 {
			err = a.findPosition(conn, p)
		} else {
			err = a.fetch(conn, p)
		}
	}
	return err
}

// findPosition asks for the offset of the beginning, or of the end, where that is where we are to begin.
func (a *assignment) findPosition(conn net.Conn, p *partition) error {
	request := kafkaRequest(listOffsetsKey, listOffsetsVersion).int(4, -1).int(4, 1).text(p.topic)
	answer, err := kafkaExchange(conn, request.int(4, 1).int(4, p.number).int(8, p.position.Load()))
	if err != nil {
		return err
	}
	answer.list(4, func() {
		answer.text()
		answer.list(4, func() {
			answer.int(4)
			code := answer.int(2)
			answer.int(8) // a timestamp
			if offset := answer.int(8); code != 0 {
				answer.fail("Kafka's error %d for the offset", code)
			} else if answer.err == nil {
				a.deliver(p, nil, offset)
			}
		})
	})
	return answer.end()
}

// fetch reads once, and delivers what came.
func (a *assignment) fetch(conn net.Conn, p *partition) error {
	request := kafkaRequest(fetchKey, fetchVersion).int(4, -1).int(4, maxWait.Milliseconds()).int(4, 1)
	request.int(4, fetchBytes).int(1, 0) // at most so many bytes; whether a transaction was committed or not
	request.int(4, 1).text(p.topic).int(4, 1).int(4, p.number).int(8, p.position.Load()).int(4, fetchBytes)
	answer, err := kafkaExchange(conn, request)
	if err != nil {
		return err
	}
	answer.int(4) // how long a quota has made us wait
	answer.list(4, func() {
		answer.text()
		answer.list(4, func() {
			answer.int(4)
			code := answer.int(2)
			answer.take(16)                            // the high watermark, the last stable offset
			answer.list(4, func() { answer.take(16) }) // transactions that were aborted
			batches := answer.take(answer.int(4))
			switch {
			case code == offsetOutOfRange:
				a.deliver(p, nil, a.consumer.resetOffset())
			case code != 0:
				answer.fail("Kafka's error %d for the fetch", code)
			case answer.err == nil:
				err = a.deliverBatches(p, batches)
			}
		})
	})
	return errors.Join(err, answer.end())
}

// deliverBatches delivers whole batches of records. The last one may be cut off: it comes again.
func (a *assignment) deliverBatches(p *partition, batches []byte) error {
	const head = 12 // the offset of the first record, and the size of what follows
	for len(batches) >= head {
		size := int64(binary.BigEndian.Uint32(batches[8:]))
		if size > int64(len(batches)-head) {
			break
		}
		if err := a.deliverBatch(p, &reader{rest: batches[:head+size]}); err != nil {
			return fmt.Errorf("the batch at %d: %w", p.position.Load(), err)
		}
		batches = batches[head+size:]
	}
	return nil
}

func (a *assignment) deliverBatch(p *partition, batch *reader) error {
	first := batch.int(8)
	batch.take(8) // the size, and the epoch of the leader
	magic, sum := batch.int(1), uint32(batch.int(4))
	if magic != 2 {
		batch.fail("magic %d", magic)
	} else if crc32.Checksum(batch.rest, crc32.MakeTable(crc32.Castagnoli)) != sum {
		batch.fail("the checksum is wrong")
	}
	attributes, last := batch.int(2), first+batch.int(4)
	batch.take(30) // timestamps, the producer, and its sequence
	count := batch.int(4)
	if batch.err != nil {
		return batch.err
	}
	const control = 0x20 // the end of a transaction
	if attributes&control == 0 {
		records, err := a.unpack(batch.rest, attributes&7)
		if err != nil {
			return err
		}
		for ; count > 0; count-- {
			delivered := p.readRecord(records, first)
			if records.err != nil {
				return records.err
			}
			// A batch comes whole, also where we begin in the middle of it.
			if delivered.Offset >= p.position.Load() && !a.deliver(p, delivered, delivered.Offset+1) {
				return nil
			}
		}
	}
	// Compaction leaves gaps, also at the end of a batch.
	a.deliver(p, nil, max(last+1, p.position.Load()))
	return nil
}

// unpack undoes the compression of a batch. What it does not know ends the program: it would come again and again.
func (a *assignment) unpack(packed []byte, codec int64) (*reader, error) {
	switch codec {
	case 0:
		return &reader{rest: packed}, nil
	case 1:
		stream, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		unpacked, err := io.ReadAll(io.LimitReader(stream, unpackedMax+1))
		if err == nil && len(unpacked) > unpackedMax {
			err = fmt.Errorf("more than %d bytes unpacked", unpackedMax)
		}
		return &reader{rest: unpacked}, err
	}
	name := []string{2: "snappy", 3: "lz4", 4: "zstd", 5: "codec 5", 6: "codec 6", 7: "codec 7"}[codec]
	err := fmt.Errorf("a batch is compressed with %s, and this program knows none but gzip", name)
	a.consumer.fail(err)
	return nil, err
}

// readRecord takes the next record out of a batch. Numbers are varints, and what it does not print is left.
func (p *partition) readRecord(records *reader, first int64) *record {
	r := &reader{rest: records.take(records.varint())}
	r.take(1)  // attributes
	r.varint() // milliseconds since the first record
	offset := first + r.varint()
	key, value := r.field(), r.field()
	if r.err != nil {
		records.fail("a record: %v", r.err)
	}
	return &record{"record", p.thread, p.topic, p.number, offset, key, value}
}

func (r *reader) varint() int64 {
	value, size := binary.Varint(r.rest)
	if size <= 0 {
		r.fail("no varint")
	}
	r.take(int64(size))
	return value
}

// field reads a key or a value, which may be null. What is not UTF-8 in it is printed as U+FFFD.
func (r *reader) field() *string {
	size := r.varint()
	if size == -1 {
		return nil
	}
	text := string(r.take(size))
	return &text
}

// findLeader asks one broker after the other; "" when none of them knows.
func (a *assignment) findLeader(p *partition) string {
	for _, address := range a.consumer.bootstrap {
		if found, err := askForLeader(address, p); err != nil {
			log.Printf("asking %s for the leader of %s: %v", address, p, err)
		} else if found != "" {
			return found
		}
	}
	return ""
}

func askForLeader(address string, p *partition) (leader string, err error) {
	conn, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answer, err := kafkaExchange(conn, kafkaRequest(metadataKey, metadataVersion).int(4, 1).text(p.topic))
	if err != nil {
		return "", err
	}
	addresses := map[int64]string{}
	answer.list(4, func() {
		answer.readBroker(addresses)
		answer.text() // its rack
	})
	answer.int(4) // the controller
	answer.list(4, func() {
		answer.take(2) // an error, with which there are no partitions
		answer.text()
		answer.take(1) // whether it is internal
		answer.list(4, func() {
			answer.take(2) // an error, with which the leader is -1 or of old
			number, id := answer.int(4), answer.int(4)
			for range 2 { // replicas, and those in sync
				answer.list(4, func() { answer.take(4) })
			}
			if number == p.number {
				leader = addresses[id]
			}
		})
	})
	return leader, answer.end()
}

const correlation = 1 // of all requests: there is one at a time

func kafkaRequest(key, version int64) *writer {
	return new(writer).int(2, key).int(2, version).int(4, correlation).text("thin-consumer")
}

func kafkaExchange(conn net.Conn, request *writer) (*reader, error) {
	answer, err := exchange(conn, request, answerTimeout)
	if err == nil && answer.int(4) != correlation {
		err = errors.New("an answer to another request")
	}
	return answer, err
}
