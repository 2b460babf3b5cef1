// @platformatic/kafka. It needs a newer Node than the others: the one that ../node/package.json installs.
'use strict'

const { randomUUID } = require('node:crypto')
const { readFileSync } = require('node:fs')
const path = require('node:path')
const { Admin, ConfigResourceTypes, Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer, ProduceAcks } = require('@platformatic/kafka')
const agent = require('./agent')

const BASE = { clientId: 'odradek-test', bootstrapBrokers: [process.argv[2]] }

const aboutPackage = path.join(path.dirname(require.resolve('@platformatic/kafka')), '..', 'package.json')

const recordOf = message => ({
  topic: message.topic,
  partition: message.partition,
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  key: agent.show(message.key),
  value: agent.show(message.value),
  headers: message.headerEntries.map(([name, data]) => [name.toString(), agent.show(data)]),
})

class Member {
  constructor(group, protocol, take) {
    this.records = []
    this.partitions = []
    this.take = take
    // Heartbeats of the consumer protocol come as often as the broker says.
    const classic = { heartbeatInterval: 300, sessionTimeout: 45000, rebalanceTimeout: 60000 }
    this.consumer = new Consumer({
      ...BASE,
      groupId: group,
      groupProtocol: protocol,
      maxWaitTime: 300,
      maxBytes: 16 << 20,
      autocommit: 100,
      ...(protocol === 'classic' ? classic : { rebalanceTimeout: 60000 }),
    })
  }

  async start(about) {
    this.stream = await this.consumer.consume(about)
    this.stream.on('error', failure => {
      this.failure = failure
      if (this.failed) this.failed(failure)
    })
    // It gives what a fetch from before a rebalance brings, though another member has the partition by then. So an assignment
    // counts when a fetch has ended: the next one asks for it.
    this.stream.on('fetch', () => (this.partitions = this.assigned()))
    this.stream.on('data', message => {
      const record = recordOf(message)
      this.records.push(record)
      if (this.take) this.take(record)
    })
    return this
  }

  look() {
    if (this.failure) throw this.failure
    return { partitions: this.assigned().length ? this.partitions : [], ends: agent.ends(this.records) }
  }

  assigned() {
    return (this.consumer.assignments || []).flatMap(({ topic, partitions }) => partitions.map(part => [topic, part]))
  }

  async leave() {
    await this.stream.close()
    await this.consumer.close()
  }
}

const withAdmin = async act => {
  const admin = new Admin(BASE)
  try {
    return await act(admin)
  } finally {
    await admin.close()
  }
}

agent.serve({
  features: () => ({
    name: '@platformatic/kafka',
    version: JSON.parse(readFileSync(aboutPackage, 'utf8')).version,
    codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
    idempotence: [true, false],
    assign: false,
    protocols: ['classic', 'consumer'],
    lacks: [],
    blurs: false,
  }),

  produce: async ({ topic, codec, idempotent }, records) => {
    const producer = new Producer({ ...BASE, idempotent, acks: ProduceAcks.ALL, compression: codec })
    const messages = records.map(({ partition, timestamp, key, value, headers }) => ({
      topic,
      partition,
      timestamp: BigInt(timestamp),
      key,
      value,
      // Names are told apart by identity, so that one may come twice.
      headers: new Map(headers.map(([name, data]) => [Buffer.from(name), data])),
    }))
    await producer.send({ messages })
    await producer.close()
  },

  // It cannot assign: a group of its own that begins at the given offsets.
  consume: async (parts, missing) => {
    const member = new Member(`reader-${randomUUID()}`, 'classic', record => missing.take(record))
    const offsets = []
    for (const { topic, partition, from } of parts) {
      let offset = from.offset
      if (offset === undefined) {
        const found = await member.consumer.listOffsets({
          topics: [topic], partitions: { [topic]: [partition] }, timestamp: BigInt(from.timestamp),
        })
        offset = found.get(topic)[partition]
      }
      offsets.push({ topic, partition, offset: BigInt(offset) })
    }
    const failed = new Promise((_, reject) => (member.failed = reject))
    const topics = [...new Set(parts.map(p => p.topic))]
    await member.start({ topics, mode: MessagesStreamModes.MANUAL, offsets, autocommit: false })
    await Promise.race([missing.wait(), failed])
    await member.leave()
  },

  join: (group, protocol, topics) =>
    new Member(group, protocol).start({
      topics, mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST,
    }),

  create: ({ topic, partitions, configs }) =>
    withAdmin(async admin => {
      const entries = Object.entries(configs).map(([name, value]) => ({ name, value }))
      await admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: entries })
      return {}
    }),

  describe: ({ topic }) =>
    withAdmin(async admin => {
      const { topics } = await admin.metadata({ topics: [topic] })
      const [found] = await admin.describeConfigs({ resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }] })
      const configs = Object.fromEntries(found.configs.map(({ name, value }) => [name, value]))
      return { partitions: topics.get(topic).partitionsCount, configs }
    }),

  remove: ({ topic }) =>
    withAdmin(async admin => {
      await admin.deleteTopics({ topics: [topic] })
      return { left: (await admin.listTopics()).includes(topic) }
    }),
})
