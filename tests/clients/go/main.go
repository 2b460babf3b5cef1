// The agents of the Go clients: `agent CLIENT BOOTSTRAP` answers commands, one JSON object a line, as ../README.md says.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// shownBytes: values longer than this are told by their hash, so that answers stay readable.
const shownBytes = 256

// patience ends a command that hangs; the test has a limit of its own.
const patience = 90 * time.Second

var errUnsupported = errors.New("the library has no such feature")

type ask struct {
	Cmd        string            `json:"cmd"`
	Topic      string            `json:"topic"`
	Topics     []string          `json:"topics"`
	Codec      string            `json:"codec"`
	Idempotent bool              `json:"idempotent"`
	File       string            `json:"file"`
	Parts      []part            `json:"parts"`
	Member     string            `json:"member"`
	Group      string            `json:"group"`
	Protocol   string            `json:"protocol"`
	Partitions int32             `json:"partitions"`
	Configs    map[string]string `json:"configs"`
}

// part is one partition to read: from an offset or a time, up to an end offset.
type part struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      struct {
		Offset    *int64 `json:"offset"`
		Timestamp *int64 `json:"timestamp"`
	} `json:"from"`
	End int64 `json:"end"`
}

type header struct {
	Key   string
	Value []byte
}

// record to be produced, or one that was read.
type record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []header
}

type features struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Codecs      []string `json:"codecs"`
	Idempotence []bool   `json:"idempotence"`
	Assign      bool     `json:"assign"`
	Protocols   []string `json:"protocols"`
	Lacks       []string `json:"lacks"`
	Blurs       bool     `json:"blurs"`
}

type topicPartition struct {
	Topic     string
	Partition int32
}

// member of a group: polls in goroutines of its own.
type member interface {
	look() ([]topicPartition, error)
	// leave commits what was polled and leaves the group.
	leave() error
}

type client interface {
	features() features
	produce(topic, codec string, idempotent bool, records []record) error
	consume(parts []part, take *missing) error
	join(group, protocol string, topics []string, take *kept) (member, error)
	create(topic string, partitions int32, configs map[string]string) error
	describe(topic string) (partitions int, configs map[string]string, err error)
	remove(topic string) (left bool, err error)
}

// missing is what a read still has to see; keeps what was seen.
type missing struct {
	sync.Mutex
	ends    map[topicPartition]int64
	records []record
}

// take keeps a record that lies before its partition's end.
func (m *missing) take(r record) {
	m.Lock()
	defer m.Unlock()
	name := topicPartition{r.Topic, r.Partition}
	end, wanted := m.ends[name]
	if !wanted || r.Offset >= end {
		return
	}
	m.records = append(m.records, r)
	if r.Offset == end-1 {
		delete(m.ends, name)
	}
}

func (m *missing) done() bool {
	m.Lock()
	defer m.Unlock()
	return len(m.ends) == 0
}

// kept is what a member has read.
type kept struct {
	sync.Mutex
	records []record
}

func (k *kept) take(r record) {
	k.Lock()
	defer k.Unlock()
	k.records = append(k.records, r)
}

// readAtOnce bounds the partitions that a client reads at a time which has a reader for each.
const readAtOnce = 32

// ends tells how far each partition was read.
func (k *kept) ends() map[int32]int64 {
	k.Lock()
	defer k.Unlock()
	ends := map[int32]int64{}
	for _, r := range k.records {
		ends[r.Partition] = max(ends[r.Partition], r.Offset+1)
	}
	return ends
}

// eachPart runs read for every partition, some at a time, and gives the first error.
func eachPart(parts []part, read func(part) error) error {
	turn := make(chan struct{}, readAtOnce)
	ended := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			turn <- struct{}{}
			ended <- read(p)
			<-turn
		}()
	}
	var first error
	for range parts {
		if err := <-ended; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func show(data []byte) *string {
	if data == nil {
		return nil
	}
	text := base64.StdEncoding.EncodeToString(data)
	if len(data) > shownBytes {
		sum := sha256.Sum256(data)
		text = "sha256:" + hex.EncodeToString(sum[:])
	}
	return &text
}

func unshow(text *string) []byte {
	if text == nil {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		panic(err)
	}
	if data == nil {
		data = []byte{}
	}
	return data
}

type jsonRecord struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp int64        `json:"timestamp"`
	Key       *string      `json:"key"`
	Value     *string      `json:"value"`
	Headers   [][2]*string `json:"headers"`
}

func readRecords(path string) ([]record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var records []record
	decoder := json.NewDecoder(bufio.NewReader(file))
	for decoder.More() {
		var line jsonRecord
		if err := decoder.Decode(&line); err != nil {
			return nil, err
		}
		r := record{Partition: line.Partition, Timestamp: line.Timestamp, Key: unshow(line.Key), Value: unshow(line.Value)}
		for _, h := range line.Headers {
			r.Headers = append(r.Headers, header{*h[0], unshow(h[1])})
		}
		records = append(records, r)
	}
	return records, nil
}

func writeRecords(path string, records []record) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	for _, r := range records {
		line := jsonRecord{r.Topic, r.Partition, r.Offset, r.Timestamp, show(r.Key), show(r.Value), [][2]*string{}}
		for _, h := range r.Headers {
			line.Headers = append(line.Headers, [2]*string{&h.Key, show(h.Value)})
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// version of a module of this program.
func version(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version[1:]
		}
	}
	return "?"
}

type joined struct {
	member member
	kept   *kept
}

func answer(c client, members map[string]joined, a ask) (any, error) {
	switch a.Cmd {
	case "features":
		return c.features(), nil
	case "produce":
		records, err := readRecords(a.File)
		if err != nil {
			return nil, err
		}
		return map[string]int{"records": len(records)}, c.produce(a.Topic, a.Codec, a.Idempotent, records)
	case "consume":
		m := &missing{ends: map[topicPartition]int64{}}
		for _, p := range a.Parts {
			m.ends[topicPartition{p.Topic, p.Partition}] = p.End
		}
		if err := c.consume(a.Parts, m); err != nil {
			return nil, err
		}
		return map[string]int{"records": len(m.records)}, writeRecords(a.File, m.records)
	case "join":
		k := &kept{}
		m, err := c.join(a.Group, a.Protocol, a.Topics, k)
		if err != nil {
			return nil, err
		}
		members[a.Member] = joined{m, k}
		return map[string]int{}, nil
	case "look":
		m := members[a.Member]
		parts, err := m.member.look()
		named := [][2]any{}
		for _, p := range parts {
			named = append(named, [2]any{p.Topic, p.Partition})
		}
		return map[string]any{"partitions": named, "ends": m.kept.ends()}, err
	case "leave":
		m := members[a.Member]
		delete(members, a.Member)
		if err := m.member.leave(); err != nil {
			return nil, err
		}
		return map[string]int{"records": len(m.kept.records)}, writeRecords(a.File, m.kept.records)
	case "create":
		return map[string]int{}, c.create(a.Topic, a.Partitions, a.Configs)
	case "describe":
		partitions, configs, err := c.describe(a.Topic)
		return map[string]any{"partitions": partitions, "configs": configs}, err
	case "delete":
		left, err := c.remove(a.Topic)
		return map[string]bool{"left": left}, err
	}
	return nil, fmt.Errorf("unknown command %q", a.Cmd)
}

func main() {
	makers := map[string]func(string) client{"franz": newFranz, "sarama": newSarama, "kafka-go": newKafkaGo}
	c := makers[os.Args[1]](os.Args[2])
	members := map[string]joined{}
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	encoder := json.NewEncoder(os.Stdout)
	for decoder.More() {
		var a ask
		if err := decoder.Decode(&a); err != nil {
			panic(err)
		}
		said, err := answer(c, members, a)
		if errors.Is(err, errUnsupported) {
			said = map[string]string{"unsupported": err.Error()}
		} else if err != nil {
			said = map[string]string{"error": err.Error()}
		}
		if err := encoder.Encode(said); err != nil {
			panic(err)
		}
	}
}
