'use strict';
// Requests and answers as bytes, as described in protocol.md.

const { LeafdError, broken, invalid, statusOf } = require('./errors.js');
const { checkLayout } = require('./layout.js');

const VERSION = 1;
const HEADER_BYTES = 12;
const REPLY_LENGTH_MAX = 1 << 20;
const COUNT_MAX = 1_000_000;
const NUMBERS_MAX = 1_000;
const DEADLINE_MS_MAX = 60_000;
const TAG_CHARACTERS_MAX = 128;
const MESSAGE_CHARACTERS_MAX = 4096; // longer messages are truncated
const RUN_BYTES = 16;
const ID_MAX = 2n ** 63n - 1n;

const INFO = 1;
const IDS = 2;
const MASK = 4;
const UNMASK = 5;
const SERIES_NEXT = 8;
const REPLY = 128; // added to the request's opcode
const FLAG_HOLD = 1;
const FLAG_TEXT = 2;

const u16 = (number) => Buffer.of(number, number >>> 8);
const u32 = (number) => Buffer.of(number, number >>> 8, number >>> 16, number >>> 24);

/** A request. Its id is set when it is sent. */
function request(opcode, flags, ...parts) {
  const frame = Buffer.concat([Buffer.alloc(HEADER_BYTES), ...parts]);
  frame.writeUInt32LE(frame.length - 4, 0);
  frame.set([opcode, flags], 4);
  return frame;
}

const infoRequest = (versionMin, versionMax) => request(INFO, 0, u16(versionMin), u16(versionMax));
const idsRequest = (hold, count, deadlineMs, tag) => (
  request(IDS, hold ? FLAG_HOLD : 0, u32(count), u32(deadlineMs), u16(tag.length), tag));

function seriesRequest(count, deadlineMs, series, tenant) {
  const name = tenant.length === 0 ? series : Buffer.concat([series, Buffer.from('/'), tenant]);
  return request(SERIES_NEXT, 0, u32(count), u32(deadlineMs), u16(name.length), name);
}

/** Makes a MASK or UNMASK request. Its items are buffers of 8 bytes or, with a prefix (which may be empty), of text. */
function maskRequest(opcode, { bits, key, prefix }, tag, items) {
  const start = Buffer.from(prefix ?? '');
  const texts = prefix !== undefined && opcode === UNMASK;
  return request(opcode, prefix === undefined ? 0 : FLAG_TEXT, Buffer.of(bits, key), u16(items.length), u16(tag.length),
    u16(start.length), tag, start, ...(texts ? items.flatMap((item) => [Buffer.of(item.length), item]) : items));
}

/** The header of a reply, from at least 12 bytes. */
function readHeader(bytes) {
  const length = bytes.readUInt32LE(0);
  if (length < HEADER_BYTES - 4 || length > REPLY_LENGTH_MAX) throw broken('a reply has an impossible length');
  return { frameBytes: 4 + length, opcode: bytes[4], status: bytes.readUInt16LE(6), id: bytes.readUInt32LE(8) };
}

/** The answer to a request for ids; with hold, fewer than the count are allowed. */
function readIds(body, count, hold) {
  const number = body.length < 8 ? 0 : body.readUInt16LE(4);
  if (number === 0 || body.length !== 8 + number * RUN_BYTES) {
    throw broken("the number of runs differs from the answer's length");
  }
  const runs = [];
  let total = 0;
  for (let at = 8; at < body.length; at += RUN_BYTES) {
    const run = { first: body.readBigInt64LE(at), count: body.readUInt32LE(at + 8), stride: body.readUInt32LE(at + 12) };
    if (run.first < 1n || run.count < 1 || run.stride < 1
      || run.first + BigInt(run.count - 1) * BigInt(run.stride) > ID_MAX) {
      throw broken('a run is empty or exceeds the signed 64-bit numbers');
    }
    total += run.count;
    runs.push(run);
  }
  if (total > count || (!hold && total < count)) throw broken('an answer does not have the number of ids that was requested');
  return { holdMs: body.readUInt32LE(0), runs };
}

/** The items of the answer to a MASK or UNMASK request for `count` of them. */
function readMasked(body, count) {
  const length = body.length < 4 ? 0 : body.readUInt16LE(2);
  if (length === 0 || body.readUInt16LE(0) !== count || body.length !== 4 + count * length) {
    throw broken('an answer does not have the number of public ids that was requested');
  }
  return Array.from({ length: count }, (_, index) => body.subarray(4 + index * length, 4 + (index + 1) * length));
}

/** The texts of the answer to a request for `count` document numbers. */
function readNumbers(body, count) {
  const texts = body.toString('latin1').split('\n');
  if (texts.length !== count || texts.includes('')) {
    throw broken('an answer does not have the document numbers that were requested');
  }
  return texts;
}

/** The answer to INFO. Later daemons may append fields, which are ignored. */
function readInfo(body) {
  let at = 0;
  const take = (bytes) => {
    if (at + bytes > body.length) throw broken('the answer to INFO ends too early');
    at += bytes;
    return body.subarray(at - bytes, at);
  };
  const u16 = () => take(2).readUInt16LE();
  const u32 = () => take(4).readUInt32LE();
  const text = () => take(u16()).toString();
  const [version, ready] = [u16(), u16()];
  const [requestBytesMax, countMax, pipelineMax, deadlineMsMax, pid, release] = [u32(), u32(), u32(), u32(), u32(), text()];
  const layouts = {};
  for (let left = u16(); left > 0; left--) {
    const [name, bits] = [text(), take(4)];
    const layout = { timeBits: bits[0], workerBits: bits[1], sequenceBits: bits[2], tickMs: u32(),
      epochMs: Number(take(8).readBigUInt64LE()) };
    try {
      checkLayout(layout);
    } catch (error) {
      throw broken(`a layout is not valid: ${error.message}`);
    }
    layouts[name] = layout;
  }
  return { version, segmentsReady: (ready & 1) !== 0, snowflakeReady: (ready & 2) !== 0, requestBytesMax, countMax, pipelineMax,
    deadlineMsMax, pid, release, layouts };
}

/** The error of an answer whose status is not OK. */
function readRefusal(number, body) {
  if (body.length < 4) return broken('an answer ends too early');
  const text = body.toString('utf8', 4);
  const message = text.length > MESSAGE_CHARACTERS_MAX ? `${text.slice(0, MESSAGE_CHARACTERS_MAX)}...` : text;
  return new LeafdError(statusOf(number).name, `leafd: ${statusOf(number).name}: ${message}`,
    { retryAfterMs: body.readUInt32LE(0), statusNumber: number });
}

/** Returns the bytes of a name, after the same checks as in the daemon. */
function tagBytes(tag, what = 'tag') {
  if (typeof tag !== 'string') throw invalid(`a ${what} is a string, not ${typeof tag}`);
  const characters = [...tag].length;
  if (characters < 1 || characters > TAG_CHARACTERS_MAX) {
    throw invalid(`a ${what} has 1 to ${TAG_CHARACTERS_MAX} characters; this one has ${characters}`);
  }
  if (/\p{Cc}|\p{Cs}/u.test(tag)) {
    throw invalid(`the ${what} ${JSON.stringify(tag)} has a control character or half of a surrogate pair`);
  }
  return Buffer.from(tag);
}

module.exports = { COUNT_MAX, DEADLINE_MS_MAX, HEADER_BYTES, IDS, INFO, MASK, NUMBERS_MAX, REPLY, SERIES_NEXT, UNMASK, VERSION,
  idsRequest, infoRequest, maskRequest, readHeader, readIds, readInfo, readMasked, readNumbers, readRefusal, seriesRequest,
  tagBytes };
