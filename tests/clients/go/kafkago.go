package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGo struct{ bootstrap string }

func newKafkaGo(bootstrap string) client { return &kafkaGo{bootstrap} }

func (k *kafkaGo) features() features {
	return features{
		Name: "kafka-go", Version: version("github.com/segmentio/kafka-go"),
		Codecs: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Idempotence: []bool{false}, Assign: true,
		Protocols: []string{"classic"}, Blurs: true,
	}
}

func (k *kafkaGo) produce(topic, codec string, _ bool, records []record) error {
	codecs := map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var messages []kafka.Message
	for _, r := range records {
		one := kafka.Message{Time: time.UnixMilli(r.Timestamp), Key: r.Key, Value: r.Value, WriterData: int(r.Partition)}
		for _, h := range r.Headers {
			one.Headers = append(one.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		messages = append(messages, one)
	}
	writer := &kafka.Writer{
		// A transport of its own, since the shared one remembers for seconds which topics there are.
		Addr: kafka.TCP(k.bootstrap), Transport: &kafka.Transport{}, Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codecs[codec],
		BatchBytes: 16 << 20, BatchTimeout: 5 * time.Millisecond,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return err
	}
	return writer.Close()
}

func kafkaGoRecord(m kafka.Message) record {
	one := record{
		Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value,
	}
	for _, h := range m.Headers {
		one.Headers = append(one.Headers, header{h.Key, h.Value})
	}
	return one
}

func (k *kafkaGo) consume(parts []part, take *missing) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return eachPart(parts, func(p part) error { return k.read(ctx, p, take) })
}

func (k *kafkaGo) read(ctx context.Context, p part, take *missing) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.bootstrap}, Topic: p.Topic, Partition: int(p.Partition), MaxBytes: 16 << 20,
		MaxWait: 500 * time.Millisecond,
	})
	var err error
	if p.From.Timestamp != nil {
		err = reader.SetOffsetAt(ctx, time.UnixMilli(*p.From.Timestamp))
	} else {
		err = reader.SetOffset(*p.From.Offset)
	}
	for last := int64(-1); err == nil && last < p.End-1; {
		var m kafka.Message
		if m, err = reader.ReadMessage(ctx); err == nil {
			last = m.Offset
			take.take(kafkaGoRecord(m))
		}
	}
	if err != nil {
		return fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, err)
	}
	return reader.Close()
}

type kafkaGoMember struct {
	sync.Mutex
	reader *kafka.Reader
	parts  []topicPartition
	ended  chan error
	cancel context.CancelFunc
}

// The reader tells its assignment in its log alone.
var inLog = regexp.MustCompile(`topic:(\S+) partition:(\d+)`)

func (k *kafkaGo) join(group, protocol string, topics []string, take *kept) (member, error) {
	if protocol != "classic" {
		return nil, errUnsupported
	}
	m := &kafkaGoMember{ended: make(chan error, 1)}
	m.reader = kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.bootstrap}, GroupID: group, GroupTopics: topics, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 300 * time.Millisecond, MaxWait: 500 * time.Millisecond, RebalanceTimeout: 5 * time.Second,
		Logger: kafka.LoggerFunc(m.said),
	})
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		for {
			// Commits what it returned before.
			one, err := m.reader.ReadMessage(ctx)
			if errors.Is(err, context.Canceled) {
				m.ended <- nil
				return
			}
			if err != nil {
				m.ended <- err
				return
			}
			take.take(kafkaGoRecord(one))
		}
	}()
	return m, nil
}

func (m *kafkaGoMember) said(format string, args ...any) {
	if !strings.HasPrefix(format, "subscribed to topics and partitions") {
		return
	}
	m.Lock()
	defer m.Unlock()
	m.parts = nil
	for _, found := range inLog.FindAllStringSubmatch(fmt.Sprintf(format, args...), -1) {
		number, _ := strconv.Atoi(found[2])
		m.parts = append(m.parts, topicPartition{found[1], int32(number)})
	}
}

func (m *kafkaGoMember) look() ([]topicPartition, error) {
	m.Lock()
	defer m.Unlock()
	select {
	case err := <-m.ended:
		return nil, err
	default:
		return slices.Clone(m.parts), nil
	}
}

func (m *kafkaGoMember) leave() error {
	m.cancel()
	if err := <-m.ended; err != nil {
		return err
	}
	return m.reader.Close()
}

func (k *kafkaGo) client() *kafka.Client {
	// A transport of its own, as above.
	return &kafka.Client{Addr: kafka.TCP(k.bootstrap), Transport: &kafka.Transport{}, Timeout: patience}
}

func (k *kafkaGo) create(topic string, partitions int32, configs map[string]string) error {
	about := kafka.TopicConfig{Topic: topic, NumPartitions: int(partitions), ReplicationFactor: 1}
	for name, value := range configs {
		about.ConfigEntries = append(about.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	answer, err := k.client().CreateTopics(context.Background(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{about}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (k *kafkaGo) describe(topic string) (int, map[string]string, error) {
	topics, err := k.client().Metadata(context.Background(), &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, nil, err
	}
	found, err := k.client().DescribeConfigs(context.Background(), &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}},
	})
	if err != nil {
		return 0, nil, err
	}
	configs := map[string]string{}
	for _, entry := range found.Resources[0].ConfigEntries {
		configs[entry.ConfigName] = entry.ConfigValue
	}
	return len(topics.Topics[0].Partitions), configs, found.Resources[0].Error
}

func (k *kafkaGo) remove(topic string) (bool, error) {
	answer, err := k.client().DeleteTopics(context.Background(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return false, err
	}
	if err := answer.Errors[topic]; err != nil {
		return false, err
	}
	topics, err := k.client().Metadata(context.Background(), &kafka.MetadataRequest{})
	if err != nil {
		return false, err
	}
	left := slices.ContainsFunc(topics.Topics, func(t kafka.Topic) bool { return t.Name == topic && t.Error == nil })
	return left, nil
}
