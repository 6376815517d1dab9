'use strict';
// One connection, which passes each reply to its request.

const net = require('node:net');
const { LeafdError, broken, statusOf } = require('./errors.js');
const { HEADER_BYTES, REPLY, readHeader, readRefusal } = require('./wire.js');

/** The connection ended, and its requests may be retried on another one. */
class Break extends Error {}

class Connection {
  #socket;
  #received = Buffer.alloc(0);
  #inFlight = new Map();
  #lastId = 0;
  #onEnd;
  served = false;
  ended = false;

  /** Calls onConnect when the connection is open, and onEnd(error) when it has ended. */
  constructor(path, onConnect, onEnd) {
    this.#onEnd = onEnd;
    // The timers of waiting calls keep the process alive.
    this.#socket = net.connect(path).unref();
    this.#socket.on('connect', onConnect);
    this.#socket.on('data', (bytes) => this.#receive(bytes));
    this.#socket.on('error', (error) => this.end(error));
    this.#socket.on('close', () => this.end(new Error('the daemon closed it')));
  }

  get inFlight() { return this.#inFlight.size; }

  /** Sends a frame, and calls done(error, body) once. */
  send(frame, done) {
    // Ids start at 1, because the id 0 marks connection-level errors.
    this.#lastId = (this.#lastId % 0xffff_ffff) + 1;
    frame.writeUInt32LE(this.#lastId, 8);
    this.#inFlight.set(this.#lastId, { opcode: frame[4], done });
    // All requests of one turn of the event loop are sent in one write.
    this.#socket.cork();
    process.nextTick(() => this.#socket.uncork());
    this.#socket.write(frame);
  }

  /** Closes the connection and fails all its requests. */
  end(error) {
    if (this.ended) return;
    this.ended = true;
    this.#socket.destroy();
    this.#onEnd(error);
    const why = error instanceof LeafdError ? error : new Break(error.message, { cause: error });
    for (const request of this.#inFlight.values()) request.done(why);
  }

  #receive(bytes) {
    this.#received = this.#received.length > 0 ? Buffer.concat([this.#received, bytes]) : bytes;
    try {
      while (!this.ended && this.#received.length >= HEADER_BYTES) {
        const header = readHeader(this.#received);
        if (this.#received.length < header.frameBytes) return;
        const body = this.#received.subarray(HEADER_BYTES, header.frameBytes);
        this.#received = this.#received.subarray(header.frameBytes);
        this.#dispatch(header, body);
      }
    } catch (error) {
      this.end(error);
    }
  }

  #dispatch({ opcode, status, id }, body) {
    const { closes } = statusOf(status);
    if (id === 0 && closes) throw readRefusal(status, body); // a connection-level error applies to all requests
    const request = this.#inFlight.get(id);
    if (request === undefined || opcode !== request.opcode + REPLY) throw broken('a reply belongs to no request');
    this.#inFlight.delete(id);
    this.served ||= status === 0;
    const refusal = status === 0 ? undefined : readRefusal(status, body);
    // The connection ends first, so that a refused request is not sent again on it.
    if (closes) this.end(new Error('the daemon closed it'));
    request.done(refusal, body);
    if (refusal?.code === 'PROTOCOL') throw refusal;
  }
}

module.exports = { Break, Connection };
