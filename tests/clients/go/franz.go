package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ bootstrap string }

func newFranz(bootstrap string) client { return &franz{bootstrap} }

func (f *franz) features() features {
	return features{
		Name: "franz-go", Version: version("github.com/twmb/franz-go"),
		Codecs: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Idempotence: []bool{true, false}, Assign: true,
		Protocols: []string{"classic", "consumer"},
	}
}

func (f *franz) produce(topic, codec string, idempotent bool, records []record) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap), kgo.ProducerBatchCompression(codecs[codec]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(16 << 20), kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var sent []*kgo.Record
	for _, r := range records {
		one := &kgo.Record{
			Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp), Key: r.Key, Value: r.Value,
		}
		for _, h := range r.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		sent = append(sent, one)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return cl.ProduceSync(ctx, sent...).FirstErr()
}

func franzRecord(r *kgo.Record) record {
	one := record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		one.Headers = append(one.Headers, header{h.Key, h.Value})
	}
	return one
}

func (f *franz) consume(parts []part, take *missing) error {
	starts := map[string]map[int32]kgo.Offset{}
	for _, p := range parts {
		if starts[p.Topic] == nil {
			starts[p.Topic] = map[int32]kgo.Offset{}
		}
		if p.From.Timestamp != nil {
			starts[p.Topic][p.Partition] = kgo.NewOffset().AfterMilli(*p.From.Timestamp)
		} else {
			starts[p.Topic][p.Partition] = kgo.NewOffset().At(*p.From.Offset)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap), kgo.ConsumePartitions(starts))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !take.done() {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) { take.take(franzRecord(r)) })
	}
	return nil
}

type franzMember struct {
	sync.Mutex
	cl     *kgo.Client
	parts  []topicPartition
	ended  chan error
	cancel context.CancelFunc
}

func (f *franz) join(group, protocol string, topics []string, take *kept) (member, error) {
	m := &franzMember{ended: make(chan error, 1)}
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) { m.change(assigned, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) { m.change(revoked, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { m.change(lost, false) }),
	}
	if protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	var err error
	if m.cl, err = kgo.NewClient(opts...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		for {
			fetches := m.cl.PollFetches(ctx)
			if ctx.Err() != nil {
				m.ended <- nil
				return
			}
			if err := fetches.Err(); err != nil {
				m.ended <- err
				return
			}
			fetches.EachRecord(func(r *kgo.Record) { take.take(franzRecord(r)) })
		}
	}()
	return m, nil
}

func (m *franzMember) change(parts map[string][]int32, added bool) {
	m.Lock()
	defer m.Unlock()
	for topic, numbers := range parts {
		for _, number := range numbers {
			name := topicPartition{topic, number}
			m.parts = slices.DeleteFunc(m.parts, func(p topicPartition) bool { return p == name })
			if added {
				m.parts = append(m.parts, name)
			}
		}
	}
}

func (m *franzMember) look() ([]topicPartition, error) {
	m.Lock()
	defer m.Unlock()
	select {
	case err := <-m.ended:
		return nil, err
	default:
		return slices.Clone(m.parts), nil
	}
}

func (m *franzMember) leave() error {
	m.cancel()
	if err := <-m.ended; err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.cl.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	if err := m.cl.LeaveGroupContext(ctx); err != nil {
		return err
	}
	m.cl.Close()
	return nil
}

func (f *franz) admin() (*kadm.Client, context.Context, context.CancelFunc, error) {
	cl, err := kadm.NewOptClient(kgo.SeedBrokers(f.bootstrap))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	return cl, ctx, cancel, err
}

func (f *franz) create(topic string, partitions int32, configs map[string]string) error {
	cl, ctx, cancel, err := f.admin()
	if err != nil {
		return err
	}
	defer cancel()
	defer cl.Close()
	given := map[string]*string{}
	for name, value := range configs {
		given[name] = &value
	}
	_, err = cl.CreateTopic(ctx, partitions, 1, given, topic)
	return err
}

func (f *franz) describe(topic string) (int, map[string]string, error) {
	cl, ctx, cancel, err := f.admin()
	if err != nil {
		return 0, nil, err
	}
	defer cancel()
	defer cl.Close()
	topics, err := cl.ListTopics(ctx, topic)
	if err != nil {
		return 0, nil, err
	}
	found, err := cl.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return 0, nil, err
	}
	configs := map[string]string{}
	for _, entry := range found[0].Configs {
		if entry.Value != nil {
			configs[entry.Key] = *entry.Value
		}
	}
	return len(topics[topic].Partitions), configs, found[0].Err
}

func (f *franz) remove(topic string) (bool, error) {
	cl, ctx, cancel, err := f.admin()
	if err != nil {
		return false, err
	}
	defer cancel()
	defer cl.Close()
	if _, err := cl.DeleteTopic(ctx, topic); err != nil {
		return false, err
	}
	topics, err := cl.ListTopics(ctx)
	return topics.Has(topic), err
}
