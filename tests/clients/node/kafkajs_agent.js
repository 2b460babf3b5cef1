// kafkajs.
'use strict'

const { randomUUID } = require('node:crypto')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')
const agent = require('./agent')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => zstd.compress(encoder.buffer),
  decompress: buffer => zstd.decompress(buffer),
})

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING })

// Headers are an object; a repeated name has a list.
const headersOf = pairs => {
  const headers = {}
  for (const [name, data] of pairs) {
    headers[name] = name in headers ? [].concat(headers[name], [data]) : data
  }
  return headers
}

const recordOf = (topic, partition, message) => ({
  topic,
  partition,
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  key: agent.show(message.key),
  value: agent.show(message.value),
  headers: Object.entries(message.headers).flatMap(([name, data]) =>
    Array.isArray(data) ? data.map(one => [name, agent.show(one)]) : [[name, agent.show(data)]]
  ),
})

class Member {
  constructor(group, topics) {
    this.records = []
    this.partitions = []
    this.consumer = kafka.consumer({ groupId: group, heartbeatInterval: 300, maxWaitTimeInMs: 300 })
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.partitions = Object.entries(payload.memberAssignment).flatMap(([topic, parts]) => parts.map(part => [topic, part]))
    })
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      this.failure = payload.error
      if (this.failed) this.failed(payload.error)
    })
    this.topics = topics
  }

  async start(fromBeginning, take) {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: this.topics, fromBeginning })
    await this.consumer.run({
      eachMessage: async ({ topic, partition, message }) => {
        const record = recordOf(topic, partition, message)
        this.records.push(record)
        if (take) take(record)
      },
    })
    return this
  }

  look() {
    if (this.failure) throw this.failure
    return { partitions: this.partitions, ends: agent.ends(this.records) }
  }

  async leave() {
    await this.consumer.disconnect()
  }
}

const withAdmin = async act => {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await act(admin)
  } finally {
    await admin.disconnect()
  }
}

agent.serve({
  features: () => ({
    name: 'kafkajs',
    version: require('kafkajs/package.json').version,
    codecs: Object.keys(CODECS),
    idempotence: [true, false],
    assign: false,
    protocols: ['classic'],
    lacks: ['null header value'],
    blurs: false,
  }),

  produce: async ({ topic, codec, idempotent }, records) => {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : null })
    await producer.connect()
    const messages = records.map(({ partition, timestamp, key, value, headers }) => ({
      partition,
      timestamp: `${timestamp}`,
      key,
      value,
      headers: headersOf(headers),
    }))
    await producer.send({ topic, acks: -1, compression: CODECS[codec], messages })
    await producer.disconnect()
  },

  // It cannot assign: a group of its own that begins at the end of each partition and seeks from there.
  consume: async (parts, missing) => {
    const starts = await withAdmin(async admin => {
      const starts = []
      for (const { topic, partition, from } of parts) {
        let offset = from.offset
        if (offset === undefined) {
          const found = await admin.fetchTopicOffsetsByTimestamp(topic, from.timestamp)
          offset = found.find(one => one.partition === partition).offset
        }
        starts.push({ topic, partition, offset: `${offset}` })
      }
      return starts
    })
    const member = new Member(`reader-${randomUUID()}`, [...new Set(parts.map(p => p.topic))])
    const failed = new Promise((_, reject) => (member.failed = reject))
    await member.start(false, record => missing.take(record))
    starts.forEach(start => member.consumer.seek(start))
    await Promise.race([missing.wait(), failed])
    await member.leave()
  },

  join: async (group, protocol, topics) => {
    if (protocol !== 'classic') throw new agent.Unsupported('classic groups only')
    return new Member(group, topics).start(true)
  },

  create: ({ topic, partitions, configs }) =>
    withAdmin(async admin => {
      const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
      // It would fail on the errors that Apache Kafka gives until its metadata has the topic.
      await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }] })
      return {}
    }),

  describe: ({ topic }) =>
    withAdmin(async admin => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      const { resources } = await admin.describeConfigs({
        resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
        includeSynonyms: false,
      })
      const configs = Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
      return { partitions: topics[0].partitions.length, configs }
    }),

  remove: ({ topic }) =>
    withAdmin(async admin => {
      await admin.deleteTopics({ topics: [topic] })
      return { left: (await admin.listTopics()).includes(topic) }
    }),
})
