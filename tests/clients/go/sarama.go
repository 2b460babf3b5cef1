package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{ bootstrap []string }

func newSarama(bootstrap string) client { return &saramaClient{[]string{bootstrap}} }

func (s *saramaClient) features() features {
	return features{
		Name: "sarama", Version: version("github.com/IBM/sarama"),
		Codecs: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Idempotence: []bool{true, false}, Assign: true,
		Protocols: []string{"classic"},
	}
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return config
}

func (s *saramaClient) produce(topic, codec string, idempotent bool, records []record) error {
	config := saramaConfig()
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config.Producer.Compression = codecs[codec]
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = 16 << 20
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	if idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var sent []*sarama.ProducerMessage
	for _, r := range records {
		one := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp)}
		if r.Key != nil {
			one.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			one.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			one.Headers = append(one.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		sent = append(sent, one)
	}
	return producer.SendMessages(sent)
}

func saramaRecord(m *sarama.ConsumerMessage) record {
	one := record{
		Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value,
	}
	for _, h := range m.Headers {
		one.Headers = append(one.Headers, header{string(h.Key), h.Value})
	}
	return one
}

func (s *saramaClient) consume(parts []part, take *missing) error {
	cl, err := sarama.NewClient(s.bootstrap, saramaConfig())
	if err != nil {
		return err
	}
	defer cl.Close()
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return err
	}
	defer consumer.Close()
	return eachPart(parts, func(p part) error { return saramaRead(cl, consumer, p, take) })
}

func saramaRead(cl sarama.Client, consumer sarama.Consumer, p part, take *missing) error {
	var start int64
	if p.From.Timestamp != nil {
		var err error
		if start, err = cl.GetOffset(p.Topic, p.Partition, *p.From.Timestamp); err != nil {
			return err
		}
	} else {
		start = *p.From.Offset
	}
	reader, err := consumer.ConsumePartition(p.Topic, p.Partition, start)
	if err != nil {
		return err
	}
	for last := start - 1; last < p.End-1; {
		select {
		case m := <-reader.Messages():
			last = m.Offset
			take.take(saramaRecord(m))
		case err := <-reader.Errors():
			return err
		case <-time.After(patience):
			return fmt.Errorf("%s-%d stands at %d of %d", p.Topic, p.Partition, last, p.End)
		}
	}
	return reader.Close()
}

type saramaMember struct {
	sync.Mutex
	group   sarama.ConsumerGroup
	take    *kept
	parts   []topicPartition
	failure error
	ended   chan struct{}
	cancel  context.CancelFunc
}

func (s *saramaClient) join(group, protocol string, topics []string, take *kept) (member, error) {
	if protocol != "classic" {
		return nil, errUnsupported
	}
	cg, err := sarama.NewConsumerGroup(s.bootstrap, group, saramaConfig())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: cg, take: take, ended: make(chan struct{}), cancel: cancel}
	go func() {
		for err := range cg.Errors() {
			m.fail(err)
		}
	}()
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			if err := cg.Consume(ctx, topics, m); err != nil {
				m.fail(err)
				return
			}
		}
	}()
	return m, nil
}

func (m *saramaMember) fail(err error) {
	m.Lock()
	defer m.Unlock()
	m.failure = err
}

// Setup is sarama's call at the start of a generation.
func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.Lock()
	defer m.Unlock()
	m.parts = nil
	for topic, numbers := range session.Claims() {
		for _, number := range numbers {
			m.parts = append(m.parts, topicPartition{topic, number})
		}
	}
	return nil
}

// Cleanup is sarama's call at the end of a generation.
func (m *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	m.Lock()
	defer m.Unlock()
	m.parts = nil
	return nil
}

// ConsumeClaim reads one partition for as long as the member owns it.
func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.take.take(saramaRecord(message))
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) look() ([]topicPartition, error) {
	m.Lock()
	defer m.Unlock()
	return slices.Clone(m.parts), m.failure
}

func (m *saramaMember) leave() error {
	m.cancel()
	<-m.ended
	if err := m.group.Close(); err != nil {
		return err
	}
	_, err := m.look()
	return err
}

func (s *saramaClient) create(topic string, partitions int32, configs map[string]string) error {
	admin, err := sarama.NewClusterAdmin(s.bootstrap, saramaConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	given := map[string]*string{}
	for name, value := range configs {
		given[name] = &value
	}
	return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: given}, false)
}

func (s *saramaClient) describe(topic string) (int, map[string]string, error) {
	admin, err := sarama.NewClusterAdmin(s.bootstrap, saramaConfig())
	if err != nil {
		return 0, nil, err
	}
	defer admin.Close()
	topics, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, nil, err
	}
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	configs := map[string]string{}
	for _, entry := range entries {
		configs[entry.Name] = entry.Value
	}
	return len(topics[0].Partitions), configs, err
}

func (s *saramaClient) remove(topic string) (bool, error) {
	admin, err := sarama.NewClusterAdmin(s.bootstrap, saramaConfig())
	if err != nil {
		return false, err
	}
	defer admin.Close()
	if err := admin.DeleteTopic(topic); err != nil {
		return false, err
	}
	topics, err := admin.ListTopics()
	_, left := topics[topic]
	return left, err
}
