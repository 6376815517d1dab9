'use strict';
// The parts of snowflake ids.

const { LeafdError, invalid } = require('./errors.js');

const TICK_MS_MAX = 3_600_000;
const UNIX_MS_MAX = 2n ** 62n - 1n;

/** The layout of Leaf's snowflake ids, which leafd issues under the name "snowflake". */
const LEAF = Object.freeze({ timeBits: 41, workerBits: 10, sequenceBits: 12, tickMs: 1, epochMs: 1288834974657 });

/** Throws unless all ids of a layout are positive and all its instants are representable. */
function checkLayout({ timeBits, workerBits, sequenceBits, tickMs, epochMs }) {
  if (![timeBits, workerBits, sequenceBits, tickMs, epochMs].every((number) => Number.isInteger(number) && number >= 0)) {
    throw invalid('the members of a layout are whole numbers from 0');
  }
  if (timeBits < 1 || sequenceBits < 1 || timeBits + workerBits + sequenceBits > 63) {
    throw invalid('a layout has at least one bit each of time and sequence, and at most 63 bits together');
  }
  if (tickMs < 1 || tickMs > TICK_MS_MAX) throw invalid(`a tick lasts 1 to ${TICK_MS_MAX} ms, not ${tickMs}`);
  if (2n ** BigInt(timeBits) > (UNIX_MS_MAX - BigInt(epochMs)) / BigInt(tickMs)) {
    throw invalid("the layout's time bits reach beyond the last representable instant");
  }
}

/** Splits a snowflake id into its parts. */
function decode(id, layout = LEAF) {
  checkLayout(layout);
  const [value, worker, sequence] = [BigInt(id), BigInt(layout.workerBits), BigInt(layout.sequenceBits)];
  const tick = value >> (worker + sequence);
  if (value < 0n || tick >= 2n ** BigInt(layout.timeBits)) {
    throw invalid(`${id} is not an id of this layout: it has bits outside the layout's`);
  }
  return {
    time: new Date(layout.epochMs + Number(tick) * layout.tickMs),
    tick: Number(tick),
    worker: Number((value >> sequence) & (2n ** worker - 1n)),
    sequence: Number(value & (2n ** sequence - 1n)),
  };
}

/** Returns the smallest id that can be issued at a given time or later, for range queries by time. */
function firstIdAt(time, layout = LEAF) {
  checkLayout(layout);
  const tick = Math.floor((time.getTime() - layout.epochMs) / layout.tickMs);
  if (!(tick >= 0 && tick < 2 ** layout.timeBits)) throw invalid(`${time} is outside the layout's time`);
  return BigInt(tick) << BigInt(layout.workerBits + layout.sequenceBits);
}

/** An id as a number, if it is exact. */
function toNumber(id) {
  if (id > Number.MAX_SAFE_INTEGER) {
    throw new LeafdError('UNSAFE_NUMBER', `${id} is above 2^53 - 1, where numbers round; use nextId or nextString, or a tag with a `
      + 'ceiling or a layout that fits 53 bits');
  }
  return Number(id);
}

module.exports = { LEAF, checkLayout, decode, firstIdAt, toNumber };
