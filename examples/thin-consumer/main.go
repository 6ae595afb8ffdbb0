// A consumer of Sluicegate's push protocol, written from docs/reference/push-protocol.md with Go's standard library.
// This file is the push protocol, top to bottom: who coordinates, registering, answering the coordinator's calls, and
// the frames all that is made of. fetch.go reads records by Kafka's protocol.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The ids of the types of messages.
const (
	clusterMetadata  = 30001
	registerConsumer = 30002
	ping             = 30003
	stopFetcher      = 30004
	startFetcher     = 30005
)

const (
	retryAfter  = 200 * time.Millisecond
	dialTimeout = 2 * time.Second
	frameMax    = 64 << 20
)

var began = time.Now()

type consumer struct {
	bootstrap            []string
	group, id            string
	topics, reset        string
	session              time.Duration
	work                 context.Context // ends at SIGTERM, and with what cannot be mended
	fail                 context.CancelCauseFunc
	held                 *assignment
	called               atomic.Int64 // when the coordinator called last, in nanoseconds since `began`
	pingsSinceAskedToEnd int
}

func main() {
	c := consumer{}
	bootstrap := flag.String("bootstrap", "localhost:9092", "brokers: host:port,host:port")
	flag.StringVar(&c.group, "group", "thin", "the group")
	flag.StringVar(&c.id, "id", "", "this consumer's id, its own within the group; without it one is made up")
	flag.StringVar(&c.topics, "topics", "*1*.*", `what to read: *STREAMS*REGEX, !STREAMS!REGEX or {"topic": STREAMS}`)
	flag.StringVar(&c.reset, "reset", "smallest", "where to begin without a committed offset: smallest or largest")
	flag.DurationVar(&c.session, "session", 6*time.Second, "who is silent for so long counts as gone, on either side")
	flag.Parse()
	c.bootstrap = strings.Split(*bootstrap, ",")
	if c.id == "" {
		host, _ := os.Hostname()
		c.id = fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano())
	}
	log.SetFlags(log.Ltime | log.Lmicroseconds)

	signals, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(signals, forget) // so that a second signal ends the program at once
	c.work, c.fail = context.WithCancelCause(signals)
	for c.work.Err() == nil {
		if err := c.run(); err != nil {
			log.Printf("%v", err)
			pause(c.work, retryAfter)
		}
	}
	if signals.Err() == nil {
		log.Fatal(context.Cause(c.work))
	}
}

// run is one registration: from looking for the coordinator until that is lost, or until this consumer was shut down.
func (c *consumer) run() error {
	coordinator, err := c.discover()
	if err != nil {
		return fmt.Errorf("no coordinator: %w", err)
	}
	conn, err := net.DialTimeout("tcp", coordinator, dialTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	request := new(writer).int(2, registerConsumer).text(c.group).text(c.id).text(c.topics)
	request.int(1, 1).text(c.reset).int(4, c.session.Milliseconds()) // the 1 is auto_commit
	answer, err := exchange(conn, request, c.session)
	if err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	if err := c.outcome(answer.int(2), answer); err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	log.Printf("registered %s at %s", c.id, coordinator)

	c.called.Store(int64(time.Since(began)))
	c.held = newAssignment(c)
	defer func() { c.held.stop() }() // whatever ends the registration: from then on others may read what we had
	for c.pingsSinceAskedToEnd < 2 {
		// Nothing for a whole session: the coordinator is gone, or thinks that we are. A call that we find after that
		// is one that we slept through.
		call, err := receive(conn, c.session)
		if err == nil && c.isSuspicious() {
			err = os.ErrDeadlineExceeded
		}
		if err != nil {
			return fmt.Errorf("the coordinator %s is lost: %w", coordinator, err)
		}
		c.called.Store(int64(time.Since(began)))
		answer, err := c.answer(call)
		if err != nil {
			return fmt.Errorf("a call of the coordinator %s: %w", coordinator, err)
		}
		if err := send(conn, answer); err != nil {
			return err
		}
	}
	return nil
}

// isSuspicious is whether nothing has come for a whole session. A program that was stopped, or that hung, may be about
// to deliver a record before it has noticed: somebody else has that partition by now.
func (c *consumer) isSuspicious() bool {
	return time.Since(began)-time.Duration(c.called.Load()) > c.session
}

// resetOffset is where to begin without a committed offset, or when what comes next is not there any more.
func (c *consumer) resetOffset() int64 {
	if c.reset == "largest" {
		return end
	}
	return beginning
}

// discover asks one broker after the other for the address of the group's coordinator.
func (c *consumer) discover() (string, error) {
	var last error
	for _, address := range c.bootstrap {
		coordinator, err := c.ask(address)
		if err == nil {
			return coordinator, nil
		}
		last = fmt.Errorf("%s: %w", address, err)
	}
	return "", last
}

func (c *consumer) ask(address string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answer, err := exchange(conn, new(writer).int(2, clusterMetadata).text(c.group), c.session)
	if err != nil {
		return "", err
	}
	code, id, addresses := answer.int(2), answer.int(4), brokers(answer)
	if err := c.outcome(code, answer); err != nil {
		return "", err
	}
	if addresses[id] == "" {
		return "", fmt.Errorf("coordinator %d is not among the brokers", id)
	}
	return addresses[id], nil
}

// outcome is the error that an answer tells of. Asking again changes nothing about most of them, which end the program.
func (c *consumer) outcome(code int64, answer *reader) error {
	if err := answer.end(); err != nil || code == 0 {
		return err
	}
	switch code {
	case 14, 15: // the coordinator is not there yet
	case 16: // it is another broker
	case 111: // our id is still taken, by our last connection
	default:
		c.fail(fmt.Errorf("refused with error %d: see docs/reference/push-protocol.md", code))
	}
	return fmt.Errorf("error %d", code)
}

// answer does what the coordinator asks for.
func (c *consumer) answer(call *reader) (*writer, error) {
	kind, id := call.int(2), call.text()
	answer := new(writer).int(2, kind).int(2, 0).text(c.id)
	switch kind {
	case ping:
		call.int(4) // how often the coordinator has repeated it
		if c.work.Err() != nil {
			// We end: the first of these answers has the last offsets, the second ping says that they have come.
			c.held.stop()
			c.pingsSinceAskedToEnd++
		}
		c.held.writeOffsets(answer)
	case stopFetcher:
		c.held.stop()
		c.held.writeOffsets(answer)
		c.held = newAssignment(c)
	case startFetcher:
		c.held.stop()
		c.held = newAssignment(c)
		c.held.readOwnership(call)
	default:
		call.fail("its type is %d", kind)
	}
	if err := call.end(); err != nil {
		return nil, err
	}
	if id != c.id {
		return nil, fmt.Errorf("it is for %q", id)
	}
	if kind == startFetcher {
		c.held.start()
	}
	return answer, nil
}

// readOwnership reads what a StartFetcher gives us.
func (a *assignment) readOwnership(call *reader) {
	call.list(2, func() {
		thread := call.text()
		call.list(2, func() {
			p := &partition{thread: thread, topic: call.text(), leader: -1}
			leader, number, led := strings.Cut(call.text(), "-")
			if led {
				p.leader = call.number(leader)
			} else { // nobody leads it: only its number is there
				number = leader
			}
			p.number = call.number(number)
			p.position.Store(call.int(8))
			a.partitions = append(a.partitions, p)
		})
	})
	a.addresses = brokers(call)
}

// writeOffsets answers with the next offset of each partition that we have.
func (a *assignment) writeOffsets(answer *writer) {
	answer.int(2, int64(len(a.partitions)))
	for _, p := range a.partitions {
		answer.text(p.topic).text(strconv.FormatInt(p.number, 10)).int(8, p.position.Load())
	}
}

// brokers reads a list of brokers, as addresses by their ids.
func brokers(frame *reader) map[int64]string {
	addresses := map[int64]string{}
	frame.list(2, func() { frame.readBroker(addresses) })
	return addresses
}

func (r *reader) readBroker(addresses map[int64]string) {
	id, host, port := r.int(4), r.text(), r.int(4)
	addresses[id] = net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

// change and record are what this program prints, one of them on a line of JSON.
type change struct {
	Event      string   `json:"event"` // assigned or stopped
	Partitions []string `json:"partitions"`
}

type record struct {
	Event     string  `json:"event"` // record
	Thread    string  `json:"thread"`
	Topic     string  `json:"topic"`
	Partition int64   `json:"partition"`
	Offset    int64   `json:"offset"`
	Key       *string `json:"key"`
	Value     *string `json:"value"`
}

func printLine(line any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		log.Fatalf("stdout: %v", err)
	}
}

// exchange sends a request and reads its answer. There is one at a time: frames of this protocol have no numbers.
func exchange(conn net.Conn, request *writer, timeout time.Duration) (*reader, error) {
	if err := send(conn, request); err != nil {
		return nil, err
	}
	return receive(conn, timeout)
}

// send writes a frame: its size, then its fields.
func send(conn net.Conn, frame *writer) error {
	conn.SetWriteDeadline(time.Now().Add(dialTimeout))
	_, err := conn.Write(append(new(writer).int(4, int64(len(frame.bytes))).bytes, frame.bytes...))
	return err
}

func receive(conn net.Conn, timeout time.Duration) (*reader, error) {
	conn.SetReadDeadline(time.Now().Add(timeout))
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(size)
	if length > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	frame := &reader{rest: make([]byte, length)}
	_, err := io.ReadFull(conn, frame.rest)
	return frame, err
}

// writer puts a frame together.
type writer struct{ bytes []byte }

func (w *writer) int(size int, value int64) *writer {
	for shift := 8 * (size - 1); shift >= 0; shift -= 8 {
		w.bytes = append(w.bytes, byte(value>>shift))
	}
	return w
}

func (w *writer) text(value string) *writer {
	w.int(2, int64(len(value)))
	w.bytes = append(w.bytes, value...)
	return w
}

// reader takes a frame apart. After the first thing that is not there it reads zeros, and has an error.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(size int64) []byte {
	if size < 0 || size > int64(len(r.rest)) {
		r.fail("%d bytes are wanted of %d", size, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	taken := r.rest[:size]
	r.rest = r.rest[size:]
	return taken
}

func (r *reader) fail(format string, arguments ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("a bad frame: "+format, arguments...)
	}
}

// int reads a signed number of 1, 2, 4 or 8 bytes.
func (r *reader) int(size int64) int64 {
	var value int64
	for _, b := range r.take(size) {
		value = value<<8 | int64(b)
	}
	unused := 64 - 8*size
	return value << unused >> unused
}

// text reads a string, "" also where it is null.
func (r *reader) text() string { return string(r.take(max(r.int(2), 0))) }

// list reads a count of so many bytes and so many items.
func (r *reader) list(size int64, item func()) {
	for count := r.int(size); count > 0 && r.err == nil; count-- {
		item()
	}
}

// number reads a number that is written as text.
func (r *reader) number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		r.fail("%q is no number", text)
	}
	return value
}

func (r *reader) end() error {
	if len(r.rest) > 0 {
		r.fail("%d bytes are left", len(r.rest))
	}
	return r.err
}

func pause(work context.Context, duration time.Duration) {
	select {
	case <-work.Done():
	case <-time.After(duration):
	}
}
