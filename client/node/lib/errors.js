'use strict';
// Errors, and the statuses of the protocol.

/** The statuses of the protocol by number: name, whether a retry may help, whether the daemon closes the connection. */
const STATUSES = [
  ['OK'], ['MALFORMED'], ['UNKNOWN_OPCODE'], ['VERSION', false, true], ['FRAME_LENGTH', false, true], ['TAG_INVALID'],
  ['TAG_UNKNOWN'], ['COUNT_INVALID'], ['DENIED'], ['OVERLOADED', true], ['DEADLINE', true], ['STORE_UNAVAILABLE', true],
  ['CLOCK_BEHIND', true], ['NO_WORKER', true], ['TAG_EXHAUSTED'], ['TIME_EXHAUSTED'], ['JOURNAL', true],
  ['SHUTTING_DOWN', true, true], ['TAG_EXISTS'], ['VALUE_REFUSED'], ['INTERNAL'], ['CONNECTION_LIMIT', true, true],
  ['STORE_REFUSED'], ['MASK_KEY'],
].map(([name, retryable = false, closes = false]) => ({ name, retryable, closes }));

/** An unknown status is treated like INTERNAL. */
const statusOf = (number) => STATUSES[number] ?? STATUSES[20];

/** Failures that the daemon did not report, and whether a retry may help. */
const CAUSES = {
  UNREACHABLE: true, DISCONNECTED: true, TIMED_OUT: true, NOT_READY: true, PROTOCOL: false, CLOSED: false,
  INVALID_ARGUMENT: false, UNSAFE_NUMBER: false,
};

class LeafdError extends Error {
  constructor(code, message, { retryable, retryAfterMs = 0, statusNumber, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    Object.assign(this, { name: 'LeafdError', code, retryAfterMs, statusNumber });
    const status = STATUSES.find(({ name }) => name === code);
    this.retryable = retryable ?? CAUSES[code] ?? status?.retryable ?? false;
    this.isTimeout = code === 'TIMED_OUT' || code === 'DEADLINE';
  }
}

const invalid = (message) => new LeafdError('INVALID_ARGUMENT', message);
const closed = () => new LeafdError('CLOSED', 'this client is closed');
const broken = (what) => new LeafdError('PROTOCOL', `the peer broke leafd's protocol: ${what}; check that the socket belongs to `
  + 'leafd and that the versions of client and daemon match');

module.exports = { CAUSES, LeafdError, STATUSES, broken, closed, invalid, statusOf };
