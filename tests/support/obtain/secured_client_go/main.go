// A producer and consumer with franz-go over TLS and SASL. Its argument is one JSON object; see the type settings. It
// sends numbered records for the given time, reads all of them again, and says how many; or why that is impossible.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Bootstrap, Topic, Mechanism, User, Password, Token, Authority, Certificate, Key string
	Milliseconds                                                                    int
}

func (s settings) mechanism() sasl.Mechanism {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: s.Token}.AsMechanism()
	}
	return nil
}

func (s settings) tls() (*tls.Config, error) {
	if s.Authority == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.Authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	config := &tls.Config{RootCAs: trusted}
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (s settings) client() (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap),
		kgo.DefaultProduceTopic(s.Topic),
		kgo.ConsumeTopics(s.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordDeliveryTimeout(20 * time.Second),
	}
	if mechanism := s.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	config, err := s.tls()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	return kgo.NewClient(options...)
}

func run() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	bounded, over := context.WithTimeout(context.Background(), 60*time.Second)
	defer over()
	if err := client.Ping(bounded); err != nil {
		return err
	}
	sent := 0
	for end := time.Now().Add(time.Duration(s.Milliseconds) * time.Millisecond); sent == 0 || time.Now().Before(end); sent++ {
		record := kgo.StringRecord(strconv.Itoa(sent))
		if err := client.ProduceSync(bounded, record).FirstErr(); err != nil {
			return err
		}
	}
	for read := 0; read < sent; {
		fetches := client.PollFetches(bounded)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) != strconv.Itoa(read) {
				return fmt.Errorf("%q is where %d should be", record.Value, read)
			}
			read++
		}
	}
	fmt.Printf("%d records\n", sent)
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
