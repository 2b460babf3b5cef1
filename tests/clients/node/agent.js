// What the Node agents share: the command loop and the form of records. The commands are described in ../README.md.
'use strict'

const { createHash } = require('node:crypto')
const { readFileSync, writeFileSync } = require('node:fs')
const readline = require('node:readline')

// Values longer than this are told by their hash, so that answers stay readable.
const SHOWN_BYTES = 256

class Unsupported extends Error {}

const show = data => {
  if (data === null || data === undefined) return null
  const bytes = Buffer.from(data)
  if (bytes.length > SHOWN_BYTES) return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  return bytes.toString('base64')
}

const unshow = text => (text === null ? null : Buffer.from(text, 'base64'))

// The records to produce, by partition.
const readRecords = path =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(line => line)
    .map(line => {
      const { partition, timestamp, key, value, headers } = JSON.parse(line)
      return {
        partition,
        timestamp,
        key: unshow(key),
        value: unshow(value),
        headers: headers.map(([name, data]) => [name, unshow(data)]),
      }
    })

const writeRecords = (path, records) => writeFileSync(path, records.map(record => `${JSON.stringify(record)}\n`).join(''))

// What a read still has to see: each partition up to its end offset.
class Missing {
  constructor(parts) {
    this.ends = new Map(parts.map(p => [`${p.topic}/${p.partition}`, p.end]))
    this.records = []
  }

  // Keeps a record that lies before its partition's end.
  take(record) {
    const name = `${record.topic}/${record.partition}`
    const end = this.ends.get(name)
    if (end === undefined || record.offset >= end) return
    this.records.push(record)
    if (record.offset === end - 1) this.ends.delete(name)
    if (this.done() && this.whole) this.whole()
  }

  done() {
    return this.ends.size === 0
  }

  // Resolves when every partition was read to its end.
  wait() {
    return this.done() ? Promise.resolve() : new Promise(resolve => (this.whole = resolve))
  }
}

// How far each partition was read.
const ends = records => {
  const ends = {}
  for (const { partition, offset } of records) ends[partition] = Math.max(ends[partition] || 0, offset + 1)
  return ends
}

const serve = async client => {
  const members = new Map()
  const commands = {
    features: () => client.features(),
    produce: async ask => {
      const records = readRecords(ask.file)
      await client.produce(ask, records)
      return { records: records.length }
    },
    consume: async ask => {
      const missing = new Missing(ask.parts)
      if (!missing.done()) await client.consume(ask.parts, missing)
      writeRecords(ask.file, missing.records)
      return { records: missing.records.length }
    },
    join: async ask => {
      members.set(ask.member, await client.join(ask.group, ask.protocol, ask.topics))
      return {}
    },
    look: ask => members.get(ask.member).look(),
    leave: async ask => {
      const member = members.get(ask.member)
      members.delete(ask.member)
      await member.leave()
      writeRecords(ask.file, member.records)
      return { records: member.records.length }
    },
    create: ask => client.create(ask),
    describe: ask => client.describe(ask),
    delete: ask => client.remove(ask),
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line)
    let answer
    try {
      answer = await commands[ask.cmd](ask)
    } catch (why) {
      answer = why instanceof Unsupported ? { unsupported: why.message } : { error: `${why.stack}` }
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`)
  }
  process.exit(0)
}

module.exports = { Unsupported, ends, show, serve }
